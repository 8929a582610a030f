"""What the sample tree is made of: texts and logs in memory, changes and their watchers, things with all of these."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from ninep.bell import Bell
from ninep.errors import NinepError
from ninep.tree import Peer


class MemoryText:
    """A TextBuffer in memory."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.version = 0

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.data)

    def read(self, offset: int, count: int) -> bytes:
        """A piece."""
        return bytes(self.data[offset : offset + count])

    async def write(self, offset: int, data: bytes) -> None:
        """Replace and extend."""
        self.data[offset : offset + len(data)] = data
        self.version += 1

    async def truncate(self, length: int) -> None:
        """Cut."""
        del self.data[length:]
        self.version += 1


class MemoryLog:
    """An AppendLog in memory; more is to come until it is ended."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.version = 0
        self._ended = False
        self._bell = Bell()

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.data)

    def append(self, data: bytes) -> None:
        """More is there."""
        self.data += data
        self.version += 1
        self._bell.ring()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._bell.ring()

    async def read(self, offset: int, count: int) -> bytes:
        """A piece."""
        return bytes(self.data[offset : offset + count])

    async def more(self, offset: int) -> bool:
        """Wait for it."""
        while offset >= len(self.data) and not self._ended:
            await self._bell.wait()
        return offset < len(self.data)


class Changes:
    """A sequence of values; each uname goes on where its last delivery was."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.delivered: dict[str, int] = {}
        self.watchers = 0
        self.bell = Bell()

    def add(self, value: bytes) -> None:
        """A change."""
        self.values.append(value)
        self.bell.ring()

    def watch(self, uname: str) -> "ChangeWatcher":
        """From where this uname is; a new one starts now."""
        start = self.delivered.setdefault(uname, len(self.values))
        self.watchers += 1
        return ChangeWatcher(self, uname, start)


class ChangeWatcher:
    """One fid's view of `Changes`."""

    def __init__(self, changes: Changes, uname: str, start: int) -> None:
        self._changes, self._uname, self._at = changes, uname, start

    async def next(self) -> bytes:
        """The next value."""
        while self._at >= len(self._changes.values):
            await self._changes.bell.wait()
        self._at += 1
        return self._changes.values[self._at - 1]

    def delivered(self) -> None:
        """Fresh fids of this uname start after it."""
        self._changes.delivered[self._uname] = self._at

    def close(self) -> None:
        """Count down."""
        self._changes.watchers -= 1


class Lease:
    """The head of a thing's queue."""

    def __init__(self, queue: "deque[bytes]", leased: "set[int]", data: bytes) -> None:
        self.data = data
        self._queue, self._leased = queue, leased
        leased.add(id(data))

    def taken(self) -> None:
        """It is gone."""
        self._leased.discard(id(self.data))
        self._queue.remove(self.data)

    def release(self) -> None:
        """It is not."""
        self._leased.discard(id(self.data))


class Thing:
    """What a directory of `thing/` is about.

    Attributes:
        released: ends the answers of `ask`, which otherwise wait after their first piece.
        asked, messages: what was asked and taken.
        running, closed: how many answers run, and how many were closed before their end.
        waiting: how many commands `wait`.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.gone = False
        self.note = MemoryText()
        self.log = MemoryLog()
        self.changes = Changes()
        self.ready = asyncio.Event()
        self.released = asyncio.Event()
        self.queue: deque[bytes] = deque()
        self._leased: set[int] = set()
        self.messages: list[bytes] = []
        self.asked: list[bytes] = []
        self.running = 0
        self.closed = 0
        self.waiting = 0

    def head(self) -> Lease | None:
        """The oldest entry that nobody is reading."""
        free = [data for data in self.queue if id(data) not in self._leased]
        return Lease(self.queue, self._leased, free[0]) if free else None

    async def answer(self, data: bytes) -> AsyncIterator[bytes]:
        """`got …` at once, `done` when released."""
        self.asked.append(data)
        self.running += 1
        try:
            if data.startswith(b"refuse"):
                raise NinepError("refused")
            yield b"got " + data
            await self.released.wait()
            yield b"done\n"
        except BaseException:
            self.closed += 1
            raise
        finally:
            self.running -= 1

    async def wait(self) -> None:
        """Until it is released."""
        self.waiting += 1
        try:
            await self.released.wait()
        finally:
            self.waiting -= 1

    async def take(self, data: bytes) -> None:
        """`bad …` is refused."""
        await asyncio.sleep(0)
        if data.startswith(b"bad"):
            raise NinepError("bad message")
        self.messages.append(data)


class Sample:
    """The object at the top: things by name.

    Attributes:
        errors: what `on_error` was told: uname, path, text.
        failing: set with the first of them.
        searched: ends the search for the thing `later`.
        attaches: uname and aname of each.
    """

    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}
        self.errors: list[tuple[str, str, str]] = []
        self.failing = asyncio.Event()
        self.searched = asyncio.Event()
        self.attaches: list[tuple[str, str]] = []
        self._last = 0

    def add(self, name: str) -> Thing:
        """A new thing."""
        self._last += 1
        thing = self.things[name] = Thing(name, self._last)
        return thing

    async def search(self, name: str) -> Thing | None:
        """The thing with this name, when that is known."""
        await self.searched.wait()
        return self.things.get(name)

    async def remove(self, thing: Thing) -> None:
        """It is gone."""
        del self.things[thing.name]
        thing.gone = True

    async def rename(self, thing: Thing, name: str) -> None:
        """Another name; NinepError when it is taken."""
        if name in self.things:
            raise NinepError(f"thing exists: {name}")
        del self.things[thing.name]
        thing.name = name
        self.things[name] = thing

    def on_error(self, peer: Peer, path: str, error: NinepError) -> None:
        """What the server could not tell."""
        self.errors.append((peer.uname, path, str(error)))
        self.failing.set()
