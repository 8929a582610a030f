"""The driver of an agent's turns: gives events to the engine, and carries out the effects that come back.

The engine decides, and never waits; what waits is here, and decides nothing. Each piece of work is one task that lives
as long as it runs: a request to the model, a tool call, a barrier of the store. Between turns there is no task and no
timer. Events come from those tasks one at a time; the effects of one are carried out before the next is given, also
when carrying them out gives rise to another.

Every tool call answers, whatever becomes of its task: the answer is given by the callback of the task's end, which also
comes when the task was cancelled before it began.
"""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ollie.backends.interface import stream
from ollie.engine import events as ev
from ollie.engine.messages import BackendError, ErrorKind, Request
from ollie.engine.state import Phase, State
from ollie.engine.turn import step
from ollie.olliesrv.errors import RefusedError
from ollie.protocol.result import ToolResult, text
from ollie.store.rows import Seq, StoreError

if TYPE_CHECKING:
    from ollie.olliesrv.turns.runner import Runner

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Driver:
    """Drives the engine of one agent.

    Args:
        state: where its engine begins.
        runner: carries out what is the agent's own.
    """

    def __init__(self, state: State, runner: "Runner") -> None:
        self.state = state
        self.trouble = ""  # why nothing goes on, for people
        self._runner = runner
        self._events: deque[ev.Event] = deque()
        self._feeding = False
        self._closed = False
        self.last = Seq(0)  # of what was written
        self._timers: dict[ev.Timer, asyncio.TimerHandle] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._runs: dict[int, asyncio.Task[ToolResult]] = {}
        self._barriers: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Whether a turn may begin."""
        return self.state.phase is Phase.idle and not self._events

    @property
    def tasks(self) -> Sequence[asyncio.Task[Any]]:
        """The work that runs, for statistics and for the end."""
        return [*self._requests.values(), *self._runs.values(), *self._barriers]

    def feed(self, *events: ev.Event) -> None:
        """Give events to the engine, in this order, and carry out what it asks for. After `close` nothing happens."""
        if self._closed:
            return
        self._events.extend(events)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._events:
                self.state, effects = step(self.state, self._events.popleft())
                for effect in effects:
                    self._carry_out(effect)
        finally:
            self._feeding = False

    async def close(self, timeout_s: float) -> None:
        """End everything that runs, and return when it has ended or after that time; nothing is fed any more."""
        self._closed = True
        self._cancel_timers()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=timeout_s)

    def _carry_out(self, effect: ev.Effect) -> None:  # noqa: C901  a table, one line an effect
        match effect:
            case ev.Append(records):
                self.last = self._runner.append(records)
            case ev.Given(entries):
                self.last = self._runner.given(entries)
            case ev.Barrier(number):
                self._start_barrier(number)
            case ev.Ask(number, request):
                self._start_request(number, request)
            case ev.CancelModel(number):
                _cancel(self._requests.get(number))
            case ev.RunTool():
                self._start_run(effect)
            case ev.CancelTool(run):
                _cancel(self._runs.get(run))
            case ev.SetTimer():
                self._set_timer(effect)
            case ev.SetState() | ev.SetActivity():
                self._runner.advance()
            case ev.WritePlan(plan):
                self.last = self._runner.write_plan(plan)
            case ev.ClearHistory():
                self.last = self._runner.clear_history()
            case ev.TurnEnded():
                self._cancel_timers()
                self._runner.turn_ended(effect)

    # Requests to the model.

    def _start_request(self, number: int, request: Request) -> None:
        task = _task(self._ask(number, request), f"request {number}")
        self._requests[number] = task
        task.add_done_callback(lambda _: self._requests.pop(number, None))

    async def _ask(self, number: int, request: Request) -> None:
        try:
            async with contextlib.aclosing(stream(self._runner.backend(), request)) as replies:
                async for reply in replies:
                    self.feed(ev.Streamed(number, reply))
        except BackendError as error:
            self._fail(number, error)
        except RefusedError as error:
            self._fail(number, BackendError(ErrorKind.bad_request, str(error)))
        except Exception:  # noqa: BLE001  a fault of one backend ends one turn, not the server
            _log.exception("request %d failed", number)
            self._fail(number, BackendError(ErrorKind.refused, "internal error of the backend, see the server's log"))

    def _fail(self, number: int, error: BackendError) -> None:
        jitter = random.random()  # noqa: S311  spreads repeated requests, protects nothing
        self.feed(ev.ModelFailed(number, error.kind, error.message, error.retry_after_s, jitter))

    # Tool calls.

    def _start_run(self, effect: ev.RunTool) -> None:
        task = _task(self._runner.call_tool(effect.call, effect.arguments), f"tool {effect.call.name}")
        self._runs[effect.run] = task
        task.add_done_callback(partial(self._run_over, effect.run))

    def _run_over(self, run: int, task: asyncio.Task[ToolResult]) -> None:
        del self._runs[run]
        if task.cancelled():
            outcome = text("", is_error=True)
        elif error := task.exception():
            if not isinstance(error, RefusedError):
                _log.error("a tool call failed", exc_info=error)
            outcome = text(str(error), is_error=True)
        else:
            outcome = task.result()
        self.feed(ev.ToolDone(run, outcome))

    # Barriers and timers.

    def _start_barrier(self, number: int) -> None:
        task = _task(self._pass(number, self.last), f"barrier {number}")
        self._barriers.add(task)
        task.add_done_callback(self._barriers.discard)

    async def _pass(self, number: int, seq: Seq) -> None:
        """Wait until a change is durable. A store that cannot write, as on a full disk, tries again by itself."""
        await self._runner.stored(seq, self._in_trouble)
        self.trouble = ""
        self.feed(ev.Stored(number))

    def _in_trouble(self, error: StoreError) -> None:
        self.trouble = str(error)

    def _set_timer(self, effect: ev.SetTimer) -> None:
        if old := self._timers.pop(effect.timer, None):
            old.cancel()
        fired = ev.TimerFired(effect.timer, effect.number)
        self._timers[effect.timer] = asyncio.get_running_loop().call_later(effect.seconds, self.feed, fired)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def _task(coroutine: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
