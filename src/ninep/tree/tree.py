"""A tree: its tables, the object at the top, and who may do what."""

import os
import pwd
import time
from collections.abc import Sequence
from typing import TypeVar

from ninep import _wire
from ninep._session import Limits
from ninep.errors import NinepError
from ninep.tree.entries import Dir, Entry, Peer, Permit, permit_by_mode
from ninep.tree.held import Held
from ninep.tree.node import INDEX_BITS, Node, Scope
from ninep.tree.options import Options
from ninep.tree.place import Attached, Failed, Place

T = TypeVar("T")


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
        self.packed_owner = _wire.pack_string(self.uid) + _wire.pack_string(gid) + _wire.pack_string(self.uid)
        self.started = int(time.time())
        self.top = Node(Dir("/", "", entries), indices)

    def root(
        self, peer: Peer, options: Options | None = None, failed: Failed | None = None, held: Held | None = None
    ) -> Place:
        """The root as this peer sees it.

        Args:
            peer: who attaches.
            options: of its aname.
            failed: is told of errors that no reply can carry.
            held: what the files of its connection hold; as much as a connection may by default, where it is omitted.
        """
        attached = Attached(self, peer, options or Options(), failed or _ignore, held or Held(Limits().held_bytes))
        return Place(attached, self.top, Scope(self.obj, "/"))


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _ignore(_place: Place, _error: NinepError) -> None:
    """Nobody keeps it."""
