"""What a place is made of: an entry where it stands in its table, and the objects that lead there."""

from collections.abc import Iterator
from struct import Struct
from typing import Any

from ninep import _wire, errors
from ninep._session import check_name
from ninep.errors import NinepError
from ninep.tree.entries import Dir, Each, Entry

INDEX_BITS = 16  # of a qid path; the number of the object is above them
_NUMBER_BYTES = 6
_QID_START = Struct("<BIH")  # what is the entry's: type, version, index; the object's number comes after it


class Scope:
    """The objects that lead to a place, the nearest of them and those above it.

    Args:
        obj: the nearest.
        name: what it was found by.
        above: the scope it was found in; None at the top.

    Attributes:
        objs: all of them, from the top down.
        number: the bytes of a qid that are the object's.
    """

    __slots__ = ("above", "name", "number", "obj", "objs")

    def __init__(self, obj: Any, name: str, above: "Scope | None" = None) -> None:
        self.obj = obj
        self.name = name
        self.above = above
        number: int
        if above is None:
            self.objs: tuple[Any, ...] = (obj,)
            number = getattr(obj, "number", 0)
        else:
            self.objs = (*above.objs, obj)
            number = obj.number
        self.number = number.to_bytes(_NUMBER_BYTES, "little")

    def enter(self, obj: Any, name: str) -> "Scope":
        """The scope of an object that was found here, None where there is none."""
        if obj is None or getattr(obj, "gone", False):
            raise NinepError(errors.NOT_FOUND)
        return Scope(obj, name, self)

    def check(self) -> None:
        """Refuse when one of the objects no longer exists."""
        for obj in self.objs:
            if getattr(obj, "gone", False):
                raise NinepError(errors.NOT_FOUND)


class Node:
    """An entry in its place in the table, and what places and stats of it have in common.

    Attributes:
        entry: of the table.
        index: which entry of the tree it is.
        parent: the directory it is in; None at the top.
        fixed_qid: the bytes of a qid that are the entry's; None where they have a version.
        children: of a directory, by name; they are well-formed. None for a file.
        each: the entry for all other names.
        filled: whether a directory's entries are there now; None where they always are.
        type: of its qid.
        mode: with the bit of what it is.
    """

    __slots__ = ("_packed_name", "children", "each", "entry", "filled", "fixed_qid", "index", "mode", "parent", "type")

    def __init__(self, entry: Entry[Any], indices: Iterator[int], parent: "Node | None" = None) -> None:
        self.entry = entry
        self.index = next(indices)
        self.parent = parent
        self.children: dict[str, Node] | None = None
        self.each: Node | None = None
        self.filled = entry.filled if isinstance(entry, Dir) else None
        self.type = _wire.QTTMP if entry.consumed else _wire.QTFILE
        self._packed_name = None if isinstance(entry, Each) else _wire.pack_string(entry.name)
        if isinstance(entry, Dir | Each):
            self.type = _wire.QTDIR
            self.children = {}
            for child in entry.entries:
                self._add(Node(child, indices, self))
        self.mode = self.type << 24 | entry.mode
        is_versioned = type(entry).version is not Entry.version
        self.fixed_qid = None if is_versioned else _QID_START.pack(self.type, 0, self.index)

    def _add(self, child: "Node") -> None:
        assert self.children is not None
        if isinstance(child.entry, Each):
            assert self.each is None, f"a directory has one Each: {child.entry.name}"
            self.each = child
        else:
            check_name(child.entry.name)
            assert child.entry.name not in self.children, f"a name is used twice: {child.entry.name}"
            self.children[child.entry.name] = child

    def qid(self, scope: Scope) -> bytes:
        """Its 13 bytes below these objects."""
        if self.fixed_qid is not None:
            return self.fixed_qid + scope.number
        version = self.entry.version(scope.obj) & _wire.MAX32
        return _QID_START.pack(self.type, version, self.index) + scope.number

    def name(self, scope: Scope) -> str:
        """Its present name."""
        if isinstance(self.entry, Each):
            return str(getattr(scope.obj, "name", scope.name))
        return self.entry.name

    def packed_name(self, scope: Scope) -> bytes:
        """Its present name as a stat has it."""
        return _wire.pack_string(self.name(scope)) if self._packed_name is None else self._packed_name

    def above(self, scope: Scope) -> "tuple[Node, Scope]":
        """The directory above, itself at the top."""
        if self.parent is None:
            return self, scope
        if isinstance(self.entry, Each):
            assert scope.above is not None
            scope = scope.above
        return self.parent, scope
