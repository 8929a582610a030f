"""One run, as the server sees it: what it is asked to be, how it goes on, and how it ended."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ollie.protocol.policy import Limits, Policy
from ollie.sandbox.processes import Usage, usage
from ollie.sandbox.requests import PACKET_BYTES, Deliver, End, Ended, Failed, Message, Reason, Started, decode, encode


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run.

    Args:
        argv: the program and its arguments; without a slash the program is looked for in `env["PATH"]`.
        call: instead of `argv`, `module:function` to call in the restricted child (`calls.py`).
        env: the whole environment.
        cwd: where it runs.
        policy: expanded; None for no sandbox at all.
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


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run ended.

    Args:
        status: exit status of the first process, None when a signal ended it or nobody knows.
        signal: that signal.
        reason: who or what ended the run.
        left_running: processes that the first one left behind and that were ended with the run.
        notes: what was not enforced, sentences.
    """

    status: int | None
    signal: int | None
    reason: Reason
    left_running: int
    notes: tuple[str, ...]


class Run:
    """A program that runs, with all that it starts. Made by `Launcher.spawn`.

    Attributes:
        reaper_pid: the process that everything of the run descends from.
        pid: the first process of the program.
        notes: what the policy asks for and is not enforced.
    """

    def __init__(self, control: socket.socket, notes: tuple[str, ...], ended: "Callable[[Run], None]") -> None:
        self.reaper_pid = 0
        self.pid = 0
        self.notes = notes
        self._control = control
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[Started | Failed | None] = loop.create_future()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._ended = ended
        loop.add_reader(control.fileno(), self._listen)

    async def wait(self) -> Exit:
        """How the run ended, when nothing of it is alive. The end of its pipes is not waited for."""
        return await asyncio.shield(self._exit)

    async def kill(self, grace_s: float, reason: Reason = "cancelled") -> None:
        """End the run: SIGTERM to all of it, SIGKILL after a grace in seconds; returns when nothing of it is alive.

        Cancelling this call does not take the order back. A second call can only shorten the grace.
        """
        self._tell(End(reason, grace_s))
        await self.wait()

    def signal(self, number: int) -> None:
        """Signal the process group of the first process; after its end this does nothing."""
        self._tell(Deliver(int(number)))

    def usage(self) -> Usage:
        """Processes and memory of the run now; zero after its end."""
        return Usage(0, 0) if self._exit.done() else usage(self.reaper_pid)

    async def started(self) -> Started | Failed | None:
        """What the reaper says about the start; None when it went away without a word."""
        return await asyncio.shield(self._started)

    async def closed(self) -> None:
        """Wait until the reaper is gone too."""
        await asyncio.shield(self._closed)

    def _tell(self, message: Message) -> None:
        if not self._exit.done():
            # A reaper that reads nothing for hundreds of messages is stopped: there is nobody to tell.
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                self._control.send(encode(message), socket.MSG_NOSIGNAL)

    def _listen(self) -> None:
        try:
            packet = self._control.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            packet = b""
        if not packet:
            self._lost()
            return
        message = decode(packet)
        if isinstance(message, Started):
            self.reaper_pid, self.pid = message.reaper_pid, message.pid
            self.notes += message.notes
            self._started.set_result(message)
        elif isinstance(message, Failed):
            self._started.set_result(message)
            self._finish(Exit(None, None, "lost", 0, self.notes))
        elif isinstance(message, Ended):
            self._finish(Exit(*message[:4], self.notes + message.notes))

    def _lost(self) -> None:
        """The socket ended. Without a report the reaper was killed, and what it left was ended by the launcher."""
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        if not self._started.done():
            self._started.set_result(None)
        self._finish(Exit(None, None, "lost", 0, self.notes))
        self._closed.set_result(None)
        self._ended(self)

    def _finish(self, result: Exit) -> None:
        if not self._exit.done():
            self._exit.set_result(result)
