"""What one fid writes is one message."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ninep import errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.tree import Entry, Place

T = TypeVar("T")

Take = Callable[[T, Any, bytes], Awaitable[None]]
Check = Callable[[T, Any, bytes, int], None]

MESSAGE_LIMIT_BYTES = 16 * 1024 * 1024


class Inbox:
    """Collects what a fid writes, wherever the offsets, until it is taken.

    Args:
        place: whose object and peer the callbacks get.
        check: `(obj, peer, data, size)`: refuses a write that can be refused already, by what it adds and by the size
            of the message with it. It is not given the rest, which may be long, and writes may be many.
    """

    __slots__ = ("_begun", "_check", "_data", "_held", "_place")

    def __init__(self, place: Place, check: Check[Any] | None) -> None:
        self._place = place
        self._check = check
        self._held = place.attached.held
        self._data = bytearray()
        self._begun = False

    def __bool__(self) -> bool:
        """Whether there was a write; a message may be empty."""
        return self._begun

    def add(self, data: bytes) -> int:
        """Take more of the message, or leave it as it was and refuse."""
        size = len(self._data) + len(data)
        if size > MESSAGE_LIMIT_BYTES:
            raise NinepError(errors.MESSAGE_TOO_LONG)
        self._place.check()
        if self._check is not None:
            self._check(self._place.obj, self._place.peer, data, size)
        self._held.add(len(data))
        self._data += data
        self._begun = True
        return len(data)

    def pop(self) -> bytes:
        """The message; the next one begins."""
        data = bytes(self._data)
        self.discard()
        return data

    def discard(self) -> None:
        """The message is given up; the next one begins."""
        self._held.drop(len(self._data))
        self._data.clear()
        self._begun = False


@dataclass(frozen=True, slots=True, eq=False)
class Sink(Entry[T]):
    """A message is taken at commit (a Twstat that changes nothing) or at clunk; a lost connection discards it.

    Args:
        name: as served.
        mode: permission bits, 0o220 usually.
        about: one sentence.
        take: `(obj, peer, data)`: the whole message; it is empty when a write without data is all there was.
        check: as an `Inbox` has it.
    """

    kind = "sink"
    name: str
    mode: int
    about: str
    take: Take[T]
    check: Check[T] | None = None

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """An empty message."""
        return SinkFile(place, self.take, self.check)


class SinkFile(OpenFile):
    """A message being written. Reads are at the end of the file."""

    __slots__ = ("_inbox", "_place", "_take")

    def __init__(self, place: Place, take: Take[Any], check: Check[Any] | None) -> None:
        super().__init__()
        self._place = place
        self._take = take
        self._inbox = Inbox(place, check)

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """Nothing to read, for a mode that allows to open it so."""
        return b""

    def write(self, offset: int, data: bytes) -> int:
        """More of the message."""
        return self._inbox.add(data)

    def commit(self) -> Awaitable[None] | None:
        """Take it, if there is something."""
        if not self._inbox:
            return None
        data = self._inbox.pop()
        self._place.check()
        return self._take(self._place.obj, self._place.peer, data)

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """As `commit`, or discard it."""
        if commit:
            return self.commit()
        self._inbox.discard()
        return None
