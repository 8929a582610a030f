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
from collections.abc import Coroutine, Sequence
from pathlib import Path

from ollie.protocol.policy import Filesystem, Policy
from ollie.sandbox import landlock, plans, programs
from ollie.sandbox.probe import missing, probe
from ollie.sandbox.processes import children
from ollie.sandbox.requests import Failed, Plan, Start, Started, pack, packet_of, start_argument
from ollie.sandbox.runs import Exit, Run, Spec
from ollie.sandbox.syscalls import become_subreaper

__all__ = ["Exit", "Launcher", "Run", "SandboxError", "Spec"]

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from ollie.sandbox.launcher_main import main; main()"
)
_ATTEMPTS = 2
_CLOSE_GRACE_S = 2.0
_INLINE_BYTES = 32 << 10  # of a packet; what is longer goes into a memory file


class SandboxError(RuntimeError):
    """A run that did not start; the text is a sentence for the user."""


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
            await asyncio.to_thread(_wait, self._process)
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
    """Wait for a launcher to end, and for what it forked and left: children of this process now, which end too."""
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
    return subprocess.Popen(  # noqa: S603  our own module
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
