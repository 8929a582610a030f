"""Text whose content is fixed at open, and text that is stored."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ninep import _wire, errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.tree import Entry, Held, Place

T = TypeVar("T")

_SMALL_BYTES = 4096  # a longer text is counted as held, and its pieces are copied into replies only

Render = Callable[[T, Any], bytes | Awaitable[bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class Text(Entry[T]):
    """Text made when it is opened; that fid reads the same bytes however long it takes.

    Its length in stat is 0, so that a stat renders nothing.

    Args:
        name: as served.
        mode: permission bits, 0o440 usually.
        about: one sentence.
        render: `(obj, peer)`: the content.
    """

    kind = "text"
    name: str
    mode: int
    about: str
    render: Render[T]

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Render it."""
        content = self.render(place.scope.obj, place.attached.peer)
        return TextFile(content, place) if isinstance(content, bytes) else _opened(content, place)


async def rendered(content: Awaitable[bytes], place: Place) -> bytes:
    """What a callback renders in its own time; TypeError, which goes to the log, where that is no bytes."""
    result: object = await content if isinstance(content, Awaitable) else content
    if not isinstance(result, bytes):
        raise TypeError(f"{place.path()}: render gives {type(result).__name__} instead of bytes")
    return result


async def _opened(content: Awaitable[bytes], place: Place) -> OpenFile:
    return TextFile(await rendered(content, place), place)


class TextFile(OpenFile):
    """Bytes that do not change any more."""

    __slots__ = ("_content", "_held")

    def __init__(self, content: bytes, place: Place) -> None:
        self.sent = None  # all that an OpenFile begins with; most opens come here, and a call costs more
        self._content = content
        self._held: Held | None = None
        if len(content) > _SMALL_BYTES:
            self._held = place.attached.held
            self._held.add(len(content))

    def read(self, offset: int, count: int) -> bytes | memoryview:
        """A piece of it."""
        content: bytes | memoryview = self._content
        if self._held is not None:
            content = memoryview(content)
        return content[offset : offset + count]

    def close(self, *, commit: bool) -> None:
        """It is not kept any longer."""
        if self._held is not None:
            self._held.drop(len(self._content))


class TextBuffer(Protocol):
    """What a StoredText shows and changes. Changes are durable when their coroutine returns."""

    @property
    def length(self) -> int:
        """In bytes."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def read(self, offset: int, count: int) -> bytes:
        """A piece; empty at and past the end."""

    async def write(self, offset: int, data: bytes) -> None:
        """Replace what is at `offset`, 0 to `length`, and extend the text where needed."""

    async def truncate(self, length: int) -> None:
        """Cut to `length`, 0 to the present length."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredText(Entry[T]):
    """Text that is read and written at offsets, appended to and truncated; durable when the write is answered.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        buffer: `(obj)`: the text.
    """

    kind = "stored text"
    name: str
    mode: int
    about: str
    buffer: Callable[[T], TextBuffer]

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """With OTRUNC it becomes empty first."""
        file = StoredTextFile(place, self.buffer(place.obj))
        return file.emptied() if mode & _wire.OTRUNC else file

    def length(self, obj: T) -> int:
        """Its true length."""
        return self.buffer(obj).length

    def version(self, obj: T) -> int:
        """The buffer's."""
        return self.buffer(obj).version

    def truncate(self, obj: T, peer: Any, length: int) -> Awaitable[None]:
        """Cut it; it cannot be made longer."""
        buffer = self.buffer(obj)
        if length > buffer.length:
            raise NinepError(errors.OFFSET_BEYOND_END)
        return buffer.truncate(length)


class StoredTextFile(OpenFile):
    """Reads and writes of a stored text."""

    __slots__ = ("_buffer", "_place")

    def __init__(self, place: Place, buffer: TextBuffer) -> None:
        super().__init__()
        self._place = place
        self._buffer = buffer

    async def emptied(self) -> OpenFile:
        """Itself, empty."""
        await self._buffer.truncate(0)
        return self

    def read(self, offset: int, count: int) -> bytes:
        """A piece of the present content."""
        self._place.check()
        return self._buffer.read(offset, count)

    def write(self, offset: int, data: bytes) -> Awaitable[int]:
        """At most the end of the text may be where a write starts."""
        self._place.check()
        if offset > self._buffer.length:
            raise NinepError(errors.OFFSET_BEYOND_END)
        return self._write(offset, data)

    async def _write(self, offset: int, data: bytes) -> int:
        await self._buffer.write(offset, data)
        return len(data)
