"""A tree is tables of entries; this module turns names into places in it.

A directory is `Dir`, with a table of entries, or `Each`, which stands for as many directories as there are objects
(`{agent}`). Every callback gets the object of the nearest `Each` above, or the tree's own object at the top.

Invariants: the qid path is `number << 16 | index`, where `number` belongs to the object and `index` to the entry in its
table, so that it survives a rename and is never used twice; a place refers to its object, so that open fids follow a
rename as well; an object whose `gone` is true answers `file does not exist` everywhere.
"""

from ninep._session import OpenFile
from ninep.tree.entries import (
    WANT_CREATE,
    WANT_READ,
    WANT_REMOVE,
    WANT_RENAME,
    WANT_WALK,
    WANT_WRITE,
    Dir,
    Each,
    Entry,
    Peer,
    Role,
    permit_by_mode,
)
from ninep.tree.held import Held
from ninep.tree.options import Options
from ninep.tree.place import Place
from ninep.tree.tree import Tree

__all__ = [
    "WANT_CREATE",
    "WANT_READ",
    "WANT_REMOVE",
    "WANT_RENAME",
    "WANT_WALK",
    "WANT_WRITE",
    "Dir",
    "Each",
    "Entry",
    "Held",
    "OpenFile",
    "Options",
    "Peer",
    "Place",
    "Role",
    "Tree",
    "permit_by_mode",
]
