"""What the kernel says about a process: the few fields of `/proc` that identity needs.

A process id alone means nothing, since ids are used again; a process is its id together with its start time.
"""

import os
from dataclasses import dataclass

from ollie.sandbox.open_files import EXHAUSTED


@dataclass(frozen=True)
class Process:
    """One process as it was when it was read.

    Args:
        pid: its id, in our own PID namespace.
        start: when it started, in clock ticks since boot.
        parent: the id of its parent; 0 above init.
    """

    pid: int
    start: int
    parent: int

    def same(self, other: "Process") -> bool:
        """Whether both are one process; its parent may have changed."""
        return self.pid == other.pid and self.start == other.start


def process(pid: int) -> Process | None:
    """The process with this id, or None where there is none that we can see."""
    text = _read(f"/proc/{pid}/stat")
    # proc(5): the second field is a name in parentheses that may itself hold blanks and parentheses.
    fields = text.rpartition(b")")[2].split()
    return Process(pid=pid, start=int(fields[19]), parent=int(fields[1])) if fields else None


def no_new_privs(pid: int | str) -> bool | None:
    """The no_new_privs bit of a process (an id, or `self`), or None where it cannot be read."""
    value = _field(f"/proc/{pid}/status", b"NoNewPrivs")
    return None if value is None else value == b"1"


def pidfd_pid(pidfd: int) -> int | None:
    """The id of the process that a pidfd stands for, or None once it was reaped or is outside our PID namespace."""
    value = _field(f"/proc/self/fdinfo/{pidfd}", b"Pid")
    pid = int(value or 0)
    return pid if pid > 0 else None


def ids() -> list[int]:
    """The processes that there are now, of those that we can see."""
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def holds(pid: int, inode: int) -> bool:
    """Whether a process is seen to have a socket among its descriptors; not when we may not look, or it has gone."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(_points_to(entry.path, f"socket:[{inode}]") for entry in entries)
    except OSError:
        return False


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has waited for it yet."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] == b"Z"


def _points_to(link: str, wanted: str) -> bool:
    try:
        return os.readlink(link) == wanted  # noqa: PTH115 - tens of thousands of them may be looked at
    except OSError:  # closed since
        return False


def _field(path: str, name: bytes) -> bytes | None:
    for line in _read(path).splitlines():
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip()
    return None


def _read(path: str) -> bytes:
    """The content of a small file of `/proc`, empty when the process has gone.

    Raises:
        OSError: there is no descriptor left to read it with: nothing is known of the process then.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:  # ESRCH: it went between open and read
        return b""
    finally:
        os.close(fd)
