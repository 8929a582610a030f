"""What the kernel calls nodes: files and directories by number, and the fids behind them.

A node that was used lately holds a fid, so that it follows its file when somebody renames it. The kernel forgets nodes
only when it needs memory, so the number of those fids is bounded: the oldest are given up. A node without one, also
after the connection was lost and made again, is walked to anew by its path.

The kernel locks a node while it is written. So that one command can stop another that still runs, a file that is open
for writing gets another node when it is looked up again.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from ninep import _wire, errors
from ninep.client import Client
from ninep.client.client import ROOT
from ninep.errors import NinepError
from ninep.fuse.link import Link
from ninep.fuse.protocol import ROOT_ID
from ninep.messages import Stat


class Node:
    """A file or directory that the kernel knows.

    Attributes:
        nodeid: its number, never used again.
        name: in its parent, as last heard of.
        qid_type: what it is: QTDIR for a directory, QTTMP for a file whose reads take away what they read.
        qid_path: the server's identification of it.
        lookups: how often the kernel was told of it and has not forgotten it.
        writers: handles open for writing.
        uses: requests that go through its fid now.
        client: the one that found it.
        fid: a fid at it, of that client; None where it was given up.
    """

    __slots__ = ("client", "fid", "lookups", "name", "nodeid", "parent", "qid_path", "qid_type", "uses", "writers")

    def __init__(self, nodeid: int, parent: "Node | None", name: str, qid_type: int) -> None:
        self.nodeid = nodeid
        self.parent = parent
        self.name = name
        self.qid_type = qid_type
        self.qid_path = 0
        self.lookups = 0
        self.writers = 0
        self.uses = 0
        self.client: Client | None = None
        self.fid: int | None = None

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return bool(self.qid_type & _wire.QTDIR)

    def path(self) -> str:
        """From the root: `session/myproj/ctl`; empty for the root itself."""
        names = []
        node = self
        while node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/".join(reversed(names))


class Spot(NamedTuple):
    """Where a request goes."""

    client: Client
    fid: int


class Nodes:
    """All nodes of a mount.

    Args:
        link: the connection.
        fids: how many nodes hold one at the same time, if not more are in use.
    """

    def __init__(self, link: Link, fids: int = 512) -> None:
        self.root = Node(ROOT_ID, None, "", _wire.QTDIR)
        self._link = link
        self._by_id = {ROOT_ID: self.root}
        self._by_name: dict[tuple[int, str], Node] = {}
        self._fids = fids
        self._holding: dict[int, Node] = {}  # the nodes with a fid, the one used last at the end
        self._next_id = ROOT_ID + 1
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, nodeid: int) -> Node:
        """The node with this number; ESTALE when there is none."""
        node = self._by_id.get(nodeid)
        if node is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return node

    @asynccontextmanager
    async def at(self, node: Node) -> AsyncIterator[Spot]:
        """A fid at the node, to be used within the context; it belongs to the node.

        Raises:
            ConnectionLostError: there is no server.
            NinepError: the node is not where it was.
        """
        client = await self._link.client()
        node.uses += 1
        try:
            yield Spot(client, ROOT if node is self.root else await self._fid(node, client))
        finally:
            node.uses -= 1

    async def _fid(self, node: Node, client: Client) -> int:
        if node.client is client and node.fid is not None:
            self._used(node)
            return node.fid
        fid = await client.walk(node.path())
        try:
            stat = await client.fstat(fid)
            if stat.is_dir != node.is_dir or _replaced(node, client, stat):
                raise NinepError(errors.NOT_FOUND)
        except BaseException:
            client.forget(fid)
            raise
        return self._keep(node, Spot(client, fid), stat)

    def _keep(self, node: Node, spot: Spot, stat: Stat) -> int:
        """Have the node hold this fid, unless another request was quicker to give it one."""
        if node.client is spot.client and node.fid is not None:
            spot.client.forget(spot.fid)
        else:
            node.client, node.fid, node.qid_path = spot.client, spot.fid, stat.qid.path
        self._used(node)
        assert node.fid is not None
        return node.fid

    def _used(self, node: Node) -> None:
        """Give up the fid of another node that was not used for the longest time, where there are too many."""
        self._holding.pop(node.nodeid, None)
        self._holding[node.nodeid] = node
        if len(self._holding) > self._fids:
            idle = next((old for old in self._holding.values() if not old.uses and old is not node), None)
            if idle is not None:
                self._give_up(idle)

    def _give_up(self, node: Node) -> None:
        self._holding.pop(node.nodeid, None)
        fid, node.fid = node.fid, None
        if node.client is not None and fid is not None:
            node.client.forget(fid)

    def appending(self, node: Node) -> asyncio.Lock:
        """What all hold that append to the file: finding its end, and writing there, is two requests in 9P."""
        return self._locks.setdefault(node.qid_path, asyncio.Lock())

    def enter(self, parent: Node, name: str, spot: Spot, stat: Stat) -> Node:
        """The node for what a lookup found at `spot`, whose fid the node keeps or gives up; one lookup is counted."""
        node = self._by_name.get((parent.nodeid, name))
        if node is None or node.writers or node.is_dir != stat.is_dir or _replaced(node, spot.client, stat):
            node = Node(self._next_id, parent, name, stat.qid.type)
            self._next_id += 1
            self._by_id[node.nodeid] = self._by_name[parent.nodeid, name] = node
        self._keep(node, spot, stat)
        node.lookups += 1
        return node

    def forget(self, nodeid: int, count: int) -> None:
        """The kernel takes back lookups; without any left the node is gone."""
        node = self._by_id.get(nodeid)
        if node is None or node.parent is None:
            return
        node.lookups -= count
        if node.lookups > 0:
            return
        del self._by_id[nodeid]
        if self._by_name.get((node.parent.nodeid, node.name)) is node:
            del self._by_name[node.parent.nodeid, node.name]
        self._give_up(node)

    def renamed(self, parent: Node, old: str, new: str) -> None:
        """A name of a directory has become another one."""
        node = self._by_name.pop((parent.nodeid, old), None)
        if node is not None:
            node.name = new
            self._by_name[parent.nodeid, new] = node

    def removed(self, parent: Node, name: str) -> None:
        """A name of a directory means nothing any more."""
        self._by_name.pop((parent.nodeid, name), None)


def _replaced(node: Node, client: Client, stat: Stat) -> bool:
    """Whether the name leads to another file than before; a server that was started anew may have other qids."""
    return node.client is client and node.qid_path != stat.qid.path
