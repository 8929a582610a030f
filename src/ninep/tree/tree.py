"""A tree: its tables with an index for each entry."""

import os
import pwd
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ninep import _wire
from ninep._session import check_name
from ninep.errors import NinepError
from ninep.tree.entries import Dir, Each, Entry, Peer, Permit, permit_by_mode
from ninep.tree.options import Options
from ninep.tree.place import INDEX_BITS, Attached, Failed, Place

T = TypeVar("T")


class Node:
    """An entry in its place in the table, with its index, its children by name, and what its qids have in common."""

    __slots__ = ("children", "each", "entry", "filled", "index", "type", "versioned")

    def __init__(self, entry: Entry[Any], indices: Iterator[int]) -> None:
        self.entry = entry
        self.index = next(indices)
        self.children: dict[str, Node] | None = None
        self.each: Node | None = None
        self.filled = entry.filled if isinstance(entry, Dir) else None
        self.type = _wire.QTDIR if isinstance(entry, Dir | Each) else _wire.QTFILE
        self.versioned = type(entry).version is not Entry.version
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
            (`WANT_READ`, `WANT_WRITE`, both, or `WANT_WALK` for OEXEC), at truncation (`WANT_WRITE`), create, remove
            and rename; `objs` are the objects from the top down to the nearest. It raises NinepError.
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

    def root(self, peer: Peer, options: Options | None = None, failed: Failed | None = None) -> Place:
        """The root as this peer sees it; `failed` is told of errors that no reply can carry."""
        attached = Attached(self, peer, options or Options(), failed or _ignore)
        return Place(self.top, self.obj, (self.obj,), getattr(self.obj, "number", 0), attached, None, "/")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _ignore(_place: Place, _error: NinepError) -> None:
    """Nobody keeps it."""
