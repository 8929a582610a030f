"""A bell: what blocked reads wait for.

A read that waits for a bell is no task. The server's `Inline` that runs it is parked, and goes on when the bell was
rung: after the step that rang it and before the reply of that step is written, so that a reader is told no later than
the writer. Anything else that waits for a bell, a task for instance, does so by a future.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final


class Parkable:  # no ABC: each wait asks whether the current task is one, and of an ABC that takes five times as long
    """Something that runs a coroutine as the current task, and that the coroutine may park by `await PARK`."""

    __slots__ = ()

    @abstractmethod
    def resume(self) -> None:
        """Let the coroutine go on, soon; means nothing while it is not parked."""


class _Park:
    def __await__(self) -> Generator[Any, None, None]:
        yield self


PARK: Final = _Park()


class Bell:
    """Wakes all that wait for it."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def wait(self) -> None:
        """Until it is rung."""
        who: Any = asyncio.current_task()
        if isinstance(who, Parkable):
            self._waiting[who] = who.resume
            try:
                await PARK
            finally:
                self._waiting.pop(who, None)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = partial(_wake, future)
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def ring(self) -> None:
        """Wake those that wait now, first come first."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
