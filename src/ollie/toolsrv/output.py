"""The output of one run: an append-only log of bytes that keeps its head and its tail.

Offsets are positions in everything the run has ever written. What exceeds the limit is dropped from the middle, so
that memory is bounded while a program writes without end; a reader that arrives at the dropped part gets one line that
says how much is missing and goes on behind it.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from typing import NamedTuple

BLOCK_BYTES = 64 * 1024


class Kept(NamedTuple):
    """What is left of an output: its first bytes, how many were dropped, its last bytes."""

    head: bytes
    dropped: int
    tail: bytes


class Output:
    """Bytes as they come, bounded.

    Args:
        limit_bytes: How much is kept, at least two blocks of 64 KiB; half of it at the head, half at the tail.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        # Blocks of BLOCK_BYTES, all full but the last: a position in the tail is found by division.
        self._tail: deque[bytearray] = deque()
        self._tail_start = self._head_limit
        self._length = 0
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def length(self) -> int:
        """All bytes ever appended, the dropped ones included."""
        return self._length

    @property
    def closed(self) -> bool:
        """True when nothing more will come."""
        return self._closed

    def append(self, data: bytes) -> None:
        """Add `data` at the end and wake the readers."""
        if not data:
            return
        self._length += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._append_tail(data)
        self._wake()

    def _append_tail(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if not self._tail or len(self._tail[-1]) == BLOCK_BYTES:
                self._tail.append(bytearray())
            last = self._tail[-1]
            room = BLOCK_BYTES - len(last)
            last += rest[:room]
            rest = rest[room:]
        # A whole block goes only when what is left behind it still fills the tail's share.
        while self._length - self._tail_start - BLOCK_BYTES >= self._tail_limit:
            self._tail.popleft()
            self._tail_start += BLOCK_BYTES

    def close(self) -> None:
        """Say that nothing more will come: waiting readers get end of file."""
        self._closed = True
        self._wake()

    @property
    def kept_bytes(self) -> int:
        """How much of it is in memory."""
        return self._length - max(0, self._tail_start - self._head_limit)

    def kept(self) -> Kept:
        """What is left of the output."""
        return Kept(bytes(self._head), self._tail_start - self._head_limit, b"".join(self._tail))

    def gap(self, position: int) -> int:
        """How many bytes are missing from `position` on; 0 where there is data, or nothing yet."""
        return max(0, self._tail_start - position) if position >= self._head_limit else 0

    def at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`, which must not lie in the gap; empty at the end."""
        if position < self._head_limit:
            return bytes(self._head[position : position + count])
        index, offset = divmod(position - self._tail_start, BLOCK_BYTES)
        if index >= len(self._tail):
            return b""
        return bytes(self._tail[index][offset : offset + count])

    async def beyond(self, position: int) -> bool:
        """Wait until there is output past `position`: True; False when the output ends there."""
        while self._length <= position:
            if self._closed:
                return False
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class OutputReader:
    """One reader's view of an output, as a served log.

    A first read at an offset begins at that position of the whole output. A reader that goes on over the dropped part
    counts the notice instead of what it replaces, so the view remembers by how much its offsets are shifted from where.
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
        return self._output.length & 0xFFFFFFFF

    def _shift(self, offset: int) -> int:
        return self._shifts[bisect_right(self._offsets, offset) - 1]

    async def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; at the dropped part the notice alone; empty at the end."""
        position = offset + self._shift(offset)
        missing = self._output.gap(position)
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
    """The line that stands where `count` bytes were dropped."""
    return b"\n[... %d bytes left out ...]\n" % count
