"""Starting a server in the background, ending it, and asking whether it runs.

`start` runs `olliesrv serve` as a session of its own whose output goes to a log, and returns when the server has said,
over a pipe, that it answers, or why it cannot. A server is found by the lock beside its socket (`lock.py`), which
names its process and is free as soon as that process has ended.

What the server says is one line each: `ready`, or `error` or `warning` and a text.

Command lines import this module: nothing of the server is imported here.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence

from ninep import dial
from ollie.olliesrv.process.lock import holder, lock_path
from ollie.protocol import paths
from ollie.protocol.words import located, reason

Tell = Callable[[str], None]

SERVICE = "ollie"
_START_S = 60.0
_STOP_S = 30.0


class DaemonError(Exception):
    """A server that could not be started or ended; the text is one line for the terminal."""


def places(listen: Sequence[str]) -> list[dial.Unix | dial.Tcp]:
    """Where a server listens, each place once, paths absolute; the first one is the socket it is found by.

    Raises:
        AddressError: an address is not a dial string.
    """
    main = found_by(listen)
    return [main, *(place for place in dict.fromkeys(map(_parse, listen)) if place != main)]


def found_by(listen: Sequence[str]) -> dial.Unix:
    """The socket by which a server is found: the first unix address it listens on, the default socket without one."""
    sockets = (place for place in map(_parse, [*listen, dial.default_address(SERVICE)]) if isinstance(place, dial.Unix))
    return next(sockets)


def _parse(address: str) -> dial.Unix | dial.Tcp:
    place = dial.parse(address)
    if isinstance(place, dial.Tcp):
        return place
    return dial.parse(f"unix!{os.path.abspath(place.path)}")  # noqa: PTH100  pathlib is an import that nothing else here needs


def running(place: dial.Unix) -> int | None:
    """The process id of the server on this socket, None when there is none.

    Raises:
        DaemonError: the lock beside the socket cannot be read.
    """
    try:
        return holder(lock_path(place.path))
    except OSError as error:
        raise DaemonError(f"cannot look at {lock_path(place.path)}: {reason(error)}") from None


def log_file() -> str:
    """The log of the servers started in the background."""
    return paths.log_file("olliesrv")


def start(arguments: Sequence[str], place: dial.Unix, warn: Tell) -> int:
    """Start a server in the background; its process id, once it answers.

    Args:
        arguments: options of `olliesrv serve`, with absolute paths.
        place: its main socket.
        warn: is given each warning of the server.

    Raises:
        DaemonError: why it could not start.
    """
    pid = running(place)
    if pid is not None:
        raise DaemonError(already_running(place, pid))
    try:
        log = log_file()
        pid, said = _spawn(arguments, log)
    except OSError as error:
        raise DaemonError(f"cannot start olliesrv: {located(error)}") from None
    try:
        _await_ready(pid, said, log, warn)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        raise
    finally:
        os.close(said)
    return pid


def stop(place: dial.Unix) -> int | None:
    """End the server on a socket and wait until it is gone; its process id, None when there was none.

    Raises:
        DaemonError: it is not ours to end, or it did not end within 30 seconds.
    """
    pid = running(place)
    if pid is None:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        if running(place) is None:
            return pid
        raise DaemonError(f"olliesrv on {place} runs outside this PID namespace; end it there") from None
    try:
        if running(place) != pid:  # it ended before the pidfd was opened, which may be of another process
            return pid
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        if not select.select([pidfd], [], [], _STOP_S)[0]:
            raise DaemonError(f"olliesrv (pid {pid}) has not ended after {_STOP_S:.0f} s; see {log_file()}")
    except PermissionError:
        raise DaemonError(f"olliesrv (pid {pid}) belongs to another user") from None
    except ProcessLookupError:
        return pid
    finally:
        os.close(pidfd)
    return pid


def already_running(place: dial.Unix, pid: int) -> str:
    """What a second server on the same socket says."""
    return f"olliesrv is already running on {place} (pid {pid})"


def _spawn(arguments: Sequence[str], log: str) -> tuple[int, int]:
    """A new process that runs `olliesrv serve`, and the pipe on which it says that it is ready."""
    said, say = os.pipe2(os.O_CLOEXEC)
    os.set_inheritable(say, True)
    # -P: the working directory is no place to import from.
    command = [sys.executable, "-P", "-m", "ollie.cli.olliesrv", "serve", *arguments, "--ready-fd", str(say)]
    environ = {
        **os.environ,
        "OLLIE_CFG_PATH": paths.config_path(),
        "OLLIE_DATA_PATH": paths.data_path(),
        "OLLIE_CACHE_PATH": paths.cache_path(),
    }
    environ.pop("OLLIE_BROKER_FD", None)
    try:
        pid = os.posix_spawn(
            sys.executable,
            command,
            environ,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
    except OSError:
        os.close(said)
        raise
    finally:
        os.close(say)
    return pid, said


def _await_ready(pid: int, said: int, log: str, warn: Tell) -> None:
    text = b""
    while not (b"\n" + text).endswith(b"\nready\n"):
        if not select.select([said], [], [], _START_S)[0]:
            raise DaemonError(f"olliesrv (pid {pid}) does not answer after {_START_S:.0f} s; see {log}")
        piece = os.read(said, 4096)
        text += piece
        if not piece:
            break
    ready = False
    for line in text.decode(errors="replace").splitlines():
        kind, _, message = line.partition(" ")
        if kind == "error":
            raise DaemonError(message)
        if kind == "warning":
            warn(message)
        ready = kind == "ready"
    if not ready:
        raise DaemonError(f"olliesrv ended before it answered; see {log}")
