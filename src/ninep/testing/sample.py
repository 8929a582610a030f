"""A tree with a file of each kind, whose events come when the test says so.

readme text      status of the sample      slow request: answers when released
thing/{thing}/   label name ctl note log change level queue inbox ask
thing/later      is looked for, by a walk or a create, until the search is ended
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from ninep._session import check_name
from ninep.bell import Bell
from ninep.errors import NinepError
from ninep.files import (
    Control,
    Dir,
    Each,
    Entry,
    Level,
    Log,
    Queue,
    Request,
    Sink,
    StoredText,
    Text,
    Watch,
)
from ninep.files.control import command_text
from ninep.server import AfidConversation, Conn, Server
from ninep.tree import Peer, Role, Tree


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


async def _command(thing: Thing, _peer: Any, text: str) -> str:
    verb, _, rest = text.partition(" ")
    if verb == "echo":
        return rest + "\n"
    if verb == "wait":
        await thing.wait()
        return "waited\n"
    if verb == "change":
        thing.changes.add(rest.encode() + b"\n")
        return ""
    raise NinepError(f"unknown command: {verb}")


def _check(_thing: Thing, _peer: Any, data: bytes, _size: int) -> None:
    if b"\0" in data:
        raise NinepError("message contains NUL")


async def _level(thing: Thing, _peer: Any) -> bytes:
    await thing.ready.wait()
    return b"ready\n"


async def _put(thing: Thing, _peer: Any, data: bytes) -> None:
    thing.queue.append(data)


async def _remove(sample: Sample, _peer: Any, thing: Thing) -> None:
    await sample.remove(thing)


async def _rename(sample: Sample, _peer: Any, thing: Thing, name: str) -> None:
    await sample.rename(thing, name)


async def _create(sample: Sample, _peer: Any, name: str) -> Thing:
    if name.startswith("bad"):
        raise NinepError("bad name")
    return sample.add(name)


async def _make(sample: Sample, _peer: Any, data: bytes) -> None:
    name = command_text(data).strip()
    check_name(name)
    if name in sample.things:
        raise NinepError(f"thing exists: {name}")
    sample.add(name)


async def _make_and_tell(sample: Sample, peer: Any, data: bytes) -> AsyncIterator[bytes]:
    await _make(sample, peer, data)
    yield data.strip() + b"\n"


async def _change(thing: Thing, _peer: Any, data: bytes) -> None:
    if data.startswith(b"bad"):
        raise NinepError("bad change")
    thing.changes.add(data)


async def _slow_render(thing: Thing, _peer: Any) -> bytes:
    await thing.released.wait()
    return b"slow\n"


def _find(sample: Sample, _peer: Any, name: str) -> Thing | Awaitable[Thing | None] | None:
    return sample.search(name) if name == "later" else sample.things.get(name)


def _names(sample: Sample, _peer: Any) -> Iterable[tuple[str, Thing]]:
    return sample.things.items()


THING: tuple[Entry[Thing], ...] = (
    Text("label", 0o440, "Its name.", render=lambda thing, _: thing.name.encode() + b"\n"),
    Text("slow", 0o440, "Text that takes a while to make.", render=_slow_render),
    StoredText("note", 0o660, "Text kept.", buffer=lambda thing: thing.note),
    Control("ctl", 0o660, "Commands.", command=_command, text=lambda _thing, _peer: b"echo wait change\n"),
    Log("log", 0o440, "What happened.", log=lambda thing: thing.log),
    Watch(
        "change",
        0o660,
        "The next change.",
        watch=lambda thing, peer: thing.changes.watch(peer.uname),
        take=_change,
        pause_s=0.01,
    ),
    Level("level", 0o440, "Waits until it is ready.", wait=_level),
    Queue("queue", 0o660, "Entries.", put=_put, head=lambda thing, _: thing.head()),
    Sink("inbox", 0o220, "Messages.", take=lambda thing, _, data: thing.take(data), check=_check),
    Request("ask", 0o660, "Questions.", run=lambda thing, _, data: thing.answer(data)),
    Text("secret", 0o400, "For the user only.", render=lambda _thing, _peer: b"secret\n"),
)

ROOT: tuple[Entry[Sample], ...] = (
    Text("readme", 0o444, "A text.", render=lambda _sample, _peer: b"a sample of every kind\n"),
    Request("new", 0o660, "Makes a thing.", run=_make_and_tell, bare=_make),
    Dir(
        "thing",
        "All things.",
        (
            Text(
                "idx",
                0o440,
                "Their names.",
                render=lambda sample, _: b"".join(n.encode() + b"\n" for n in sample.things),
            ),
            Each(
                "{thing}",
                "One thing.",
                find=_find,
                names=_names,
                entries=THING,
                remove=_remove,
                create=_create,
                rename=_rename,
            ),
        ),
    ),
)


def sample_tree(sample: Sample) -> Tree:
    """Its tree."""
    return Tree(ROOT, sample, uid="owner")


def sample_server(sample: Sample, **options: Any) -> Server:
    """A server of it: `guest` is other, `member` group, everybody else the user; uname `nobody` is refused."""

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
        if uname == "nobody":
            raise NinepError("permission denied")
        sample.attaches.append((uname, aname))
        roles = {"guest": Role.OTHER, "member": Role.GROUP}
        return Peer(uname, aname, roles.get(uname, Role.USER))

    options.setdefault("on_error", sample.on_error)
    return Server(sample_tree(sample), attach, **options)
