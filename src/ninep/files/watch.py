"""Files whose reads wait for something to happen."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ninep._session import OpenFile
from ninep.errors import NinepError
from ninep.files.inbox import Check, SinkFile, Take
from ninep.files.waiting import WAITED_BYTES, within
from ninep.tree import Entry, Place

T = TypeVar("T")


class Watcher(Protocol):
    """One fid's view of a sequence of changes; made at open, when it says where it starts.

    A subclass leaves out `delivered` and `close` where there is nothing to do.
    """

    async def next(self) -> bytes:
        """Wait for the next change.

        When it is cancelled, the change is still to come: it is lost for the fid only by returning it.
        """

    def delivered(self) -> None:
        """The reply with the last byte of what `next` gave was handed to the transport."""
        return

    def close(self) -> None:
        """The fid is gone."""
        return


class _Value:
    """A value that is read from offset 0, or from wherever its first read is, and then at its end of file."""

    __slots__ = ("base", "data")

    def __init__(self, data: bytes, base: int) -> None:
        self.data, self.base = data, base

    def piece(self, offset: int, count: int) -> bytes:
        start = offset - self.base
        return self.data[start : start + count] if start >= 0 else b""

    def ends(self, offset: int, count: int) -> bool:
        """Whether such a read gives the last byte of it."""
        start = offset - self.base
        left = len(self.data) - start
        return start >= 0 and left <= count and (left > 0 or not self.data)


@dataclass(frozen=True, slots=True, eq=False)
class Level(Entry[T]):
    """A read returns as soon as a condition holds, at once if it holds now; then end of file. Offset 0 asks again.

    Args:
        name: as served.
        mode: permission bits, 0o440 usually.
        about: one sentence.
        wait: `(obj, peer)`: wait for the condition and give what is read.
    """

    kind = "level"
    name: str
    mode: int
    about: str
    wait: Callable[[T, Any], Awaitable[bytes]]

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """Nothing is waited for yet."""
        return LevelFile(self, place)


class LevelFile(OpenFile):
    """One fid's reads of a level."""

    __slots__ = ("_level", "_place", "_value")

    def __init__(self, level: Level[Any], place: Place) -> None:
        super().__init__()
        self._level = level
        self._place = place
        self._value: _Value | None = None

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """Wait, or go on with what it gave."""
        if offset and self._value is not None:
            return self._value.piece(offset, count)
        self._place.check()
        return self._wait(offset, min(count, WAITED_BYTES))

    async def _wait(self, offset: int, count: int) -> bytes:
        seconds = self._place.attached.options.yield_s
        data = await within(seconds, self._level.wait(self._place.obj, self._place.peer), otherwise=b"")
        self._value = _Value(data, offset)
        return self._value.piece(offset, count)


@dataclass(frozen=True, slots=True, eq=False)
class Watch(Entry[T]):
    """A read waits for the next change and returns it; then end of file at that offset; offset 0 waits again.

    Args:
        name: as served.
        mode: permission bits.
        about: one sentence.
        watch: `(obj, peer)`: called at open; where this fid's sequence of changes starts.
        take: `(obj, peer, data)`: what one fid writes; at commit, clunk, or after `pause_s`. Without it
            writes are refused.
        check: as an `Inbox` has it.
        pause_s: take what was written also when the writer pauses for so many seconds; None does not.
    """

    kind = "watch"
    name: str
    mode: int
    about: str
    watch: Callable[[T, Any], Watcher]
    take: Take[T] | None = None
    check: Check[T] | None = None
    pause_s: float | None = None

    def open(self, place: Place, mode: int, iounit: int) -> OpenFile:
        """The fid's sequence starts."""
        return WatchFile(self, place)


async def _refuse(_obj: Any, _peer: Any, _data: bytes) -> None:
    """Never reached: writes are refused before anything is collected."""


class WatchFile(SinkFile):
    """One fid's sequence of changes, and what it writes."""

    __slots__ = ("_lock", "_pause", "_taking", "_value", "_watch", "_watcher")

    def __init__(self, watch: Watch[Any], place: Place) -> None:
        super().__init__(place, watch.take or _refuse, watch.check)
        self._watch = watch
        self._watcher: Watcher | None = watch.watch(place.obj, place.peer)
        self._value: _Value | None = None
        self._lock = asyncio.Lock()  # two reads of one fid: the second gets the change after the first's
        self._pause: asyncio.TimerHandle | None = None
        self._taking: asyncio.Task[None] | None = None

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """Wait for a change, or go on with the last one."""
        if offset and self._value is not None:
            return self._piece(self._value, offset, count)
        self._place.check()
        return self._next(offset, min(count, WAITED_BYTES))

    async def _next(self, offset: int, count: int) -> bytes:
        async with self._lock:
            if self._watcher is None:
                return b""
            waiting: Awaitable[bytes | None] = self._watcher.next()
            data = await within(self._place.attached.options.yield_s, waiting, otherwise=None)
            if data is None:
                return b""
            self._value = _Value(data, offset)
            return self._piece(self._value, offset, count)

    def _piece(self, value: _Value, offset: int, count: int) -> bytes:
        if value.ends(offset, count) and self._watcher is not None:
            self.sent = self._watcher.delivered
        return value.piece(offset, count)

    def write(self, offset: int, data: bytes) -> int:
        """More of what is written; the pause begins again."""
        if self._watch.take is None:
            return OpenFile.write(self, offset, data)  # type: ignore[return-value]  # it refuses
        count = super().write(offset, data)
        self._stop_pause()
        if self._watch.pause_s is not None:
            self._pause = asyncio.get_running_loop().call_later(self._watch.pause_s, self._paused)
        return count

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _paused(self) -> None:
        self._taking = asyncio.ensure_future(self._take_paused(self._taking))

    async def _take_paused(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        taking = super().commit()
        if taking is not None:
            try:
                await taking
            except NinepError as error:
                self._place.attached.failed(self._place, error)

    def commit(self) -> Awaitable[None] | None:
        """Take it now, after what a pause may have begun to take."""
        self._stop_pause()
        if self._taking is None or self._taking.done():
            return super().commit()
        return self._commit_after(self._taking)

    async def _commit_after(self, before: asyncio.Task[None]) -> None:
        await asyncio.wait({before})
        taking = super().commit()
        if taking is not None:
            await taking

    def close(self, *, commit: bool) -> Awaitable[None] | None:
        """The sequence ends; what was written is taken or discarded."""
        self._stop_pause()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        if not commit and self._taking is not None and not self._taking.done():
            self._inbox.discard()
            return self._stop_taking(self._taking)
        return super().close(commit=commit)

    async def _stop_taking(self, taking: asyncio.Task[None]) -> None:
        taking.cancel()
        await asyncio.wait({taking})
