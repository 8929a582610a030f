"""Append-only text that is read while it grows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ninep._session import OpenFile
from ninep.files.waiting import WAITED_BYTES, Gap, within
from ninep.tree import Entry, Place

T = TypeVar("T")


class AppendLog(Protocol):
    """What a Log shows. Bytes that were there once never change."""

    @property
    def length(self) -> int:
        """In bytes."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    async def read(self, offset: int, count: int) -> bytes:
        """A piece; empty at and past the end."""

    async def more(self, offset: int) -> bool:
        """Wait until there are bytes past `offset`: True; or until it is known that none will come for now: False."""


@dataclass(frozen=True, slots=True, eq=False)
class Log(Entry[T]):
    """A read past the end waits while there is more to come, else it is the end of the file.

    Its length in stat is the true one, so that `wc -c` and `tail -f` work.

    Args:
        name: as served.
        mode: permission bits, 0o440 usually.
        about: one sentence.
        log: `(obj)`: the log.
    """

    kind = "log"
    name: str
    mode: int
    about: str
    log: Callable[[T], AppendLog]

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """Nothing is read yet."""
        return LogFile(place, self.log(place.obj))

    def length(self, obj: T) -> int:
        """Its true length."""
        return self.log(obj).length

    def version(self, obj: T) -> int:
        """The log's."""
        return self.log(obj).version


class LogFile(OpenFile):
    """Reads of a log; several at once are independent of each other."""

    __slots__ = ("_gap", "_log", "_place")

    def __init__(self, place: Place, log: AppendLog) -> None:
        super().__init__()
        self._place = place
        self._log = log
        self._gap = Gap(wanted=place.attached.options.kernel)

    async def read(self, offset: int, count: int) -> bytes:
        """What is there, which may have to be fetched, or what comes next."""
        count = min(count, WAITED_BYTES)
        data = await self._log.read(offset, count)
        if data:
            return self._gap.after(data, count, last=offset + len(data) >= self._log.length)
        if self._gap.due():
            return b""
        self._place.check()
        if not await within(self._place.attached.options.yield_s, self._log.more(offset), otherwise=False):
            return b""
        return self._gap.after(await self._log.read(offset, count), count, last=True)
