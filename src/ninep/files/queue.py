"""A file of entries: what one fid writes is one, and a read takes the oldest."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ninep._session import OpenFile
from ninep.files.inbox import Check, SinkFile, Take
from ninep.files.waiting import WAITED_BYTES
from ninep.tree import Entry, Place

T = TypeVar("T")


class Head(Protocol):
    """The oldest entry, leased to one reader: exactly one of `taken` and `release` is called, once."""

    @property
    def data(self) -> bytes:
        """The entry."""

    def taken(self) -> None:
        """It was read whole: it is gone."""

    def release(self) -> None:
        """It was not: the next reader may have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Queue(Entry[T]):
    """An entry is gone only when it was read whole. End of file when the queue is empty.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        put: `(obj, peer, data)`: append an entry; at commit or clunk.
        head: `(obj, peer)`: the oldest entry that nobody else is reading, or None.
        check: as an `Inbox` has it.
    """

    kind = "queue"
    consumed = True
    name: str
    mode: int
    about: str
    put: Take[T]
    head: Callable[[T, Any], Head | Awaitable[Head | None] | None]
    check: Check[T] | None = None

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """Nothing is taken yet."""
        return QueueFile(self, place)


class QueueFile(SinkFile):
    """The entry being read, and the one being written."""

    __slots__ = ("_base", "_head", "_queue")

    def __init__(self, queue: Queue[Any], place: Place) -> None:
        super().__init__(place, queue.put, queue.check)
        self._queue = queue
        self._head: Head | None = None
        self._base: int | None = None  # the offset at which the entry begins; None: no entry has been asked for

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """The oldest entry from offset 0, or wherever the first read is; then end of file, until offset 0 again."""
        if self._head is None and (offset == 0 or self._base is None):
            self._place.check()
            self._base = offset
            head = self._queue.head(self._place.obj, self._place.peer)
            if isinstance(head, Awaitable):
                return self._wait(head, offset, min(count, WAITED_BYTES))
            self._head = head
        return self._piece(offset, count)

    async def _wait(self, asking: Awaitable[Head | None], offset: int, count: int) -> bytes:
        head = await asking
        if self._head is None:
            self._head = head
        elif head is not None:  # another read of this fid was faster
            head.release()
        return self._piece(offset, count)

    def _piece(self, offset: int, count: int) -> bytes:
        if self._head is None or self._base is None or offset < self._base:
            return b""
        data = self._head.data
        start = offset - self._base
        if start + count >= len(data):
            self.sent = self._taken
        return data[start : start + count]

    def _taken(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            head.taken()

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """Give back what was not read whole."""
        head, self._head = self._head, None
        if head is not None:
            head.release()
        return super().close(commit=commit)
