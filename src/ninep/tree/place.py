"""Where a fid is in a tree."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from ninep import _wire, errors
from ninep._session import OpenFile, Walked, awaitable, check_name
from ninep.errors import NinepError
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
from ninep.tree.held import Held
from ninep.tree.node import Node, Scope

if TYPE_CHECKING:
    from ninep.tree.options import Options
    from ninep.tree.tree import Tree

Failed = Callable[["Place", NinepError], None]


class Attached:
    """What all places of one attach share.

    Attributes:
        held: what all files of the connection hold.
    """

    __slots__ = ("failed", "held", "options", "peer", "tree")

    def __init__(self, tree: "Tree", peer: Peer, options: "Options", failed: Failed, held: Held) -> None:
        self.tree, self.peer, self.options, self.failed, self.held = tree, peer, options, failed, held


class Place:
    """Where a fid is: an entry, and the objects that lead there.

    `walk`, `open` and `stat` are most of what is ever asked: they spell out what the others call by name (`check`,
    `permit`, `is_dir`, `peer`).
    """

    __slots__ = ("attached", "node", "scope")

    def __init__(self, attached: Attached, node: Node, scope: Scope) -> None:
        self.attached = attached
        self.node = node
        self.scope = scope

    @property
    def is_dir(self) -> bool:
        """Whether it can be walked from."""
        return self.node.children is not None

    @property
    def obj(self) -> Any:
        """The nearest object."""
        return self.scope.obj

    @property
    def peer(self) -> Peer:
        """Who attached."""
        return self.attached.peer

    @property
    def name(self) -> str:
        """Its present name."""
        return self.node.name(self.scope)

    def path(self) -> str:
        """For people: `session/myproj/ctl`, `/` for the root."""
        names = []
        node, scope = self.node, self.scope
        while node.parent is not None:
            names.append(node.name(scope))
            node, scope = node.above(scope)
        return "/".join(reversed(names)) or "/"

    def qid(self) -> bytes:
        """Its 13 bytes."""
        return self.node.qid(self.scope)

    def check(self) -> None:
        """Refuse when one of the objects that lead here no longer exists."""
        self.scope.check()

    def permit(self, want: int) -> None:
        """Refuse what the peer may not do here."""
        self.attached.tree.permit(self.attached.peer, self.node.entry, self.scope.objs, want)

    def walk(self, names: Sequence[str]) -> Walked | Awaitable[Walked]:
        """Name by name, until one of them fails; NinepError when it is the first."""
        return self._walk(self.node, self.scope, iter(names), []) if names else (self, [])

    def _walk(self, node: Node, scope: Scope, names: Iterator[str], qids: list[bytes]) -> Walked | Awaitable[Walked]:
        """On from a node, until a name fails or an object has to be waited for.

        Names of the tables are well-formed, so that only the others are looked at.
        """
        attached = self.attached
        peer, permit = attached.peer, attached.tree.permit
        try:
            scope.check()
            for name in names:
                children = node.children
                if children is None:
                    check_name(name)
                    raise NinepError(errors.NOT_DIRECTORY)
                if name == "..":
                    node, scope = node.above(scope)
                else:
                    permit(peer, node.entry, scope.objs, WANT_WALK)
                    if node.filled is not None and not node.filled(scope.obj, peer):
                        raise NinepError(errors.NOT_FOUND)
                    child = children.get(name)
                    if child is None:
                        child, found = self._find(node, scope, name)
                        if awaitable(found):
                            return self._walk_on(child, scope, found, name, names, qids)
                        scope = scope.enter(found, name)
                    node = child
                qids.append(node.qid(scope) if node.fixed_qid is None else node.fixed_qid + scope.number)
        except NinepError:
            if not qids:
                raise
        return Place(attached, node, scope), qids

    def _find(self, node: Node, scope: Scope, name: str) -> tuple[Node, Any]:
        """The `Each` of a directory, and what it finds."""
        check_name(name)
        if node.each is None:
            raise NinepError(errors.NOT_FOUND)
        return node.each, node.each.entry.find(scope.obj, self.peer, name)  # type: ignore[attr-defined]  # it is an Each

    async def _walk_on(  # noqa: PLR0917  where `_walk` stopped
        self, each: Node, scope: Scope, finding: Awaitable[Any], name: str, names: Iterator[str], qids: list[bytes]
    ) -> Walked:
        try:
            below = scope.enter(await finding, name)
            qids.append(each.qid(below))
        except NinepError:
            if not qids:
                raise
            assert each.parent is not None
            return Place(self.attached, each.parent, scope), qids
        walked = self._walk(each, below, names, qids)
        return walked if isinstance(walked, tuple) else await walked

    def open(self, mode: int, iounit: int) -> OpenFile | Awaitable[OpenFile]:
        """Check permissions and prepare I/O."""
        self.scope.check()
        want = _WANT.get(mode & ~_wire.ORCLOSE)
        if want is None:
            raise NinepError(errors.ILLEGAL_MODE)
        if want & WANT_WRITE and self.node.children is not None:
            raise NinepError(errors.IS_DIRECTORY)
        attached = self.attached
        attached.tree.permit(attached.peer, self.node.entry, self.scope.objs, want)
        if mode & _wire.ORCLOSE:
            raise NinepError(errors.PERMISSION_DENIED)
        return self.node.entry.open(self, mode, iounit)

    def stat(self) -> bytes:
        """The directory entry, a whole record."""
        self.scope.check()
        return self.record()

    def record(self) -> bytes:
        """The same, of an object that is gone as well."""
        node, scope, tree = self.node, self.scope, self.attached.tree
        strings = node.packed_name(scope) + tree.packed_owner
        length = node.entry.length(scope.obj)
        return _wire.pack_record(0, 0, node.qid(scope), node.mode, tree.started, tree.started, length, strings)

    def children(self) -> "Iterator[Place] | Awaitable[Iterator[Place]]":
        """The places in this directory, fixed now and made as they are asked for."""
        node = self.node
        if node.filled is not None and not node.filled(self.obj, self.peer):
            return iter(())
        if node.each is None:
            return self._places(())
        listing = node.each.entry.names(self.obj, self.peer)  # type: ignore[attr-defined]  # it is an Each
        if awaitable(listing):
            return self._list(listing)
        return self._places(list(listing))

    async def _list(self, listing: Awaitable[Iterable[tuple[str, Any]]]) -> "Iterator[Place]":
        return self._places(list(await listing))

    def _places(self, listing: Sequence[tuple[str, Any]]) -> "Iterator[Place]":
        assert self.node.children is not None
        for child in self.node.children.values():
            yield Place(self.attached, child, self.scope)
        for name, obj in listing:
            assert self.node.each is not None
            yield Place(self.attached, self.node.each, Scope(obj, name, self.scope))

    def wstat(self, record: bytes) -> Awaitable[None] | None:
        """Truncate, or rename a directory that allows it; anything else is refused, and then nothing is changed."""
        self.check()
        wanted, now = _fields(record), _fields(self.record())
        changes = {name for name, value in wanted.items() if value not in {_NULL[name], now[name]}}
        if wanted["name"]:
            changes -= {"muid"}  # Linux's client gives its uname there when it renames
        truncate = wanted["length"] != _NULL["length"] and not self.is_dir
        if truncate:
            changes -= {"length", "mtime", "atime"}
        if changes == {"name"} and not truncate:
            return self._rename(wanted["name"])
        if changes:
            raise NinepError(errors.WSTAT_PROHIBITED)
        if truncate and wanted["length"] != now["length"]:
            self.permit(WANT_WRITE)
            return self.node.entry.truncate(self.obj, self.peer, wanted["length"])
        return None

    def _rename(self, name: str) -> Awaitable[None]:
        check_name(name)
        entry = self.node.entry
        if not isinstance(entry, Each) or entry.rename is None:
            raise NinepError(errors.WSTAT_PROHIBITED)
        if name == "..":
            raise NinepError(errors.ILLEGAL_NAME)
        self.permit(WANT_RENAME)
        assert self.scope.above is not None
        renaming: Awaitable[None] = entry.rename(self.scope.above.obj, self.peer, self.obj, name)
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

    async def _create(self, each: Node, name: str, mode: int, iounit: int) -> tuple["Place", OpenFile]:
        assert self.node.children is not None
        entry: Each[Any, Any] = each.entry  # type: ignore[assignment]  # it is an Each
        found = self.node.children.get(name) or entry.find(self.obj, self.peer, name)
        if awaitable(found):
            found = await found
        if found is not None:
            raise NinepError(errors.NAME_EXISTS)
        assert entry.create is not None
        made = await entry.create(self.obj, self.peer, name)
        place = Place(self.attached, each, self.scope.enter(made, name))
        return place, cast("OpenFile", place.open(mode, iounit))

    def remove(self) -> Awaitable[None] | None:
        """Remove an `Each` directory that allows it."""
        self.check()
        entry = self.node.entry
        if not isinstance(entry, Each) or entry.remove is None:
            raise NinepError(errors.PERMISSION_DENIED)
        self.permit(WANT_REMOVE)
        assert self.scope.above is not None
        removing: Awaitable[None] = entry.remove(self.scope.above.obj, self.peer, self.obj)
        return removing


_WANT = {
    _wire.OREAD: WANT_READ,
    _wire.OWRITE: WANT_WRITE,
    _wire.ORDWR: WANT_READ | WANT_WRITE,
    _wire.OEXEC: WANT_WALK,
}
_WANT |= {mode | _wire.OTRUNC: want | WANT_WRITE for mode, want in _WANT.items()}
_FIELDS = ("type", "dev", "qid", "mode", "atime", "mtime", "length", "name", "uid", "gid", "muid")


def _fields(record: bytes) -> dict[str, Any]:
    """A stat record by the names of its fields."""
    return dict(zip(_FIELDS, _wire.parse_stat(record, 0, len(record)), strict=True))


_NULL = _fields(_wire.NULL_STAT)
