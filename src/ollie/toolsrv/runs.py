"""What runs, and what has run: one `Run` for each execution of a tool, in a table by its number.

A run's life is a table of transitions. `starting` has a number and no process yet, `running` a process, `stopping` one
that was told to end and is not known to be gone, `exited` none. Whoever waits for a run waits for `exited`, which is
entered only when nothing of it is alive and its output is complete.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic, time

from ninep.errors import NinepError
from ollie.sandbox.launcher import Exit
from ollie.sandbox.launcher import Run as Process
from ollie.sandbox.processes import ancestors
from ollie.toolsrv.output import Output


class State(StrEnum):
    """The state of a run, as served."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


class Event(StrEnum):
    """What happens to a run."""

    SPAWNED = "spawned"
    STOPPED = "stopped"
    ENDED = "ended"


TRANSITIONS = {
    (State.STARTING, Event.SPAWNED): State.RUNNING,
    (State.STARTING, Event.STOPPED): State.STOPPING,
    (State.STARTING, Event.ENDED): State.EXITED,
    (State.RUNNING, Event.STOPPED): State.STOPPING,
    (State.RUNNING, Event.ENDED): State.EXITED,
    # Told to stop before it had a process: it gets one all the same, and that is ended at once.
    (State.STOPPING, Event.SPAWNED): State.STOPPING,
    (State.STOPPING, Event.STOPPED): State.STOPPING,
    (State.STOPPING, Event.ENDED): State.EXITED,
    (State.EXITED, Event.STOPPED): State.EXITED,
}


@dataclass(frozen=True)
class Task:
    """What a run was asked to do, and for whom."""

    tool: str
    command: str
    agent: str
    session: str
    background: bool

    @property
    def told(self) -> bool:
        """Whether its end is told to somebody: to the agent that does not wait for it."""
        return self.background and bool(self.agent)


@dataclass(frozen=True)
class Keep:
    """How long finished background runs stay in the table, and how many bytes of output they may hold together."""

    age_s: float = 3600
    output_bytes: int = 128 * 1024 * 1024


class Run:
    """One execution of a tool.

    Args:
        number: Its number, the `pid` of the name space.
        task: What it was asked to do.
        output: What it prints; closed at its end.
        forget: Takes it out of its table.

    Attributes:
        process: What runs; None before it was started and after its end.
        exit: How it ended; None before, and when it never had a process.
        failure: Why it never had a process; empty otherwise.
        ended_at: When it ended, on the monotonic clock; None before.
    """

    def __init__(self, number: int, task: Task, output: Output, forget: "Callable[[Run], None]") -> None:
        self._forget = forget
        self.number = number
        self.task = task
        self.output = output
        self.state = State.STARTING
        self.process: Process | None = None
        self.exit: Exit | None = None
        self.failure = ""
        self.started_at = time()
        self.ended_at: float | None = None
        self._begun = monotonic()
        self._started = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def runtime_s(self) -> float:
        """Seconds since its start, up to its end."""
        return (monotonic() if self.ended_at is None else self.ended_at) - self._begun

    @property
    def exit_code(self) -> int:
        """The exit code as a shell tells it: 128 + N for signal N, 127 for what never ran; once it has exited."""
        if self.exit is None:
            return 127
        return 128 + (self.exit.signal or signal.SIGKILL) if self.exit.status is None else self.exit.status

    def spawned(self, process: Process) -> None:
        """It has a process now."""
        self._enter(Event.SPAWNED)
        self.process = process
        self._started.set()

    def finished(self, end: Exit | None, failure: str = "") -> None:
        """Nothing of it is alive and its output is complete; `failure` says why it never had a process."""
        self._enter(Event.ENDED)
        self.exit = end
        self.failure = failure
        self.process = None
        self.ended_at = monotonic()
        self.output.close()
        self._started.set()
        self._ended.set()

    async def started(self) -> None:
        """Wait until it has a process, or has failed to get one."""
        await self._started.wait()

    async def ended(self) -> None:
        """Wait until nothing of it is alive."""
        await self._ended.wait()

    async def stop(self, grace_s: float) -> None:
        """End it: SIGTERM, after `grace_s` SIGKILL. Returns when nothing of it is alive; fine in every state."""
        self._enter(Event.STOPPED)
        if self.process is not None:
            await self.process.kill(grace_s)
        await self.ended()

    async def kill(self) -> None:
        """End it with SIGKILL, without a grace. Returns when nothing of it is alive."""
        if self.process is not None:
            self.process.signal(int(signal.SIGKILL))
        await self.stop(grace_s=0)

    def signal(self, number: int) -> None:
        """Send a signal to its processes.

        Raises:
            NinepError: `process N has exited`, or is not started yet.
        """
        if self.process is None:
            raise NinepError(f"process {self.number} {'has exited' if self.ended_at else 'has not started'}")
        self.process.signal(int(number))

    def dismiss(self) -> None:
        """Take it out of the table; readers that have it open keep it.

        Raises:
            NinepError: `process N has not exited`.
        """
        if self.state is not State.EXITED:
            raise NinepError(f"process {self.number} has not exited")
        self._forget(self)

    def _enter(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]


class Runs:
    """Every run by its number: the live ones, and the finished background ones until they are dismissed or old.

    Args:
        number: Gives the number of the next run; never the same twice.
        keep: How long finished ones stay.
    """

    def __init__(self, number: Callable[[], int], keep: Keep) -> None:
        self._number = number
        self._keep = keep
        self._runs: dict[int, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    @property
    def live(self) -> int:
        """How many have not ended."""
        return sum(run.state is not State.EXITED for run in self._runs.values())

    def live_of(self, agent: str) -> int:
        """How many of an agent have not ended."""
        return sum(run.state is not State.EXITED for run in self._runs.values() if run.task.agent == agent)

    def find(self, number: int) -> Run | None:
        """The run with that number; None when there is none, or none any more."""
        return self._runs.get(number)

    def open(self, task: Task, output: Output) -> Run:
        """A new run in the table, not started."""
        run = Run(self._number(), task, output, self._forget)
        self._runs[run.number] = run
        return run

    def owner(self, pid: int) -> Run | None:
        """The run that a process of this host belongs to; None for one of nobody, and for one that has ended."""
        reapers = {run.process.reaper_pid: run for run in self if run.process is not None}
        # From the top: below a reaper any id may be one that a reaper had which was killed, and nobody has noticed yet.
        above = reversed(ancestors(pid)[1:])
        return next((reapers[each] for each in above if each in reapers), None)

    def work(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `coroutine` to its end, whatever becomes of who asked for it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def kill_all(self, grace_s: float) -> None:
        """End every run. Returns when nothing of them is alive and no task is left."""
        if self._timer is not None:
            self._timer.cancel()
        for run in self:
            if run.state is not State.EXITED:
                self.work(run.stop(grace_s))
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def collect(self) -> None:
        """Drop what `overdue` names; a timer calls it again when the next run is due, and none runs without one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = monotonic()
        for run in overdue(self, now, self._keep):
            run.dismiss()
        ends = [run.ended_at for run in self if run.ended_at is not None]
        if ends:
            due_s = max(0, min(ends) + self._keep.age_s - now)
            self._timer = asyncio.get_running_loop().call_later(due_s, self.collect)

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.number, None)


def overdue(runs: Iterable[Run], now: float, keep: Keep) -> list[Run]:
    """The finished runs that are as old as `keep` allows at `now`, and the oldest of those that hold too much."""
    newest_first = sorted(
        (run for run in runs if run.ended_at is not None), key=lambda run: run.ended_at or 0, reverse=True
    )
    dropped = []
    held_bytes = 0
    for run in newest_first:
        held_bytes += run.output.kept_bytes
        if held_bytes > keep.output_bytes or now - (run.ended_at or 0) >= keep.age_s:
            dropped.append(run)
    return dropped
