"""`ollie-9p mount` and `ollie-9p umount`: a 9P server's tree as a directory.

Each mount is a process of its own, which serves it until it is unmounted. It runs in the background unless asked
otherwise, and the command returns when the mount can be used.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ninep import dial
from ninep.client import Client
from ninep.dial import AddressError
from ninep.errors import ConnectionLostError, NinepError
from ninep.fuse import Mount, MountError, outside_of, resolve, same_user, source_of, unmount
from ollie.cli import secret
from ollie.protocol.paths import secret_file
from ollie.protocol.words import reason

_READY = b"\n"
_UNMOUNTING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Settings:
    """What is mounted where, and how.

    Args:
        directory: empty, and nothing mounted on it.
        address: the server's.
        uname: who attaches.
        aname: what is attached to.
        reconnect: whether the mount comes back with a server that went away; else it ends with it.
        verbose: show messages and errors on standard error.
    """

    directory: str
    address: str
    uname: str
    aname: str
    reconnect: bool
    verbose: bool


def mount(settings: Settings, *, foreground: bool) -> str:
    """Mount, and in the foreground serve until it is unmounted; returns what went wrong, nothing when nothing did.

    SIGTERM, SIGINT and SIGHUP unmount. In the background this returns when the mount can be used; SystemExit when the
    other process has told already why it cannot.
    """
    if foreground:
        return _serve(settings, lambda: None)
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            if pipe.read() == _READY:
                return ""
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or 1)
    _close_inherited(writing)
    os.setsid()

    def ready() -> None:
        _leave_terminal(keep_errors=settings.verbose)
        os.write(writing, _READY)
        os.close(writing)

    return _serve(settings, ready)


def _close_inherited(kept: int) -> None:
    """All but this one and the standard descriptors: what the caller has open, a lock perhaps, is not to stay open."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def is_mounted(directory: str, address: str) -> bool:
    """Whether the tree of that server is mounted there already, be the server there or not."""
    return source_of(resolve(directory)) == _from_anywhere(address)


def umount(directory: str, *, lazy: bool) -> str:
    """Unmount, lazily also while it is in use; returns what went wrong, nothing when nothing did."""
    try:
        unmount(resolve(directory), lazy=lazy)
    except MountError as error:
        return str(error)
    return ""


def _leave_terminal(*, keep_errors: bool) -> None:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1) if keep_errors else (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _serve(settings: Settings, ready: Callable[[], None]) -> str:
    try:
        asyncio.run(_run(settings, ready))
    except ConnectionLostError:
        return "the server hung up"
    except (MountError, AddressError) as error:
        return str(error)
    except NinepError as error:
        hint = "" if _secret() else f"\na server that asks for a secret would get the one in {secret_file()}"
        return f"{settings.address}: {error}{hint}"
    except OSError as error:
        given = settings.address != dial.default_address("ollie")
        start = "name the server's address with -a" if given else "start the server with: olliesrv start"
        return f"no server at {settings.address}: {_why(error)}\n{start}"
    return ""


def _why(error: OSError) -> str:
    """Why there is no connection; asyncio's own words hold addresses, or lists of them where a host has several."""
    if not error.errno:
        return "nobody answers"
    return reason(OSError(error.errno, os.strerror(error.errno)) if error.errno > 0 else error)


async def _run(settings: Settings, ready: Callable[[], None]) -> None:
    address = _from_anywhere(settings.address)
    log = _log if settings.verbose else None
    server_pid = 0

    async def connect() -> Client:
        nonlocal server_pid
        uname, aname = settings.uname, settings.aname
        try:
            client = await Client.connect(address, uname=uname, aname=aname, secret=_secret(), trace=log)
        except ValueError:
            raise MountError("uname or aname is too long") from None
        server_pid = client.calls.server_pid
        return client

    # What the server has started is an agent's, also where it runs outside of the sandbox; this mount is its owner's.
    judge = outside_of(lambda: server_pid, same_user())
    mount = await Mount.start(
        settings.directory, connect, source=address, reconnect=settings.reconnect, judge=judge, log=log
    )
    stopping = asyncio.Event()
    for number in _UNMOUNTING:
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    unmounting = asyncio.create_task(_unmount(mount, stopping))
    if log is not None:
        log(f"{address} is mounted on {settings.directory}")
    ready()
    await mount.wait()
    stopping.set()
    await unmounting


async def _unmount(mount: Mount, stopping: asyncio.Event) -> None:
    await stopping.wait()
    await mount.unmount()


def _from_anywhere(address: str) -> str:
    """The address, as it is understood in another working directory, too."""
    where = dial.parse(address)
    if isinstance(where, dial.Unix):
        return str(dial.Unix(os.path.abspath(where.path)))
    return address


def _secret() -> bytes | None:
    """The secret for a server that asks for one, read anew for each connection; None where there is none."""
    try:
        return secret.read()
    except secret.SecretError:
        return None


def _log(line: str) -> None:
    with contextlib.suppress(OSError):  # the mount goes on, whether anybody can be told or not
        print(f"ollie-9p: {line}", file=sys.stderr, flush=True)
