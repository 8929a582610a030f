"""Where a fid is in a tree, and the reading of directories."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from ninep import _wire, errors
from ninep._session import OpenFile, awaitable, check_name
from ninep.errors import NinepError
from ninep.messages import Stat
from ninep.tree.entries import (
    WANT_CREATE,
    WANT_READ,
    WANT_REMOVE,
    WANT_RENAME,
    WANT_WALK,
    WANT_WRITE,
    Each,
    Peer,
)

if TYPE_CHECKING:
    from ninep.tree.options import Options
    from ninep.tree.tree import Node, Tree

_pack_qid = _wire.QID.pack

INDEX_BITS = 16  # of a qid path; the number of the object is above them

Failed = Callable[["Place", NinepError], None]


class Attached:
    """What all places of one attach share."""

    __slots__ = ("failed", "options", "peer", "tree")

    def __init__(self, tree: "Tree", peer: Peer, options: "Options", failed: "Failed") -> None:
        self.tree, self.peer, self.options, self.failed = tree, peer, options, failed


class Place:
    """Where a fid is: an entry, the objects that lead there, and the directory above."""

    __slots__ = ("_name", "_number", "attached", "node", "obj", "objs", "parent")

    def __init__(  # noqa: PLR0917  made at every step of a walk, where keywords cost
        self,
        node: "Node",
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
        version = node.entry.version(self.obj) & _wire.MAX32 if node.versioned else 0
        return _pack_qid(node.type, version, self._number << INDEX_BITS | node.index)

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
        attached = self.attached
        attached.tree.permit(attached.peer, node.entry, self.objs, WANT_WALK)
        if node.filled is not None and not node.filled(self.obj, attached.peer):
            raise NinepError(errors.NOT_FOUND)
        child = node.children.get(name)
        if child is not None:
            return Place(child, self.obj, self.objs, self._number, self.attached, self, name)
        if node.each is None:
            raise NinepError(errors.NOT_FOUND)
        found = node.each.entry.find(self.obj, self.attached.peer, name)  # type: ignore[attr-defined]  # it is an Each
        if awaitable(found):
            return self._find(node.each, found, name)
        return self._enter(node.each, found, name)

    async def _find(self, each: "Node", finding: Awaitable[Any], name: str) -> "Place":
        return self._enter(each, await finding, name)

    def _enter(self, each: "Node", obj: Any, name: str) -> "Place":
        if obj is None or getattr(obj, "gone", False):
            raise NinepError(errors.NOT_FOUND)
        return Place(each, obj, (*self.objs, obj), obj.number, self.attached, self, name)

    def open(self, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Check permissions and prepare I/O."""
        self.check()
        if mode & ~(3 | _wire.OTRUNC | _wire.ORCLOSE):
            raise NinepError(errors.ILLEGAL_MODE)
        if self.node.children is not None and mode & ~_wire.ORCLOSE not in {_wire.OREAD, _wire.OEXEC}:
            raise NinepError(errors.IS_DIRECTORY)
        self.permit(_WANT[mode & 3] | (WANT_WRITE if mode & _wire.OTRUNC else 0))
        if mode & _wire.ORCLOSE:
            raise NinepError(errors.PERMISSION_DENIED)
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
        if node.filled is not None and not node.filled(self.obj, self.peer):
            return iter(())
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

    def create(self, name: str, perm: int, mode: int, iounit: int) -> Awaitable[tuple["Place", OpenFile]]:
        """Make an `Each` directory, where that is allowed, and open it."""
        self.check()
        each = self.node.each
        if each is None or each.entry.create is None or not perm & _wire.DMDIR:  # type: ignore[attr-defined]  # an Each
            raise NinepError(errors.PERMISSION_DENIED)
        if perm & ~(_wire.DMDIR | 0o777) or mode & ~3:  # exclusive use, append only, or remove on close
            raise NinepError(errors.ILLEGAL_MODE)
        if mode not in {_wire.OREAD, _wire.OEXEC}:
            raise NinepError(errors.IS_DIRECTORY)
        if name == "..":
            raise NinepError(errors.ILLEGAL_NAME)
        self.permit(WANT_CREATE)
        return self._create(each, name, mode, iounit)

    async def _create(self, each: "Node", name: str, mode: int, iounit: int) -> tuple["Place", OpenFile]:
        assert self.node.children is not None
        entry: Each[Any, Any] = each.entry  # type: ignore[assignment]  # it is an Each
        found = self.node.children.get(name) or entry.find(self.obj, self.peer, name)
        if awaitable(found):
            found = await found
        if found is not None:
            raise NinepError(errors.NAME_EXISTS)
        assert entry.create is not None
        place = self._enter(each, await entry.create(self.obj, self.peer, name), name)
        return place, cast("OpenFile", place.open(mode, iounit))

    def remove(self) -> Awaitable[None] | None:
        """Remove an `Each` directory that allows it."""
        self.check()
        entry = self.node.entry
        if not isinstance(entry, Each) or entry.remove is None or self.parent is None:
            raise NinepError(errors.PERMISSION_DENIED)
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
            record = place._record()  # noqa: SLF001  the check of `stat` would end the listing at an object just gone
            if size + len(record) > count:
                self._pending = record
                break
            records.append(record)
            size += len(record)
        if self._pending and not size:
            raise NinepError(errors.COUNT_TOO_SMALL)
        self._end += size
        return b"".join(records)
