"""The server's side of the launcher: start runs, wait for them, end them.

The server gives descriptors and a `Spec`, and gets a `Run` once the program runs. Each run has a socket of its own to
its reaper, so neither the launcher nor another run stands between; when the server is killed, the ends of these sockets
tell the reapers. A launcher that dies takes its runs with it (they are `lost`), and the next spawn starts another.
"""

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ollie.protocol.policy import Filesystem, Limits, Policy
from ollie.sandbox import landlock, plans, programs
from ollie.sandbox.probe import missing, probe
from ollie.sandbox.processes import Usage, children, usage
from ollie.sandbox.requests import (
    PACKET_BYTES,
    Deliver,
    End,
    Ended,
    Failed,
    Message,
    Plan,
    Reason,
    Start,
    Started,
    decode,
    encode,
    pack,
    packet_of,
    start_argument,
)
from ollie.sandbox.syscalls import become_subreaper

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from ollie.sandbox.launcher_main import main; main()"
)
_ATTEMPTS = 2
_CLOSE_GRACE_S = 2.0
_INLINE_BYTES = 32 << 10  # of a packet; what is longer goes into a memory file


class SandboxError(RuntimeError):
    """A run that did not start; the text is a sentence for the user."""


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


class Launcher:
    """The launcher process and its runs.

    Args:
        preload: names of modules that the launcher imports once, before any run, for `Spec.call`.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._sending = asyncio.Lock()
        self._runs: set[Run] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._kernel = probe()

    @property
    def pid(self) -> int | None:
        """The process that forks, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the launcher process, if there is none. The calling process becomes a child subreaper."""
        async with self._starting:
            if self._control is not None:
                return
            become_subreaper()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                start = Start(theirs.fileno(), os.getpid(), landlock.reaper_ruleset(self._kernel.abi), self._preload)
                self._process = await asyncio.to_thread(_launch, start)
            ours.setblocking(False)
            self._control = ours
            asyncio.get_running_loop().add_reader(ours, self._gone, ours, self._process)

    async def spawn(self, spec: Spec) -> Run:
        """Run a program; returns when it runs, restricted as its policy says.

        Raises:
            SandboxError: `cannot run foo: No such file or directory`; what the kernel lacks, with `best_effort: false`.
        """
        notes = self._unenforced(spec.policy)
        policy = spec.policy and programs.complete(spec.policy, spec.env)
        if policy and policy.advanced.ldd and spec.argv:
            policy = programs.with_libraries(policy, await self._libraries(spec, policy))
        try:
            plan = plans.plan(
                policy,
                spec.limits,
                self._kernel,
                argv=spec.argv,
                call=spec.call,
                env=spec.env,
                cwd=spec.cwd,
                background=spec.background,
                grace_s=spec.grace_s,
            )
        except plans.PlanError as error:
            raise SandboxError(str(error)) from None
        for _ in range(_ATTEMPTS):
            run = await self._request(spec, plan, notes)
            if run:
                return run
        raise SandboxError("the launcher of tools ended twice while it started this one")

    async def close(self) -> None:
        """End every run and the launcher. Returns when nothing of them is alive; may be called again."""
        await asyncio.gather(*(self._end(run) for run in tuple(self._runs)))
        if self._control is not None and self._process is not None:
            self._forget(self._control)
            await asyncio.to_thread(self._process.wait)
            self._process = None
        await asyncio.gather(*self._tasks)

    async def _end(self, run: Run) -> None:
        await run.kill(_CLOSE_GRACE_S)
        await run.closed()

    def _unenforced(self, policy: Policy | None) -> tuple[str, ...]:
        if policy is None:
            return ()
        lacks = missing(policy, self._kernel)
        if lacks and not policy.general.best_effort:
            name = f" {policy.name}" if policy.name else ""
            raise SandboxError(f"the sandbox policy{name} cannot be enforced here: {'; '.join(lacks)}")
        return lacks

    async def _request(self, spec: Spec, plan: Plan, notes: tuple[str, ...]) -> Run | None:
        """Ask for one run; None when the launcher died over it."""
        if self._control is None:
            await self.start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        run = Run(ours, notes, self._runs.discard)
        self._runs.add(run)
        try:
            with theirs:
                await self._send(spec, plan, theirs.fileno())
            answer = await run.started()
        except BaseException:
            self._in_background(run.kill(spec.grace_s))
            raise
        if isinstance(answer, Started):
            return run
        if isinstance(answer, Failed):
            raise SandboxError(answer.error)
        return None

    async def _send(self, spec: Spec, plan: Plan, run: int) -> None:
        """Send a plan with its descriptors; that the launcher is gone shows on the run's socket."""
        given = (spec.stdin, spec.stdout, spec.stderr)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) if -1 in given else -1
        content = pack(plan)
        memory = _memory(content) if len(content) > _INLINE_BYTES else -1
        descriptors = [run, *(null if stream < 0 else stream for stream in given)]
        descriptors += [descriptor for descriptor in (spec.broker, memory) if descriptor >= 0]
        try:
            async with self._sending:
                await self._send_packet(packet_of(plan, content if memory < 0 else None), descriptors)
        finally:
            for descriptor in (null, memory):
                if descriptor >= 0:
                    os.close(descriptor)

    async def _send_packet(self, packet: bytes, descriptors: list[int]) -> None:
        while (control := self._control) is not None:
            try:
                socket.send_fds(control, [packet], descriptors, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                await _writable(control)
            except (BrokenPipeError, ConnectionResetError):
                return
            else:
                return

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _gone(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """The launcher died: what it ran ends by itself, and the next spawn starts another."""
        self._forget(control)
        self._process = None
        self._in_background(asyncio.to_thread(_wait, process))

    def _forget(self, control: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(control)
        control.close()
        self._control = None

    async def _libraries(self, spec: Spec, policy: Policy) -> tuple[str, ...]:
        """The shared libraries of a program, asked of its loader, which maps them and does not run it."""
        program = programs.find(spec.argv[0], spec.env, spec.cwd)
        loader = programs.loader(program) if program else None
        # A program of the tool's own making could name a loader, or libraries, to be shown what the policy hides.
        if program is None or loader is None or any(programs.writable(policy, path) for path in (program, loader)):
            return ()
        listing = os.memfd_create("libraries", os.MFD_CLOEXEC)
        try:
            reading = Policy(filesystem=Filesystem(ro=("/",), rox=(loader,)))
            run = await self.spawn(Spec((loader, "--list", program), cwd=spec.cwd, policy=reading, stdout=listing))
            await run.wait()
            return programs.libraries(os.pread(listing, os.fstat(listing).st_size, 0).decode(errors="surrogateescape"))
        finally:
            os.close(listing)


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for a launcher that died, and for its reapers, which became children of this process and end too."""
    process.wait()
    while left := [pid for pid in children(os.getpid()) if _session(pid) == process.pid]:
        for pid in left:
            os.waitpid(pid, 0)


def _session(pid: int) -> int:
    """The session of a child: that of the launcher, for what it forked."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _memory(content: bytes) -> int:
    """A memory file with this content."""
    memory = os.memfd_create("run", os.MFD_CLOEXEC)
    os.set_blocking(memory, False)
    os.write(memory, content)
    return memory


async def _writable(sock: socket.socket) -> None:
    """Wait until a socket takes more, or its other side is gone. In a thread, since it may be closed meanwhile."""
    descriptor = os.dup(sock.fileno())
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        await asyncio.to_thread(poll.poll)
    finally:
        os.close(descriptor)


def _launch(start: Start) -> subprocess.Popen[bytes]:
    """Start the interpreter of the launcher, with nothing of the server's environment that a tool may not see."""
    env = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-I", "-S", "-c", _BOOT, start_argument(start), json.dumps(_import_path())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(start.control,),
        env=env,
        cwd="/",
        start_new_session=True,
    )


def _import_path() -> list[str]:
    """Where the launcher imports from: the standard library, installed packages, and where this package lies.

    Not all of sys.path: with `python -m` its first entry is the working directory, which tools may write to.
    """
    root = str(Path(__file__).parents[2])
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    ours = [path for path in sys.path if path.startswith(tuple(standard)) or path.endswith("-packages")]
    return list(dict.fromkeys([*ours, root]))
