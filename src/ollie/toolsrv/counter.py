"""Numbers that grow across restarts: process numbers and registry revisions.

A number is used once in the life of a session, so a client that remembers one from before a restart never finds
something else under it. The file holds the next number that was never handed out; it is written ahead by a block, so
that a number costs no disk write and a killed server wastes at most a block.
"""

import fcntl
import os
from pathlib import Path

BLOCK = 64


class Counter:
    """Hands out 1, 2, 3, … and goes on there when opened again.

    Args:
        path: The file; made when missing. It stays locked while the counter is open.

    Raises:
        BlockingIOError: Another process has it open.
        OSError: What the file system says.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise
        self._next = _number(os.pread(self._fd, 32, 0))
        self._reserved = self._next

    def next(self) -> int:
        """The next number."""
        if self._next >= self._reserved:
            self._reserved = self._next + BLOCK
            self._write(self._reserved)
        self._next += 1
        return self._next - 1

    def close(self) -> None:
        """Give back what is left of the block, and the lock."""
        self._write(self._next)
        os.close(self._fd)

    def _write(self, number: int) -> None:
        # One small write of a fixed size: a reader sees the old number or the new one.
        os.pwrite(self._fd, b"%020d\n" % number, 0)


def _number(stored: bytes) -> int:
    """The number in a counter's file; 1 in a new one."""
    return int(stored) if stored.strip().isdigit() else 1
