"""The output of one run: an append-only log of bytes that keeps its head and its tail.

Offsets are positions in everything the run has ever written. What exceeds the limit is dropped from the middle, so
that memory is bounded while a program writes without end; a reader that arrives at the dropped part gets one line that
says how much is missing and goes on behind it.
"""

import asyncio
import contextlib
import mmap
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

PIECE_BYTES = 64 * 1024


class Kept(NamedTuple):
    """What is left of an output, or a part of that: first bytes, how many are missing, last bytes."""

    head: bytes
    missing: int
    tail: bytes


class Output:
    """Bytes as they come, bounded.

    They lie in a mapping of their own: the head at its start, the tail as a ring behind it. Memory is used as far as it
    was written to, and all of it goes back to the system with the output.

    Args:
        limit_bytes: How much is kept, half of it at the head, half at the tail; at least 2.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = limit_bytes // 2
        self._ring_bytes = limit_bytes - self._head_bytes
        self._memory: mmap.mmap | None = None
        self._length = 0
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def length(self) -> int:
        """All bytes ever appended, the dropped ones included."""
        return self._length

    @property
    def kept_bytes(self) -> int:
        """How many of them are left."""
        return min(self._length, self._head_bytes + self._ring_bytes)

    def append(self, data: bytes) -> None:
        """Add `data` at the end and wake the readers."""
        if not data:
            return
        rest = memoryview(data)
        skipped = max(0, len(rest) - self._head_bytes - self._ring_bytes)
        if skipped and self._length >= self._head_bytes:
            rest = rest[skipped:]
            self._length += skipped
        while rest:
            start, room = self._place(self._length)
            piece = rest[:room]
            self._mapping()[start : start + len(piece)] = piece
            self._length += len(piece)
            rest = rest[room:]
        self._wake()

    def _place(self, position: int) -> tuple[int, int]:
        """Where in the mapping a position lies, and how many bytes follow it there in one piece."""
        if position < self._head_bytes:
            return position, self._head_bytes - position
        offset = (position - self._head_bytes) % self._ring_bytes
        return self._head_bytes + offset, self._ring_bytes - offset

    def _mapping(self) -> mmap.mmap:
        if self._memory is None:
            self._memory = mmap.mmap(-1, self._head_bytes + self._ring_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            # A huge page would be 2 MB for a run that prints a line.
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        return self._memory

    def close(self) -> None:
        """Say that nothing more will come: waiting readers get end of file."""
        self._closed = True
        self._wake()

    def missing(self, position: int) -> int:
        """How many bytes are missing from `position` on; 0 where there is data, or nothing yet."""
        return max(0, self._length - self._ring_bytes - position) if position >= self._head_bytes else 0

    def at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`, at which nothing may be missing; empty at the end."""
        if self._memory is None or position >= self._length:
            return b""
        start, room = self._place(position)
        return self._memory[start : start + min(count, room, self._length - position)]

    def _between(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to `end` in pieces; none of them may be missing."""
        while start < end:
            piece = self.at(start, min(PIECE_BYTES, end - start))
            yield piece
            start += len(piece)

    def everything(self) -> Iterator[bytes]:
        """All that is left, in pieces, and a line where something is missing."""
        head_end, tail_start = self._ends()
        yield from self._between(0, head_end)
        if tail_start > head_end:
            yield left_out(tail_start - head_end)
        yield from self._between(tail_start, self._length)

    def kept(self, at_most_bytes: int | None = None) -> Kept:
        """What is left; with `at_most_bytes` no more than so much of each end."""
        head_end, tail_start = self._ends()
        if at_most_bytes is not None and self.kept_bytes > 2 * at_most_bytes:
            whole_from = tail_start if tail_start > head_end else 0
            head_end = min(head_end, at_most_bytes)
            tail_start = max(whole_from, self._length - at_most_bytes)
        head = b"".join(self._between(0, head_end))
        return Kept(head, tail_start - head_end, b"".join(self._between(tail_start, self._length)))

    def _ends(self) -> tuple[int, int]:
        """Where the head ends and the tail starts."""
        head_end = min(self._length, self._head_bytes)
        return head_end, head_end + self.missing(head_end)

    async def beyond(self, position: int) -> bool:
        """Wait until there is output past `position`: True; False when the output ends there."""
        while self._length <= position:
            if self._closed:
                return False
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return True

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class OutputReader:
    """One reader's view of an output, as a served log.

    A first read at an offset begins at that position of the whole output. A reader that goes on over the dropped part
    counts the notice instead of what it replaces, so the view remembers from where on its offsets are shifted, and by
    how much.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._offsets = [0]
        self._shifts = [0]

    @property
    def length(self) -> int:
        """The offset at which the output ends for this reader; the length of the whole output for a new one."""
        return self._output.length - self._shifts[-1]

    @property
    def version(self) -> int:
        """Changes whenever the output does."""
        return self._output.length

    def _shift(self, offset: int) -> int:
        return self._shifts[bisect_right(self._offsets, offset) - 1]

    async def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; at the dropped part the notice alone; empty at the end."""
        position = offset + self._shift(offset)
        missing = self._output.missing(position)
        if not missing:
            return self._output.at(position, count)
        notice = left_out(missing)[:count]
        self._resume(offset + len(notice), position + missing)
        return notice

    def _resume(self, offset: int, position: int) -> None:
        """From `offset` on the reader continues at `position`."""
        keep = bisect_right(self._offsets, offset - 1)
        del self._offsets[keep:], self._shifts[keep:]
        self._offsets.append(offset)
        self._shifts.append(position - offset)

    async def more(self, offset: int) -> bool:
        """Wait until there is output past `offset`: True; False when the output ends there."""
        return await self._output.beyond(offset + self._shift(offset))


def left_out(count: int) -> bytes:
    """The line that stands where `count` bytes are missing."""
    return b"\n[... %d bytes left out ...]\n" % count
