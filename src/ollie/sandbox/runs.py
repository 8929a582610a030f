"""One run, as the server sees it: what it is asked to be, how it goes on, and how it ended."""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ollie.protocol.policy import Limits, Policy
from ollie.sandbox.processes import Usage, usage
from ollie.sandbox.requests import RESTRICTED, Deliver, End, Exit, Made, Message, Ready, Reason, receive_answer


class SandboxError(RuntimeError):
    """A run that did not start; the text is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run.

    Args:
        argv: the program and its arguments; without a slash the program is looked for in `env["PATH"]`.
        call: instead of `argv`, `module:function` to call in the restricted child (`calls.py`).
        env: the whole environment.
        cwd: where it runs, without links.
        policy: expanded; None for no sandbox at all. What `add_exec` adds does not depend on `env`.
        limits: what holds when there is no policy; the policy's own hold otherwise.
        stdin, stdout, stderr: descriptors, which stay the caller's to close; -1 is /dev/null.
        broker: becomes descriptor 3; -1 for none.
        background: the run ends when all its processes have; else when the first has, and the others are ended.
        grace_s: between SIGTERM and SIGKILL for what is left over, and when the server or the launcher is gone.
    """

    argv: tuple[str, ...] = ()
    call: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    policy: Policy | None = None
    limits: Limits = field(default_factory=Limits)
    stdin: int = -1
    stdout: int = -1
    stderr: int = -1
    broker: int = -1
    background: bool = False
    grace_s: float = 2.0


class Run:
    """A program that runs, with all that it starts. Made by `Launcher.spawn`.

    Args:
        ready: its reaper, and what is not enforced.
        job: the socket to the process that becomes the program; closed here.
        tell: gives a message to the reaper.
        made: takes over a ruleset that the process has made.
        when_ended: called at the end.

    Attributes:
        reaper_pid: the process that everything of the run descends from; 0 after the end, since it takes another run.
        pid: the first process of the program.
        notes: what the policy asks for and is not enforced.
    """

    def __init__(
        self,
        ready: Ready,
        job: socket.socket,
        tell: Callable[[Message], None],
        made: Callable[[Made], None],
        when_ended: "Callable[[Run], None]",
    ) -> None:
        self.reaper_pid = ready.reaper_pid
        self.pid = ready.pid
        self.notes = ready.notes
        self._job = job
        self._restricted = False
        self._tell = tell
        self._made = made
        self._when_ended = when_ended
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[bool] = self._loop.create_future()
        self._exit: Exit | None = None
        self._waiters: list[asyncio.Future[None]] = []
        # By its number: asyncio first prints a socket that it does not know yet, for which it makes two system calls.
        self._loop.add_reader(job.fileno(), self._answered)

    async def wait(self) -> Exit:
        """How the run ended, when nothing of it is alive. The end of its pipes is not waited for."""
        if self._exit is None:
            # One each: shielding a shared one takes another turn of the loop.
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
            assert self._exit is not None
        return self._exit

    async def kill(self, grace_s: float, reason: Reason = "cancelled") -> None:
        """End the run: SIGTERM to all of it, SIGKILL after a grace in seconds; returns when nothing of it is alive.

        Cancelling this call does not take the order back. A second call can only shorten the grace.
        """
        if self._exit is None:
            self._tell(End(reason, grace_s))
        await self.wait()

    def signal(self, number: int) -> None:
        """Signal the process group of the first process; after its end this does nothing."""
        if self._exit is None:
            self._tell(Deliver(int(number)))

    def usage(self) -> Usage:
        """Processes and memory of the run now; zero after its end."""
        return Usage(0, 0) if self._exit else usage(self.reaper_pid)

    async def started(self) -> bool:
        """Wait until the program runs; False when its process died before. To be waited for once.

        Raises:
            SandboxError: what failed.
        """
        return await self._started

    def unstarted(self) -> None:
        """Nobody was there to take the plan."""
        self._settle(runs=False)

    def ended(self, how: Exit) -> None:
        """The reaper has said how it ended, or has gone without a word, when nothing is left of the run either."""
        self._close_door()
        self.reaper_pid = 0
        self._exit = how._replace(notes=self.notes + how.notes)
        for waiter in self._waiters:
            if not waiter.done():  # else it was cancelled
                waiter.set_result(None)
        self._when_ended(self)

    def _answered(self) -> None:
        """What the process says: that it is restricted, and nothing more when the program runs; or what failed."""
        while self._job.fileno() >= 0:
            try:
                answer = receive_answer(self._job)
            except BlockingIOError:
                return
            except ConnectionResetError:  # it has not read the plan
                answer, self._restricted = b"", False
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                continue  # no room for what it made, which later ones do without
            if isinstance(answer, Made):
                self._made(answer)
            elif answer == RESTRICTED:
                self._restricted = True
            elif answer:
                self._settle(runs=False, failure=answer.decode(errors="replace"))
            else:
                self._settle(runs=self._restricted)

    def _close_door(self) -> None:
        """Have it known whether the program could run: whoever has not said `RESTRICTED` cannot say it any more.

        A process that cannot say it executes nothing, so a start that is repeated afterwards has not happened.
        """
        if self._job.fileno() >= 0:
            with suppress(OSError):
                self._job.shutdown(socket.SHUT_RD)
        self._answered()
        self._settle(runs=False)

    def _settle(self, *, runs: bool, failure: str = "") -> None:
        if self._job.fileno() >= 0:
            self._loop.remove_reader(self._job)
            self._job.close()
        if not self._started.done():  # else it is known, or was cancelled
            if failure:
                self._started.set_exception(SandboxError(failure))
            else:
                self._started.set_result(runs)
