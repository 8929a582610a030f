"""A tree is tables of entries; this module turns names into places in it.

A directory is `Dir`, with a table of entries, or `Each`, which stands for as many directories as there are objects
(`{agent}`). Every callback gets the object of the nearest `Each` above, or the tree's own object at the top.

Invariants: the qid path is `number << 16 | index`, where `number` belongs to the object and `index` to the entry in its
table, so that it survives a rename and is never used twice; a place refers to its object, so that open fids follow a
rename as well; an object whose `gone` is true answers `file does not exist` everywhere.
"""

import os
import pwd
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from ninep import _wire, errors
from ninep._session import OpenFile, awaitable, check_name
from ninep.errors import NinepError
from ninep.messages import Stat

T = TypeVar("T")
C = TypeVar("C")

WANT_WALK, WANT_WRITE, WANT_READ = 1, 2, 4  # the mode bits of intro(5)
WANT_REMOVE, WANT_RENAME = 8, 16

INDEX_BITS = 16


class Role(StrEnum):
    """Which permission bits of a mode apply to a peer."""

    USER = "user"
    GROUP = "group"
    OTHER = "other"


@dataclass(frozen=True)
class Peer:
    """Who attached. Servers subclass it to add what their callbacks need to know.

    Args:
        uname: the user name of Tattach, claimed and not proved unless the attach callback proved it.
        aname: the aname of Tattach without its options.
        role: which bits of a file's mode apply.
    """

    uname: str
    aname: str
    role: Role


class Entry(Generic[T]):
    """One line of a directory's table: a kind of file, or a directory.

    Attributes:
        kind: what it is called in `help`.
        name: as served, or `{thing}` for an `Each`.
        about: one sentence.
        mode: permission bits, 0o000 to 0o777.
    """

    __slots__ = ()
    kind: ClassVar[str]
    name: str
    about: str
    mode: int

    def open(self, place: "Place", mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Prepare I/O; permissions have been checked. `iounit` is the largest payload of one Twrite."""
        raise NotImplementedError

    def length(self, obj: T) -> int:
        """The length that stat reports, in bytes: 0 for everything that is computed or that streams."""
        return 0

    def version(self, obj: T) -> int:
        """The version that the qid reports; it changes with the content, where that is known without asking."""
        return 0

    def truncate(self, obj: T, peer: Any, length: int) -> Awaitable[None] | None:
        """OTRUNC, or wstat of the length. It means nothing here; any length but 0 is refused."""
        if length:
            raise NinepError(errors.TRUNCATE_PROHIBITED)
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Dir(Entry[T]):
    """A directory with a fixed table; at most one of its entries is an `Each`."""

    kind = "dir"
    name: str
    about: str
    entries: Sequence[Entry[T]]
    mode: int = 0o550


@dataclass(frozen=True, slots=True, eq=False)
class Each(Entry[T], Generic[T, C]):
    """One directory for each object that `names` lists and `find` finds.

    An object has a `number`, never used for another object under the same entry. It may have a `name`, the one shown by
    stat also after a rename, and `gone`, true when it no longer exists.

    Args:
        name: `{agent}`, for people.
        about: one sentence.
        find: the object with this name or id, or None.
        names: all `(name, object)` that a directory read shows.
        entries: the table of each directory; its callbacks get the object found.
        remove: Tremove of such a directory, allowed by `WANT_REMOVE`; without it remove is refused.
        rename: wstat of its name to a well-formed name, allowed by `WANT_RENAME`; without it refused. It raises when
            the name is taken.
        mode: of each directory.
    """

    kind = "each"
    name: str
    about: str
    find: Callable[[T, Any, str], C | Awaitable[C | None] | None]
    names: Callable[[T, Any], Iterable[tuple[str, C]] | Awaitable[Iterable[tuple[str, C]]]]
    entries: Sequence[Entry[C]]
    remove: Callable[[T, Any, C], Awaitable[None]] | None = None
    rename: Callable[[T, Any, C, str], Awaitable[None]] | None = None
    mode: int = 0o550


Permit = Callable[[Any, Entry[Any], tuple[Any, ...], int], None]

_SHIFT = {Role.USER: 6, Role.GROUP: 3, Role.OTHER: 0}


def permit_by_mode(peer: Peer, entry: Entry[Any], _objs: tuple[Any, ...], want: int) -> None:
    """The mode bits of the peer's role decide; remove and rename are for the user role."""
    if want > WANT_WALK | WANT_WRITE | WANT_READ:
        allowed = peer.role is Role.USER
    else:
        allowed = not want & ~(entry.mode >> _SHIFT[peer.role])
    if not allowed:
        raise NinepError(errors.PERMISSION_DENIED)


class Node:
    """An entry in its place in the table, with its index and its children by name."""

    __slots__ = ("children", "each", "entry", "index")

    def __init__(self, entry: Entry[Any], indices: Iterator[int]) -> None:
        self.entry = entry
        self.index = next(indices)
        self.children: dict[str, Node] | None = None
        self.each: Node | None = None
        if isinstance(entry, Dir | Each):
            self.children = {}
            for child in entry.entries:
                self._add(Node(child, indices))

    def _add(self, child: "Node") -> None:
        assert self.children is not None
        if isinstance(child.entry, Each):
            assert self.each is None, f"a directory has one Each: {child.entry.name}"
            self.each = child
        else:
            check_name(child.entry.name)
            assert child.entry.name not in self.children, f"a name is used twice: {child.entry.name}"
            self.children[child.entry.name] = child


class Tree:
    """Tables, the object at the top, and who may do what.

    Args:
        entries: the table of the root directory.
        obj: the object that its callbacks get.
        permit: called with `(peer, entry, objs, want)` for every directory walked from (`WANT_WALK`), at open
            (`WANT_READ`, `WANT_WRITE`, both, or `WANT_WALK` for OEXEC), at truncation (`WANT_WRITE`), remove and
            rename; `objs` are the objects from the top down to the nearest. It raises NinepError.
        uid: owner of every file; the process's user when empty.
        gid: group of every file.
    """

    def __init__(
        self,
        entries: Sequence[Entry[T]],
        obj: T,
        *,
        permit: Permit = permit_by_mode,
        uid: str = "",
        gid: str = "agent",
    ) -> None:
        indices = iter(range(1 << INDEX_BITS))
        self.obj = obj
        self.permit = permit
        self.uid = uid or _user()
        self.gid = gid
        self.started = int(time.time())
        self.top = Node(Dir("/", "", entries), indices)

    def root(self, peer: Peer, options: "Options | None" = None, failed: "Failed | None" = None) -> "Place":
        """The root as this peer sees it; `failed` is told of errors that no reply can carry."""
        attached = Attached(self, peer, options or Options(), failed or _ignore)
        return Place(self.top, self.obj, (self.obj,), getattr(self.obj, "number", 0), attached, None, "/")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


@dataclass(frozen=True, slots=True)
class Options:
    """Options at the end of an aname.

    Args:
        yield_s: a blocked read gives end of file after so many seconds; None waits for ever.
        kernel: a stream answers one empty read between a piece of data and a wait, for clients that repeat Treads until
            their buffer is full.
    """

    yield_s: float | None = None
    kernel: bool = False

    @classmethod
    def split(cls, aname: str) -> tuple[str, "Options"]:
        """The aname without the options that end it, and the options: `kernel`, `yield=5`, separated by `,` or blanks.

        Raises:
            NinepError: `bad option: yield=soon`.
        """
        yield_s, kernel = None, False
        while aname:
            head, option = _last_word(aname)
            if option == "kernel":
                kernel = True
            elif option.startswith("yield="):
                yield_s = _seconds(option)
            else:
                break
            aname = head
        return aname, cls(yield_s, kernel)


def _last_word(text: str) -> tuple[str, str]:
    at = max(text.rfind(","), text.rfind(" ")) + 1
    return text[:at].rstrip(", "), text[at:]


def _seconds(option: str) -> float:
    try:
        seconds = float(option.removeprefix("yield="))
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise NinepError(f"bad option: {option}")
    return seconds


Failed = Callable[["Place", NinepError], None]


def _ignore(_place: "Place", _error: NinepError) -> None:
    pass


class Attached:
    """What all places of one attach share."""

    __slots__ = ("failed", "options", "peer", "tree")

    def __init__(self, tree: Tree, peer: Peer, options: Options, failed: "Failed") -> None:
        self.tree, self.peer, self.options, self.failed = tree, peer, options, failed


class Place:
    """Where a fid is: an entry, the objects that lead there, and the directory above."""

    __slots__ = ("_name", "_number", "attached", "node", "obj", "objs", "parent")

    def __init__(  # noqa: PLR0917 - made at every step of a walk, where keywords cost
        self,
        node: Node,
        obj: Any,
        objs: tuple[Any, ...],
        number: int,
        attached: Attached,
        parent: "Place | None",
        name: str,
    ) -> None:
        self.node = node
        self.obj = obj
        self.objs = objs
        self.attached = attached
        self.parent = parent
        self._number = number
        self._name = name

    @property
    def is_dir(self) -> bool:
        """Whether it can be walked from."""
        return self.node.children is not None

    @property
    def peer(self) -> Peer:
        """Who attached."""
        return self.attached.peer

    @property
    def name(self) -> str:
        """Its present name."""
        if self.parent is not None and self.obj is not self.parent.obj:
            return str(getattr(self.obj, "name", self._name))
        return self._name

    def path(self) -> str:
        """For people: `session/myproj/ctl`, `/` for the root."""
        names = []
        place: Place = self
        while place.parent is not None:
            names.append(place.name)
            place = place.parent
        return "/".join(reversed(names)) or "/"

    def qid(self) -> bytes:
        """Its 13 bytes."""
        node = self.node
        kind = _wire.QTFILE if node.children is None else _wire.QTDIR
        version = node.entry.version(self.obj) & _wire.MAX32
        return _wire.QID.pack(kind, version, self._number << INDEX_BITS | node.index)

    def check(self) -> None:
        """Refuse when one of the objects that lead here no longer exists."""
        for obj in self.objs:
            if getattr(obj, "gone", False):
                raise NinepError(errors.NOT_FOUND)

    def permit(self, want: int) -> None:
        """Refuse what the peer may not do here."""
        self.attached.tree.permit(self.attached.peer, self.node.entry, self.objs, want)

    def walk(self, name: str) -> "Place | Awaitable[Place]":
        """One step; `name` is well-formed, or `..`."""
        node = self.node
        if node.children is None:
            raise NinepError(errors.NOT_DIRECTORY)
        if name == "..":
            return self if self.parent is None else self.parent
        self.check()
        self.permit(WANT_WALK)
        child = node.children.get(name)
        if child is not None:
            return Place(child, self.obj, self.objs, self._number, self.attached, self, name)
        if node.each is None:
            raise NinepError(errors.NOT_FOUND)
        found = node.each.entry.find(self.obj, self.attached.peer, name)  # type: ignore[attr-defined]  # it is an Each
        if awaitable(found):
            return self._find(node.each, found, name)
        return self._enter(node.each, found, name)

    async def _find(self, each: Node, finding: Awaitable[Any], name: str) -> "Place":
        return self._enter(each, await finding, name)

    def _enter(self, each: Node, obj: Any, name: str) -> "Place":
        if obj is None or getattr(obj, "gone", False):
            raise NinepError(errors.NOT_FOUND)
        return Place(each, obj, (*self.objs, obj), obj.number, self.attached, self, name)

    def open(self, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Check permissions and prepare I/O."""
        self.check()
        if mode & ~(3 | _wire.OTRUNC | _wire.ORCLOSE):
            raise NinepError(errors.ILLEGAL_MODE)
        if self.node.children is not None and mode not in {_wire.OREAD, _wire.OEXEC}:
            raise NinepError(errors.IS_DIRECTORY)
        self.permit(_WANT[mode & 3] | (WANT_WRITE if mode & _wire.OTRUNC else 0))
        if mode & _wire.ORCLOSE:
            raise NinepError(errors.REMOVE_PROHIBITED)
        if self.node.children is not None:
            return DirFile(self)
        return self.node.entry.open(self, mode, iounit)

    def stat(self) -> bytes:
        """The directory entry, a whole record."""
        self.check()
        return self._record()

    def _record(self) -> bytes:
        entry, tree = self.node.entry, self.attached.tree
        mode = entry.mode if self.node.children is None else entry.mode | _wire.DMDIR
        length = entry.length(self.obj)
        times = tree.started
        return _wire.pack_stat(0, 0, self.qid(), mode, times, times, length, self.name, tree.uid, tree.gid, tree.uid)

    def children(self) -> "Iterator[Place] | Awaitable[Iterator[Place]]":
        """The places in this directory, fixed now and made as they are asked for."""
        node = self.node
        if node.each is None:
            return self._places(())
        listing = node.each.entry.names(self.obj, self.attached.peer)  # type: ignore[attr-defined]  # it is an Each
        if awaitable(listing):
            return self._list(listing)
        return self._places(list(listing))

    async def _list(self, listing: Awaitable[Iterable[tuple[str, Any]]]) -> "Iterator[Place]":
        return self._places(list(await listing))

    def _places(self, listing: Sequence[tuple[str, Any]]) -> "Iterator[Place]":
        assert self.node.children is not None
        for name, child in self.node.children.items():
            yield Place(child, self.obj, self.objs, self._number, self.attached, self, name)
        for name, obj in listing:
            if not getattr(obj, "gone", False):
                assert self.node.each is not None
                yield Place(self.node.each, obj, (*self.objs, obj), obj.number, self.attached, self, name)

    def wstat(self, record: bytes) -> Awaitable[None] | None:
        """Truncate, or rename a directory that allows it; anything else is refused, and then nothing is changed."""
        self.check()
        wanted, now = Stat.parse(record), Stat.parse(self._record())
        changes = {name for name in _FIELDS if getattr(wanted, name) not in {getattr(_NULL, name), getattr(now, name)}}
        truncate = wanted.length != _NULL.length and not self.is_dir
        if truncate:
            changes -= {"length", "mtime", "atime"}
        if changes == {"name"} and not truncate:
            return self._rename(wanted.name)
        if changes:
            raise NinepError(errors.WSTAT_PROHIBITED)
        if truncate and wanted.length != now.length:
            self.permit(WANT_WRITE)
            return self.node.entry.truncate(self.obj, self.peer, wanted.length)
        return None

    def _rename(self, name: str) -> Awaitable[None]:
        check_name(name)
        entry = self.node.entry
        if not isinstance(entry, Each) or entry.rename is None or self.parent is None:
            raise NinepError(errors.WSTAT_PROHIBITED)
        if name == "..":
            raise NinepError(errors.ILLEGAL_NAME)
        self.permit(WANT_RENAME)
        renaming: Awaitable[None] = entry.rename(self.parent.obj, self.peer, self.obj, name)
        return renaming

    def remove(self) -> Awaitable[None] | None:
        """Remove an `Each` directory that allows it."""
        self.check()
        entry = self.node.entry
        if not isinstance(entry, Each) or entry.remove is None or self.parent is None:
            raise NinepError(errors.REMOVE_PROHIBITED)
        self.permit(WANT_REMOVE)
        removing: Awaitable[None] = entry.remove(self.parent.obj, self.peer, self.obj)
        return removing


_WANT = (WANT_READ, WANT_WRITE, WANT_READ | WANT_WRITE, WANT_WALK)
_NULL = Stat()
_FIELDS = ("type", "dev", "qid", "mode", "atime", "mtime", "length", "name", "uid", "gid", "muid")


class DirFile(OpenFile):
    """Reads a directory: whole records, the same listing from one read at offset 0 to the next."""

    __slots__ = ("_end", "_pending", "_place", "_places")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self._places: Iterator[Place] = iter(())
        self._pending = b""  # a record that did not fit the last reply
        self._end = 0

    def read(self, offset: int, count: int) -> bytes | Awaitable[bytes]:
        """Whole records from the start, or from exactly where the last read ended."""
        if offset == 0:
            self._place.check()
            places = self._place.children()
            if awaitable(places):
                return self._begin(places, count)
            self._start(places)  # type: ignore[arg-type]  # not awaitable
        elif offset != self._end:
            raise NinepError(errors.BAD_DIRECTORY_OFFSET)
        return self._fill(count)

    async def _begin(self, listing: Awaitable[Iterator[Place]], count: int) -> bytes:
        self._start(await listing)
        return self._fill(count)

    def _start(self, places: Iterator[Place]) -> None:
        self._places, self._pending, self._end = places, b"", 0

    def _fill(self, count: int) -> bytes:
        data = self._pending
        if len(data) > count:
            raise NinepError(errors.COUNT_TOO_SMALL)
        records = [data]
        size = len(data)
        self._pending = b""
        for place in self._places:
            record = place._record()  # noqa: SLF001 - the check of `stat` would end the listing at an object just gone
            if size + len(record) > count:
                self._pending = record
                break
            records.append(record)
            size += len(record)
        if self._pending and not size:
            raise NinepError(errors.COUNT_TOO_SMALL)
        self._end += size
        return b"".join(records)
