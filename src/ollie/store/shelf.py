"""What is kept in memory of an agent while its session is in use."""

from collections.abc import Iterator, Mapping
from typing import Final

from ollie.store.interface import LogName

_CHUNK_BYTES: Final = 64 * 1024
_RECENT_BYTES: Final = 64 * 1024


class Tail:
    """The end of a conversation file: what is not yet durable, and before that at most 64 KiB for those who follow it.

    Args:
        length: of the file, all of it durable.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._begin = length  # where `_data` begins in the file
        self._sent = length  # up to here it was given to the writer
        self._data = bytearray()

    def append(self, data: bytes) -> None:
        """Add to the file."""
        self._data += data
        self.length += len(data)

    def read(self, offset: int, count: int) -> bytes | None:
        """At most `count` bytes from `offset`, empty at the end; None when they are in the database alone."""
        if offset < self._begin:
            return None
        at = offset - self._begin
        return bytes(memoryview(self._data)[at : at + count])

    def gather(self) -> Iterator[tuple[int, bytes]]:
        """What was not given to the writer yet, as offsets and pieces."""
        while self._sent < self.length:
            piece = self.read(self._sent, _CHUNK_BYTES)
            assert piece
            yield self._sent, piece
            self._sent += len(piece)

    def written(self) -> None:
        """What was gathered last is durable, and more of it than the recent end need not be kept."""
        spare = self._sent - self._begin - _RECENT_BYTES
        if spare > 0:
            del self._data[:spare]
            self._begin += spare


class Shelf:
    """What belongs to one agent.

    Args:
        number: its object number.
        busy: whether a turn had begun and had not ended.
        position: of the next message of its history.
        lengths: of its conversation files.
        queue: the prompts that wait, by entry.
        plan: its plan.
        stats: its counts, encoded.
    """

    def __init__(
        self,
        number: int,
        *,
        busy: bool = False,
        position: int = 0,
        lengths: Mapping[LogName, int] = {},
        queue: Mapping[int, str] = {},
        plan: bytes = b"",
        stats: bytes = b"",
    ) -> None:
        self.number = number
        self.busy = busy
        self.position = position
        self.tails = {log: Tail(lengths.get(log, 0)) for log in LogName}
        self.queue = dict(queue)
        self.plan = plan
        self.stats = stats
