"""A tool server from its start to its end.

Started in this order: log, counters, directory for temporary files, launcher, tree, sockets. What was started is ended
in the opposite order, whatever ends the server: first nobody can ask for more, then everything that runs is ended, then
what it needed goes.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import pwd
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ninep import dial
from ninep.server import Server
from ninep.tree import Tree
from ollie.protocol import paths, policy_files
from ollie.protocol.discovery import Catalog
from ollie.protocol.metadata import Python, ToolInfo
from ollie.protocol.policy import Policy, PolicyError
from ollie.protocol.words import located, reason
from ollie.sandbox.launcher import Launcher, SandboxError
from ollie.sandbox.open_files import raise_limit
from ollie.sandbox.probe import probe, report
from ollie.toolsrv.admission import Admission
from ollie.toolsrv.auth import Auth
from ollie.toolsrv.bypass import Broker
from ollie.toolsrv.counter import Counter
from ollie.toolsrv.done import Done, new_boot
from ollie.toolsrv.events import Events, of_request
from ollie.toolsrv.execute import Executor
from ollie.toolsrv.log import log_to
from ollie.toolsrv.ns import ROOT
from ollie.toolsrv.prepare import Settings
from ollie.toolsrv.registry import Registry
from ollie.toolsrv.runs import Keep, Runs
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.tmpdir import TemporaryDirectory, base, sweep

_log = logging.getLogger(__name__)

GRACE_BEFORE_FIRST_S = 60
_STDOUT = 1


class StartError(Exception):
    """A server that cannot start; the text is one line for the terminal."""


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Args:
        cwd: Where a call runs that names no directory.
        addresses: Where to listen, at least one.
        yolo: Run tools without Landlock and seccomp.
        no_auth: Let every client in.
        idle_timeout_s: End so long after the last connection; None never ends by itself.
        secret: Preset; None lets the first client set it.
        bypass_timeout_s: How long a request to run without the sandbox waits for its answer.
        max_runs: How many runs one agent may have at a time.
        max_requests: How many requests of one agent to run without the sandbox may wait at a time.
        open_files: How many descriptors a process of a tool may have; None is as many as the server was given.
        olliesrv: Where tools reach olliesrv, through their descriptor 3; None gives them none.
    """

    cwd: Path
    addresses: tuple[dial.Unix | dial.Tcp, ...]
    yolo: bool
    no_auth: bool
    idle_timeout_s: float | None
    secret: bytes | None
    bypass_timeout_s: float
    max_runs: int
    max_requests: int
    open_files: int | None = None
    olliesrv: dial.Unix | None = None


def run(options: Options) -> None:
    """Serve until a signal or idleness ends it; nothing is left behind.

    When clients can come, standard output has a line `listening on ADDRESS` for each address, and its end.

    Raises:
        StartError: It cannot start.
    """
    try:
        asyncio.run(_run(options, _take_stdout()))
    except (SandboxError, PolicyError, OSError) as error:
        raise StartError(located(error)) from error


@dataclass(frozen=True)
class _Started:
    """What serves, and where."""

    server: Server
    runs: Runs
    addresses: tuple[str, ...]


async def _run(options: Options, ready_fd: int) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with _started(options) as started:
        try:
            os.write(ready_fd, "".join(f"listening on {address}\n" for address in started.addresses).encode())
        except OSError as error:
            raise StartError(f"cannot say on standard output that it listens: {reason(error)}") from None
        os.close(ready_fd)
        ends: set[asyncio.Task[object]] = {asyncio.create_task(told.wait())}
        if options.idle_timeout_s is not None:
            ends.add(asyncio.create_task(idle(started.server, started.runs, options.idle_timeout_s)))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for waiting in ends:
            waiting.cancel()
        _log.info("ending, %s", "as told" if told.is_set() else "idle")


@contextlib.asynccontextmanager
async def _started(options: Options) -> AsyncIterator[_Started]:
    """A server that listens; at the end of the context it and all it started are gone."""
    async with contextlib.AsyncExitStack() as stack:
        log_to(paths.log_file("toolsrv"))
        state = paths.toolsrv_state(str(options.addresses[0]))
        counters = _counters(state, str(options.addresses[0]))
        for counter in counters:
            stack.callback(counter.close)
        config_dir = Path(paths.config_path())
        policy = policy_files.load("default", str(config_dir))
        tmpdir = _tmpdir(base(), policy)
        stack.callback(tmpdir.remove)
        settings = Settings(
            options.cwd,
            tmpdir.path,
            config_dir,
            options.bypass_timeout_s,
            options.yolo,
            max_runs=options.max_runs,
            max_requests=options.max_requests,
            olliesrv=options.olliesrv,
        )
        found = probe()
        _tell(options, report(found, policy))
        catalog = Catalog.from_environment()
        before = raise_limit()
        launcher = Launcher(_modules(catalog), open_files=options.open_files or before)
        await launcher.start()
        stack.push_async_callback(launcher.close)
        runs = Runs(counters[0].next, Keep())
        stack.push_async_callback(runs.kill_all, settings.grace_s)
        registry = Registry(catalog, counters[1].next)
        auth = None if options.no_auth else Auth(options.secret)
        events = Events()
        broker = Broker(
            settings.bypass_timeout_s,
            settings.max_requests,
            lambda request, state: events.emit(request.agent, of_request(request, state)),
        )
        done = Done(Path(f"{state}.done"), new_boot())
        executor = Executor(settings, registry, launcher, runs, broker=broker, events=events, done=done)
        toolsrv = Toolsrv(settings, registry, runs, executor, broker, events, done, auth, found)
        admission = Admission(auth)
        server = Server(Tree(ROOT, toolsrv), attach=admission.attach, auth=admission if auth else None)
        stack.push_async_callback(server.close)
        addresses = [await _listen(server, address) for address in options.addresses]
        _log.info("listening on %s", ", ".join(addresses))
        yield _Started(server, runs, tuple(addresses))


async def _listen(server: Server, address: dial.Unix | dial.Tcp) -> str:
    """Accept connections at an address; what it is called with its port filled in."""
    before = os.umask(0o177)
    try:
        return await server.listen(str(address))
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {reason(error)}") from None
    finally:
        os.umask(before)


def _tell(options: Options, lines: Sequence[str]) -> None:
    """Log what the kernel can enforce, and what the options leave open."""
    for line in lines:
        _log.info(line)
    if options.yolo:
        _log.warning("--yolo: tools run without Landlock and seccomp")
    if options.no_auth:
        _log.warning("--no-auth: every client that reaches a socket of this server may run tools")


def _modules(catalog: Catalog) -> list[str]:
    """What the launcher imports once, so that these tools start without an interpreter of their own."""
    tools = catalog.tools().values()
    return [tool.run.module for tool in tools if isinstance(tool, ToolInfo) and isinstance(tool.run, Python)]


def _counters(state: str, address: str) -> tuple[Counter, Counter]:
    """The counters of process numbers and of revisions; a server at the same address goes on with them."""
    paths.private_directory(str(Path(state).parent))
    try:
        return Counter(Path(f"{state}.pid")), Counter(Path(f"{state}.revision"))
    except BlockingIOError:
        raise StartError(f"another toolsrv serves {address}") from None


def _tmpdir(where: Path, policy: Policy) -> TemporaryDirectory:
    """The directory for temporary files, of the user whom tools run as."""
    for path in sweep(where):
        _log.info("removed %s, left by a server that was killed", path)
    user = policy.general.user
    if not user or os.geteuid() != 0:
        return TemporaryDirectory(where)
    try:
        return TemporaryDirectory(where, pwd.getpwnam(user).pw_uid)
    except KeyError:
        raise StartError(f"the sandbox policy default runs tools as {user}, and there is no such user") from None


async def idle(server: Server, runs: Runs, timeout_s: float, grace_s: float = GRACE_BEFORE_FIRST_S) -> None:
    """Return when nobody has come in the first `grace_s`, or nobody was connected and nothing ran for `timeout_s`."""
    limit_s = grace_s
    while True:
        try:
            async with asyncio.timeout(limit_s):
                await server.until(lambda now: now.connections > 0)
        except TimeoutError:
            return
        await server.until(lambda now: now.connections == 0)
        await runs.quiet()
        limit_s = timeout_s


def _take_stdout() -> int:
    """Standard output, kept from everything that is started, so that it ends when we close it."""
    nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        ready_fd = os.dup(_STDOUT)
    except OSError:  # started without one
        return nothing
    if fcntl.fcntl(ready_fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:  # so that its number was not free
        os.close(ready_fd)
        return nothing
    os.dup2(nothing, _STDOUT)
    os.close(nothing)
    return ready_fd
