"""The server's side of the launcher: start runs, wait for them, end them.

The server gives descriptors and a `Spec`, and gets a `Run` once the program runs. It has a socket to each reaper, so
neither the launcher nor another run stands between; when the server is killed, the ends of these sockets tell the
reapers. A launcher that dies takes its runs with it (they are `lost`), and the next spawn starts another.
"""

import asyncio
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path

from ollie.protocol.expand import environment
from ollie.protocol.policy import Filesystem, Policy
from ollie.sandbox import landlock, open_files, plans, programs
from ollie.sandbox.probe import missing, probe
from ollie.sandbox.processes import children
from ollie.sandbox.requests import Begin, Exit, Plan, Start, start_argument
from ollie.sandbox.rulesets import leads_through_link
from ollie.sandbox.runs import Run, SandboxError, Spec
from ollie.sandbox.seats import Seats
from ollie.sandbox.syscalls import become_subreaper

__all__ = ["Exit", "Launcher", "Run", "SandboxError", "Spec"]

_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from ollie.sandbox.launcher_main import main; main()"
_ATTEMPTS = 4  # the reapers that were idle may all have gone
_CLOSE_GRACE_S = 2.0


class Launcher:
    """The launcher process and its runs.

    Args:
        preload: names of modules that the launcher imports once, before any run, for `Spec.call`.
        environ: the server's environment, whose PATH and HOME `add_exec` goes by, os.environ when left out. Never by
            those of a run: a tool that asks for one chooses them, and would choose what it may read.
        open_files: how many descriptors each process of a run may have, if its policy says nothing about that; as many
            as the server when left out.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        open_files: int | None = None,
    ) -> None:
        self._preload = tuple(preload)
        self._open_files = open_files
        self._environ = dict(os.environ if environ is None else environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._seats: Seats | None = None
        self._starting = asyncio.Lock()
        self._runs: set[Run] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._kernel = probe()

    @property
    def pid(self) -> int | None:
        """The process that forks, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the launcher process, if there is none. The calling process becomes a child subreaper."""
        await self._serving()

    async def _serving(self) -> Seats:
        async with self._starting:
            if self._seats is None:
                become_subreaper()
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    start = Start(
                        theirs.fileno(), os.getpid(), landlock.reaper_ruleset(self._kernel.abi), self._preload
                    )
                    self._process = await asyncio.to_thread(_launch, start, self._open_files)
                self._seats = Seats(ours, self._end_launcher)
                self._seats.foresee(confined=True)
            return self._seats

    async def spawn(self, spec: Spec) -> Run:
        """Run a program; returns when it runs, restricted as its policy says.

        Raises:
            SandboxError: `cannot run foo: No such file or directory`; what the kernel lacks, with `best_effort: false`.
        """
        notes = (*self._unenforced(spec.policy), *_left_out(spec.policy))
        policy = spec.policy and programs.complete(spec.policy, environment(spec.policy, self._environ, {}))
        if policy and policy.advanced.ldd and spec.argv:
            policy = programs.with_libraries(policy, await self._libraries(spec, policy))
        begin, plan = plans.plan(spec, policy, self._kernel)
        for _ in range(_ATTEMPTS):
            if run := await self._begin(spec, begin, plan, notes):
                return run
        raise SandboxError(f"cannot run {(spec.argv or (spec.call,))[0]}: the process that starts tools ends each time")

    async def close(self) -> None:
        """End every run and the launcher. Returns when nothing of them is alive; may be called again."""
        await asyncio.gather(*(run.kill(_CLOSE_GRACE_S) for run in tuple(self._runs)))
        self._end_launcher()
        await asyncio.gather(*self._tasks)

    def _unenforced(self, policy: Policy | None) -> tuple[str, ...]:
        if policy is None:
            return ()
        lacks = missing(policy, self._kernel)
        if lacks and not policy.general.best_effort:
            name = f" {policy.name}" if policy.name else ""
            raise SandboxError(f"the sandbox policy{name} cannot be enforced here: {'; '.join(lacks)}")
        return lacks

    async def _begin(self, spec: Spec, begin: Begin, plan: Plan, notes: tuple[str, ...]) -> Run | None:
        """Begin one run; None when the launcher, the reaper or the process died before the program could run."""
        seats = self._seats or await self._serving()
        given = (spec.stdin, spec.stdout, spec.stderr)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) if -1 in given else -1
        streams = [null if stream < 0 else stream for stream in given] + ([spec.broker] if spec.broker >= 0 else [])
        try:
            seat = await seats.take(confined=plan.confined)
            run = seat.begin(begin, plan, streams, notes, self._runs.discard) if seat else None
        finally:
            if null >= 0:
                os.close(null)
        if run is None:
            return None
        self._runs.add(run)
        try:
            if await run.started():
                return run
        except SandboxError:
            await run.wait()
            raise
        except BaseException:
            self._in_background(run.kill(spec.grace_s))
            raise
        end = await run.wait()
        return None if end.reason in {"exited", "lost"} else run  # else it was told to end before it began

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_launcher(self) -> None:
        """Let the launcher end, or note that it did: what it runs ends by itself, and the next spawn starts another."""
        process, self._process = self._process, None
        seats, self._seats = self._seats, None
        if process and seats:
            seats.close()
            self._in_background(asyncio.to_thread(_wait, process))

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


def _left_out(policy: Policy | None) -> tuple[str, ...]:
    """The paths of an expanded policy that tools have made links since, which are not followed: sentences."""
    if policy is None:
        return ()
    written = (*policy.filesystem.rw, *policy.filesystem.rwx)
    above = tuple(f"{path}/" for path in written)
    paths = dict.fromkeys((*policy.real, *(path for path in written if path.startswith(above))))
    return tuple(f"not allowed, for it leads through a link: {path}" for path in paths if leads_through_link(path))


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


def _launch(start: Start, files: int | None) -> subprocess.Popen[bytes]:
    """Start the interpreter of the launcher, with nothing of the server's environment that a tool may not see."""
    env = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    process = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-I", "-S", "-c", _BOOT, start_argument(start), *_import_path()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(start.control,),
        env=env,
        cwd="/",
        start_new_session=True,
    )
    if files is not None:
        open_files.bound(process.pid, files)
    return process


def _import_path() -> list[str]:
    """Where the launcher imports from: the standard library, installed packages, and where this package lies.

    Not all of sys.path: with `python -m` its first entry is the working directory, which tools may write to.
    """
    root = str(Path(__file__).parents[2])
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    ours = [path for path in sys.path if path.startswith(tuple(standard)) or path.endswith("-packages")]
    return list(dict.fromkeys([*ours, root]))
