"""A coroutine that runs at once, and becomes a task only when it really waits.

Most requests end without waiting, and a task for each would cost more than the request. So the first step is taken
inline. Three things must not suffer from it:

* `asyncio.timeout`, task groups and aiohttp ask for the current task. During an inline step that is the `Inline`
  itself; whatever they keep and cancel later is passed on to the task. (`_enter_task` is what asyncio documents for
  other implementations of tasks.)
* What the coroutine waits for is known before the task exists. The task is given that future first, and a cancellation
  that comes before the task took it reaches the future, as it would have in an ordinary task.
* A coroutine that waits for a bell is parked and makes no task: most blocked reads are that. What resumes it is not the
  step that rings the bell but `soon`, a little later.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CoroutineType
from typing import Any

from ninep.bell import PARK, Parkable

Done = Callable[[Any, BaseException | None], None]


class Inline(Coroutine[Any, Any, None], Parkable):
    """Runs `work`, and calls `done(result, None)` or `done(None, error)` in the step that ends it.

    Args:
        loop: where it goes on when it waits.
        work: a coroutine, or anything to await.
        done: must not raise.
        soon: calls what it is given in one of the next steps of the loop; the loop's `call_soon` when omitted.
    """

    __slots__ = (
        "_cancelled",
        "_coro",
        "_done",
        "_first",
        "_has_first",
        "_loop",
        "_must_cancel",
        "_parked",
        "_soon",
        "_task",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Awaitable[Any],
        done: Done,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._loop = loop
        self._coro: Coroutine[Any, Any, Any] = work if isinstance(work, CoroutineType) else _awaiting(work)
        self._done = done
        self._soon = soon or loop.call_soon
        self._task: asyncio.Task[None] | None = None
        self._first: Any = None
        self._has_first = False
        self._parked = False
        self._cancelled = 0
        self._must_cancel = False

    def start(self) -> None:
        """Take the first step; within another task too, whose step then goes on."""
        self._run(self._coro.send, None)

    def resume(self) -> None:
        """Take the next step soon, if it is parked."""
        if self._parked:
            self._parked = False
            self._soon(self._unpark)

    def _unpark(self) -> None:
        if self._must_cancel:
            self._must_cancel = False
            self._run(self._coro.throw, asyncio.CancelledError())
        else:
            self._run(self._coro.send, None)

    def _run(self, step: Callable[[Any], Any], arg: Any) -> None:
        """One step as the current task, and what comes after it."""
        current: Any = self
        loop = self._loop
        outer = asyncio.current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, current)
        try:
            waits_for = step(arg)
        except StopIteration as stop:
            self._done(stop.value, None)
            return
        except BaseException as error:  # noqa: BLE001  handed to whoever is told of the end
            self._done(None, error)
            return
        finally:
            _leave_task(loop, current)
            if outer is not None:
                _enter_task(loop, outer)
        if waits_for is PARK:
            self._parked = True
            if self._must_cancel:
                self.resume()
        else:
            self._go_on(waits_for)

    def _go_on(self, waits_for: Any) -> None:
        self._first, self._has_first = waits_for, True
        self._task = self._loop.create_task(self)
        if self._must_cancel:
            self._task.cancel()

    # What others do with the current task

    def cancel(self, msg: Any = None) -> bool:
        """As a task's: CancelledError where it waits."""
        if self._task is None:
            self._cancelled += 1
            self._must_cancel = True
            self.resume()
            return True
        return self._task.cancel(msg)

    def cancelling(self) -> int:
        """As a task's."""
        return self._cancelled if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        """As a task's."""
        if self._task is None:
            self._cancelled = max(0, self._cancelled - 1)
            self._must_cancel = self._must_cancel and self._cancelled > 0
            return self._cancelled
        return self._task.uncancel()

    def done(self) -> bool:
        """As a task's."""
        return self._task is not None and self._task.done()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """As a task's."""
        return self._loop

    # What the task does with its coroutine

    def send(self, value: Any) -> Any:
        """Go on; the first time with what the inline step stopped at."""
        if self._has_first:
            self._has_first = False
            first, self._first = self._first, None
            return first
        return self._step(self._coro.send, value)

    def throw(self, *exc: Any) -> Any:
        """Go on with an exception."""
        if self._has_first:
            self._has_first = False
            first, self._first = self._first, None
            if first is not None and first.cancel():
                return first
        return self._step(self._coro.throw, *exc)

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except StopIteration as stop:
            self._done(stop.value, None)
        except BaseException as error:  # noqa: BLE001  handed to whoever is told of the end
            self._done(None, error)
        raise StopIteration

    def close(self) -> None:
        """The loop is closed under it."""
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("an Inline is run by start() and by its task")


async def _awaiting(work: Awaitable[Any]) -> Any:
    return await work
