"""Running a server: from its options to its end.

Everything that can be wrong is found before the server says that it is ready, and is said in one line. The order of the
end: no new clients, then turns and tool servers, then the sockets and their locks.
"""

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ninep import dial
from ninep.errors import NinepError
from ninep.server import Server
from ollie.engine.messages import BackendError
from ollie.olliesrv import ns
from ollie.olliesrv.door.attach import Door
from ollie.olliesrv.ns import errors
from ollie.olliesrv.process import secret
from ollie.olliesrv.process.adopted import Adopted
from ollie.olliesrv.process.daemon import already_running
from ollie.olliesrv.process.lock import Lock, LockedError, lock_path
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.settings import config
from ollie.protocol.paths import PathError, private_directory
from ollie.protocol.words import located, reason
from ollie.sandbox.open_files import raise_limit
from ollie.sandbox.syscalls import become_subreaper

_log = logging.getLogger(__name__)
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class StartError(Exception):
    """A server that cannot start; the text is one line that says why and what to do."""


@dataclass(frozen=True)
class Options:
    """How a server is started.

    Args:
        places: where it listens, the socket it is found by first.
        yolo: tools run without Landlock and seccomp.
        no_auth: TCP clients need no secret and get the rights of the group.
        ready_fd: where to say that it is ready, for a server in the background; None for one in the foreground.
    """

    places: tuple[dial.Unix | dial.Tcp, ...]
    yolo: bool = False
    no_auth: bool = False
    ready_fd: int | None = None

    @property
    def tcp(self) -> bool:
        """Whether it listens on TCP."""
        return any(isinstance(place, dial.Tcp) for place in self.places)


def run(options: Options) -> int:
    """Serve until told to end; the exit status: 0, or 1 when the server could not start."""
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO if options.ready_fd is not None else logging.WARNING)
    voice = _Voice(options.ready_fd)
    try:
        asyncio.run(_serve(options, voice))
    except StartError as error:
        voice.error(str(error))
        return 1
    return 0


async def _serve(options: Options, voice: "_Voice") -> None:
    with _mapped_errors():
        settings = config.load()
        become_subreaper()
        before = raise_limit()
        if options.ready_fd is not None:
            os.chdir("/")
    async with AsyncExitStack() as stack:
        stopping = _stopping()
        main = options.places[0]
        with _mapped_errors():
            for place in options.places:
                if isinstance(place, dial.Unix):
                    stack.enter_context(_held(place))
            ollie = await Ollie.open(settings, address=str(main), yolo=options.yolo, open_files=before)
            stack.push_async_callback(ollie.close)
            ollie.backends.get(ollie.backends.default)  # a server whose agents could not say a word does not start
            await stack.enter_async_context(_listening(ollie, options))
        ollie.resume()
        stack.enter_context(_adopting())
        for warning in _warnings(options):
            voice.warning(warning)
        voice.ready(str(main))
        await _first(ollie.stopping, stopping)


def _stopping() -> asyncio.Event:
    """Set by SIGINT, SIGTERM and SIGHUP."""
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _first(*events: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


@contextmanager
def _held(place: dial.Unix) -> Iterator[None]:
    """A socket's lock: no other server of ours uses the socket, and one that is there was left behind."""
    private_directory(str(Path(place.path).parent))
    try:
        lock = Lock(lock_path(place.path))
    except LockedError as error:
        raise StartError(already_running(place, error.pid)) from None
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def _listening(ollie: Ollie, options: Options) -> AsyncIterator[None]:
    door = Door(ollie, secret.load() if options.tcp and not options.no_auth else None)

    server = Server(ns.tree(ollie), attach=door.attach, auth=door, on_error=partial(errors.keep, ollie))
    ollie.listener = server
    try:
        for place in options.places:
            try:
                address = await server.listen(str(place))
            except OSError as error:
                raise StartError(_why_not(place, error)) from None
            _log.info("listening on %s", address)
        yield
    finally:
        await server.close()


def _why_not(place: dial.Unix | dial.Tcp, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE and isinstance(place, dial.Tcp):
        return f"port {place.port} is used by another program ({place}); end it or listen on another port"
    if error.errno == errno.EADDRINUSE and isinstance(place, dial.Unix):
        return f"{place.path} is used by something else; remove it or listen elsewhere"
    return f"cannot listen on {place}: {reason(error)}"


@contextmanager
def _adopting() -> Iterator[None]:
    adopted = Adopted()
    adopted.start()
    try:
        yield
    finally:
        adopted.close()


def _warnings(options: Options) -> Iterator[str]:
    if options.no_auth and options.tcp:
        yield "--no-auth lets everybody who reaches the TCP port use your agents, with the rights of the group"
    if options.yolo:
        yield "tools run without a sandbox: --yolo leaves out Landlock and seccomp"


_WRONG = (
    config.ConfigError,
    secret.SecretError,
    PathError,
    BackendError,
    NinepError,
    dial.AddressError,
)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Turn what can be wrong at the start into one line."""
    try:
        yield
    except _WRONG as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"cannot start: {located(error)}") from None


class _Voice:
    """How the server speaks to whoever started it: lines on the terminal, or on the pipe of `daemon.start`."""

    def __init__(self, ready_fd: int | None) -> None:
        self._fd = ready_fd

    def ready(self, main: str) -> None:
        """It answers from now on."""
        if self._fd is None:
            print(f"olliesrv is running on {main} (pid {os.getpid()})", flush=True)  # noqa: T201  `serve` speaks to a terminal
        else:
            os.write(self._fd, b"ready\n")
            os.close(self._fd)

    def warning(self, text: str) -> None:
        """It starts, but the user should know this."""
        _log.warning("%s", text)
        self._say("warning", text)

    def error(self, text: str) -> None:
        """It does not start."""
        if self._fd is not None:
            _log.error("%s", text)
        self._say("error", text)

    def _say(self, kind: str, text: str) -> None:
        line = " ".join(text.split())
        if self._fd is not None:
            os.write(self._fd, f"{kind} {line}\n".encode())
        else:
            sys.stderr.write(f"olliesrv: {'warning: ' if kind == 'warning' else ''}{line}\n")
