"""A file that takes commands."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ninep import errors
from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.files.text import Render
from ninep.tree import Entry, Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Control(Entry[T]):
    """Each Twrite is one command, and its error is the reply to that write.

    Offsets of writes mean nothing. A write that fills the iounit goes on in the next one. The first read after a write
    gives that command's response, wherever its offset; before any command there is the file's own text.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        command: `(obj, peer, text)`: run it and give the response, as it is to be read. `text` is without its last
            newline. Commands of one fid run one after another.
        text: `(obj, peer)`: what is read before any command; nothing when omitted.
    """

    kind = "control"
    name: str
    mode: int
    about: str
    command: Callable[[T, Any, str], Awaitable[str]]
    text: Render[T] | None = None

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """Nothing is rendered yet."""
        return ControlFile(self, place, iounit)


class ControlFile(OpenFile):
    """The command being written and the response being read."""

    __slots__ = ("_base", "_control", "_held", "_iounit", "_lock", "_place", "_response")

    def __init__(self, control: Control[Any], place: Place, iounit: int) -> None:
        super().__init__()
        self._control = control
        self._place = place
        self._iounit = iounit
        self._held = b""  # the beginning of a command whose rest comes with the next write
        self._response: bytes | None = None
        self._base: int | None = 0  # the offset at which the response begins; None: where the next read is
        self._lock = asyncio.Lock()

    async def read(self, offset: int, count: int) -> bytes:
        """The last response, or the file's own text."""
        async with self._lock:
            await self._run_held()
            if self._response is None:
                self._response = await self._own_text()
            if self._base is None:
                self._base = offset
            elif offset < self._base:
                self._base = 0
            return self._response[offset - self._base : offset - self._base + count]

    async def write(self, offset: int, data: bytes) -> int:
        """Run the command."""
        async with self._lock:
            self._held += data
            if len(data) < self._iounit:
                await self._run_held()
        return len(data)

    async def commit(self) -> None:
        """Run a command that filled the iounit exactly."""
        async with self._lock:
            await self._run_held()

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """As `commit`, or forget it."""
        return self.commit() if commit and self._held else None

    async def _own_text(self) -> bytes:
        self._place.check()
        if self._control.text is None:
            return b""
        content = self._control.text(self._place.obj, self._place.peer)
        return content if isinstance(content, bytes) else await content

    async def _run_held(self) -> None:
        if not self._held:
            return
        data, self._held = self._held, b""
        self._place.check()
        self._response, self._base = b"", None
        self._response = (await self._control.command(self._place.obj, self._place.peer, command_text(data))).encode()


def command_text(data: bytes) -> str:
    """The command without its last newline; NinepError when it is not UTF-8."""
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise NinepError(errors.NOT_UTF8) from None
