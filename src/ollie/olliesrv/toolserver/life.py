"""The life of a tool server: it is found when it lives, started when it is needed, and ended.

It is a process of its own that outlives this one. It gets its secret through a descriptor, never through its arguments
or environment, and runs in a session of its own, so that no signal of a terminal reaches it. It ends by itself some
time after the last connection to it was closed.
"""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from ninep.client import Client
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.process.procfs import Process, process
from ollie.olliesrv.toolserver import places
from ollie.protocol.words import reason
from ollie.sandbox.open_files import scarce

_UCRED = struct.Struct("iII")  # pid, uid, gid: unix(7)
_SAID_BYTES = 4096
NO_TOOL_SERVER = "no tool server runs; a turn of the session starts one"
_UNAME = "ollie"
_KILL_S = 5.0  # how long a machine under load may take to end a process that was killed


class Life:
    """The process of one session's tool server, and how it is reached.

    Args:
        session: the id of the session.
        cwd: gives the directory where tools work when a call names none.
        settings: how it is run.
        over: called when it has ended.
    """

    def __init__(
        self, session: str, cwd: Callable[[], str], settings: places.Settings, over: Callable[[], None]
    ) -> None:
        self._cwd = cwd
        self._over = over
        self._settings = settings
        self._socket = places.socket_path(settings.sockets, session)
        self._secret = places.secret_path(settings, session)
        self._process: Process | None = None
        self._pidfd: int | None = None
        self._visits: Counter[str] = Counter()
        self._child: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> Process | None:
        """Its process; None when none was started or found, or it has ended."""
        return self._process

    def look(self) -> Process | None:
        """Look for one, which may have outlived an earlier server of ours; its process."""
        self._found(listener(self._socket))
        return self._process

    async def start(self) -> None:
        """Start one.

        Raises:
            RefusedError: it cannot be started, or did not answer in time.
        """
        settings = self._settings
        options = ["--cwd", self._cwd(), "--listen", f"unix!{self._socket}", "--idle-timeout", f"{settings.idle_s:g}s"]
        options += ["--bypass-timeout", f"{settings.bypass_s:g}s", *(["--yolo"] if settings.yolo else [])]
        options += ["--max-runs", str(settings.max_runs), "--max-requests", str(settings.max_requests)]
        options += ["--open-files", str(settings.open_files)] if settings.open_files is not None else []
        environ = {name: value for name, value in os.environ.items() if name != "OLLIE_BROKER_FD"}
        environ["OLLIE_ADDRESS"] = settings.address
        self._child = await start(options, places.secret(self._secret), environ, settings.start_s)
        # Not by `look`: it connects and hangs up, and after its last connection a server may end.
        self._found(process(self._child.pid))

    async def end(self) -> None:
        """End it with everything it runs."""
        if self._process is not None:
            await end(self._process, self._settings.cancel_s)
            self._found(None)
        if self._child is not None:
            await self._child.wait()
            self._child = None

    async def connect(self, agent: str = "") -> Client:
        """A connection to it, that sees what is an agent's, by id; everything without one.

        Raises:
            OSError: nobody listens.
            NinepError: it does not take us.
        """
        secret = places.secret(self._secret)
        return await Client.connect(f"unix!{self._socket}", uname=_UNAME, aname=agent, secret=secret)

    @contextlib.asynccontextmanager
    async def visit(self, agent: str = "") -> AsyncIterator[Client]:
        """As `connect`, for one purpose; it never starts a tool server.

        Raises:
            RefusedError: none runs.
        """
        if self._process is None:
            raise RefusedError(NO_TOOL_SERVER)
        try:
            client = await self.connect(agent)
        except OSError:
            raise RefusedError(NO_TOOL_SERVER) from None
        async with client:
            yield client

    @contextlib.asynccontextmanager
    async def stay(self, agent: str) -> AsyncIterator[Client]:
        """As `visit`, for long; only an agent's are bounded.

        Raises:
            RefusedError: none runs, or the agent has as many as it may.
        """
        most = self._settings.max_connections
        if agent and (self._visits[agent] >= most or scarce()):
            raise RefusedError(
                f"an agent may have at most {most} files of its tool server open (max_connections in config.yaml), and "
                "fewer when olliesrv has no open files to spare; close one"
            )
        self._visits[agent] += 1
        try:
            async with self.visit(agent) as client:
                yield client
        finally:
            self._visits[agent] -= 1
            if not self._visits[agent]:
                del self._visits[agent]

    def owes(self) -> bool:
        """Whether it has kept something of runs in the background, also when it has ended: who reads that is told."""
        return places.owes(self._socket)

    def forget_secret(self) -> None:
        """It has ended: its secret is of no use."""
        places.forget_secret(self._secret)

    def forget_state(self) -> None:
        """Its session is gone: remove what it has kept."""
        places.forget_state(self._socket)

    def _found(self, process: Process | None) -> None:
        """Note which process it is. While it lives the loop looks for its end, and so keeps this object."""
        loop = asyncio.get_running_loop()
        before = self._process
        if self._pidfd is not None:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._pidfd = pidfd(process) if process is not None else None
        self._process = process if self._pidfd is not None else None
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._found, None)
        if before is not None and (self._process is None or not self._process.same(before)):
            self._over()


def listener(path: str) -> Process | None:
    """The process that listens on a unix socket, None when nobody answers there.

    The kernel notes who called listen(2): SO_PEERCRED of a connection names that process.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError:
            return None
        pid, _, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return process(pid) if pid > 0 else None


async def start(
    options: Sequence[str], its_secret: bytes, environ: Mapping[str, str], timeout_s: float
) -> asyncio.subprocess.Process:
    """A tool server that answers.

    Args:
        options: of `toolsrv serve`, without the secret.
        its_secret: at most what a pipe holds.
        environ: its environment.
        timeout_s: how long it may take.

    Raises:
        RefusedError: it cannot be started, ended, or did not answer in time, with what it said.
    """
    secret_out, secret_in = os.pipe()
    said = os.memfd_create("toolsrv", os.MFD_CLOEXEC)
    try:
        os.write(secret_in, its_secret)
        os.close(secret_in)
        arguments = ["-P", "-m", "ollie.cli.toolsrv", "serve", *options, "--secret-fd", str(secret_out)]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env=environ,
            pass_fds=(secret_out,),
            start_new_session=True,
        )
        try:
            await _ready(child, timeout_s, said)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
            raise
    except OSError as error:
        raise RefusedError(f"the tool server cannot be started: {reason(error)}") from None
    else:
        return child
    finally:
        os.close(secret_out)
        os.close(said)


async def _ready(child: asyncio.subprocess.Process, timeout_s: float, said: int) -> None:
    """Return when it listens: it says so on its standard output and closes it."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            lines = await child.stdout.read()
    except TimeoutError:
        raise RefusedError(f"the tool server does not answer after {timeout_s:g} s") from None
    if not lines.startswith(b"listening"):
        words = os.pread(said, _SAID_BYTES, 0).decode(errors="replace").strip().splitlines()
        raise RefusedError(f"the tool server does not start: {words[-1] if words else 'it said nothing'}")


def pidfd(server: Process) -> int | None:
    """A descriptor of a process, readable as soon as it has ended; None when it has already."""
    try:
        fd = os.pidfd_open(server.pid)
    except ProcessLookupError:
        return None
    found = process(server.pid)
    if found is not None and found.same(server):
        return fd
    os.close(fd)  # of another process that has its number now
    return None


async def end(server: Process, grace_s: float) -> None:
    """End a tool server, at once after a grace, and return when it has ended. What it ran ends with it."""
    fd = pidfd(server)
    if fd is None:
        return
    try:
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
            if await _ended(fd, wait_s):
                return
    finally:
        os.close(fd)


async def _ended(pidfd: int, timeout_s: float) -> bool:
    """Whether a process ends within a time. A pidfd is readable when its process has ended: pidfd_open(2)."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(pidfd, over.cancel)
    try:
        # Not asyncio.timeout: before Python 3.11.4 it does not expire in a task that was cancelled, as this one may be.
        done, _ = await asyncio.wait({over}, timeout=timeout_s)
    finally:
        loop.remove_reader(pidfd)
    return bool(done)
