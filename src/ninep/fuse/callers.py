"""Who calls, and whether the mount is for them.

The kernel lets in only processes of the user who mounted. That is not enough where the same user runs programs under a
sandbox: those have no_new_privs set, which no program can take back, so a caller whose bit differs from the bridge's
own is refused. A caller that cannot be looked at, in another PID namespace for instance, is refused, too.

A caller's pid is its own while it waits: a process that is killed stays until its request was answered.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from ninep.fuse.mounting import MountError


@dataclass(frozen=True, slots=True)
class Caller:
    """What the kernel says of whoever asks.

    Args:
        pid: the thread, in the bridge's PID namespace; 0 where it is not in it.
        uid: its user, as files are accessed.
        gid: its group, likewise.
    """

    pid: int
    uid: int
    gid: int


Judge = Callable[[Caller], Awaitable[bool]]
"""Whether a caller may name files of the mount. While it is asked, the caller waits, so that its pid is its own."""


def same_user() -> Judge:
    """A judge that admits callers of this process's user with this process's no_new_privs bit.

    Raises:
        MountError: `/proc` shows another PID namespace, so that what it says of a pid is true of somebody else.
    """
    if _own_pid() != os.getpid():
        raise MountError("/proc is not that of this PID namespace\nmount it there: mount -t proc proc /proc")
    uid = os.getuid()
    own = _status("self", b"NoNewPrivs")

    async def judge(caller: Caller) -> bool:
        if caller.uid != uid or caller.pid <= 0:
            return False
        bit = _status(caller.pid, b"NoNewPrivs")
        return bit is not None and bit == own

    return judge


def outside_of(ancestor: Callable[[], int], judge: Judge) -> Judge:
    """A judge that refuses what runs below a process, and leaves the others to `judge`.

    Args:
        ancestor: gives its pid at that moment, 0 where it is not known; then nobody is below it.
        judge: asked about the others.
    """

    async def admits(caller: Caller) -> bool:
        if not await judge(caller):
            return False
        line = tuple(_line(caller.pid))
        while line != (again := tuple(_line(caller.pid))):  # somebody in it has ended in between
            line = again
        return bool(line) and ancestor() not in line

    return admits


def _line(pid: int) -> Iterator[int]:
    """A process and those above it, to the first of the PID namespace."""
    at: int | None = pid
    while at:
        yield at
        at = _status(at, b"PPid")


def process_of(pid: int) -> int | None:
    """The process that a thread belongs to, None when it has gone."""
    return _status(pid, b"Tgid")


def _own_pid() -> int:
    try:
        return int(os.readlink("/proc/self"))
    except OSError:
        return 0


def _status(pid: int | str, field: bytes) -> int | None:
    """A number of `/proc/PID/status`, see proc(5)."""
    try:
        fd = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 65536)
    except OSError:  # it went between open and read
        return None
    finally:
        os.close(fd)
    for line in text.splitlines():
        key, _, value = line.partition(b":")
        if key == field:
            return int(value)
    return None
