"""What is kept in memory of an agent while its session is in use.

What was changed and is not durable yet is kept here until it is, so that every read sees it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ollie.store.rows import AgentRow, LogName

_CHUNK_BYTES: Final = 64 * 1024
_SMALL_BYTES: Final = 4 * 1024
_RECENT_BYTES: Final = 64 * 1024


class Tail:
    """The end of a conversation file: what is not yet durable, and before that at most 64 KiB for those who follow it.

    The file is stored in chunks of at most 64 KiB. While the last one is small it is written again with what has come,
    so that a file which grows word by word is not stored word by word.

    Args:
        length: of the file, all of it durable.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._begin = length  # where `_data` begins in the file
        self._last = length  # where the last chunk begins that was given to the writer
        self._sent = length  # and where it ends
        self._data = bytearray()

    def append(self, data: bytes) -> None:
        """Add to the file."""
        self._data += data
        self.length += len(data)

    @property
    def begin(self) -> int:
        """What lies before this is in the database alone."""
        return self._begin

    def read(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`, empty at the end; `offset` is not before `begin`."""
        at = offset - self._begin
        return bytes(memoryview(self._data)[at : at + count])

    def gather(self) -> Iterator[tuple[int, bytes]]:
        """What was not given to the writer yet, as offsets and chunks; a chunk replaces the one at its offset."""
        at = self._last if self._sent - self._last < _SMALL_BYTES else self._sent
        while self._sent < self.length:
            chunk = self.read(at, _CHUNK_BYTES)
            assert chunk
            yield at, chunk
            self._last, self._sent = at, at + len(chunk)
            at = self._sent

    def written(self) -> None:
        """What was gathered is durable, and more of it than the recent end need not be kept."""
        spare = self._last - self._begin - _RECENT_BYTES
        if spare > 0:
            del self._data[:spare]
            self._begin += spare


class Records:
    """The end of a history: what is not yet durable.

    Args:
        end: the position behind the last message, all of them durable.
    """

    def __init__(self, end: int) -> None:
        self.begin = 0  # where the history begins
        self.end = end
        self._sent = end
        self._kept: dict[int, bytes] = {}

    @property
    def durable(self) -> int:
        """Up to this position everything is in the database."""
        return next(iter(self._kept), self.end)

    @property
    def kept(self) -> list[bytes]:
        """What of the history may be in memory alone."""
        return [data for position, data in self._kept.items() if position >= self.begin]

    def append(self, records: Sequence[bytes]) -> None:
        """Add to the history."""
        for data in records:
            self._kept[self.end] = data
            self.end += 1

    def clear(self) -> None:
        """Begin anew."""
        self.begin = self.end

    def gather(self) -> Iterator[tuple[int, bytes]]:
        """What was not given to the writer yet, with its positions."""
        for position in range(self._sent, self.end):
            yield position, self._kept[position]
        self._sent = self.end

    def written(self) -> None:
        """What was gathered is durable."""
        for position in [position for position in self._kept if position < self._sent]:
            del self._kept[position]


class Shelf:
    """What belongs to one agent.

    Args:
        row: the agent.
        busy: whether a turn has begun and has not ended.
        records: how many messages were ever added to its history.
        lengths: of its conversation files.
        queue: the prompts that wait, by entry.
        plan: its plan.
        stats: its counts, encoded.
    """

    def __init__(
        self,
        row: AgentRow,
        *,
        busy: bool = False,
        records: int = 0,
        lengths: Mapping[LogName, int] = {},
        queue: Mapping[int, str] = {},
        plan: bytes = b"",
        stats: bytes = b"",
    ) -> None:
        self.row = row
        self.busy = busy
        self.records = Records(records)
        self.tails = {log: Tail(lengths.get(log, 0)) for log in LogName}
        self.queue = dict(queue)
        self.plan = plan
        self.stats = stats
