"""One server a socket: a lock file beside the socket, held for as long as the server lives.

The kernel lets go of a lock when its process ends, however it ends, so a lock that is free is a server that is gone
and its socket may be removed. The file itself stays: were it removed, two servers could each hold a lock on a file of
that name.

These are fcntl(2) record locks: no child inherits one, and who asks is told the id of the process that holds it,
without taking the lock for a moment. A process that holds one must not open the file a second time, since closing
any descriptor of it lets go.

Command lines import this module: it needs nothing beyond `os`, `fcntl` and `struct`.
"""

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi0q")  # l_type, l_whence, l_start, l_len, l_pid of a 64-bit Linux


class LockedError(Exception):
    """Another process holds the lock.

    Args:
        pid: its id; 0 when it is outside our PID namespace.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(f"locked by process {pid}")
        self.pid = pid


def lock_path(socket_path: str) -> str:
    """The lock file of a socket."""
    return f"{socket_path}.lock"


class Lock:
    """A lock that is held until `release` or the end of the process.

    Args:
        path: the file to lock; made with mode 0600 when missing.

    Raises:
        LockedError: another process holds it.
        OSError: the file cannot be made or opened.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
            pid = _holder(self._fd)
            os.close(self._fd)
            raise LockedError(pid or 0) from None

    def release(self) -> None:
        """Let go; the lock is not used afterwards."""
        os.close(self._fd)


def holder(path: str) -> int | None:
    """The id of the process that holds the lock, None when nobody does. Not for the process that holds it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _holder(fd: int) -> int | None:
    answer = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)
