"""What the kernel calls nodes: files and directories by number, and the fids behind them.

A node holds a fid from its first lookup until the kernel forgets it, so that it follows its file when somebody renames
it. When the connection was lost and made again, a node is walked to anew by its path, at its next use.

The kernel locks a node while it is written. So that one command can stop another that still runs, a file that is open
for writing gets another node when it is looked up again.
"""

import errno
import os
from typing import NamedTuple

from ninep import errors
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
        qid_path: the server's identification of it.
        lookups: how often the kernel was told of it and has not forgotten it.
        writers: handles open for writing.
        client, fid: a fid at it, of that client.
    """

    __slots__ = ("client", "fid", "is_dir", "lookups", "name", "nodeid", "parent", "qid_path", "writers")

    def __init__(self, nodeid: int, parent: "Node | None", name: str, *, is_dir: bool) -> None:
        self.nodeid = nodeid
        self.parent = parent
        self.name = name
        self.is_dir = is_dir
        self.qid_path = 0
        self.lookups = 0
        self.writers = 0
        self.client: Client | None = None
        self.fid = ROOT

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
    """All nodes of a mount."""

    def __init__(self, link: Link) -> None:
        self.root = Node(ROOT_ID, None, "", is_dir=True)
        self._link = link
        self._by_id = {ROOT_ID: self.root}
        self._by_name: dict[tuple[int, str], Node] = {}
        self._next_id = ROOT_ID + 1

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, nodeid: int) -> Node:
        """The node with this number; ESTALE when there is none."""
        node = self._by_id.get(nodeid)
        if node is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return node

    async def reach(self, node: Node) -> Spot:
        """A fid at the node; it belongs to the node.

        Raises:
            ConnectionLostError: there is no server.
            NinepError: the node is not where it was when the connection was lost.
        """
        client = await self._link.client()
        if node.parent is not None and node.client is not client:
            await self._walk_again(node, client)
        return Spot(client, node.fid)

    async def _walk_again(self, node: Node, client: Client) -> None:
        fid = await client.walk(node.path())
        try:
            stat = await client.fstat(fid)
            if stat.is_dir != node.is_dir:
                raise NinepError(errors.NOT_FOUND)
            if node.client is client or self._by_id.get(node.nodeid) is not node:
                client.forget(fid)  # another request was quicker, or the kernel forgot it
                return
        except BaseException:
            client.forget(fid)
            raise
        node.client, node.fid, node.qid_path = client, fid, stat.qid.path

    def enter(self, parent: Node, name: str, spot: Spot, stat: Stat) -> Node:
        """The node for what a lookup found at `spot`, whose fid the node keeps or gives up; one lookup is counted."""
        node = self._by_name.get((parent.nodeid, name))
        if node is None or node.writers or node.is_dir != stat.is_dir or _replaced(node, spot.client, stat):
            node = Node(self._next_id, parent, name, is_dir=stat.is_dir)
            self._next_id += 1
            self._by_id[node.nodeid] = self._by_name[parent.nodeid, name] = node
        if node.client is spot.client:
            spot.client.forget(spot.fid)
        else:
            node.client, node.fid, node.qid_path = spot.client, spot.fid, stat.qid.path
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
        self._unname(node.parent, node.name, node)
        if node.client is not None:
            node.client.forget(node.fid)

    def child(self, parent: Node, name: str) -> Node | None:
        """The node last seen under a name."""
        return self._by_name.get((parent.nodeid, name))

    def renamed(self, parent: Node, old: str, new: str) -> None:
        """A name of a directory has become another one."""
        node = self._by_name.pop((parent.nodeid, old), None)
        if node is not None:
            node.name = new
            self._by_name[parent.nodeid, new] = node

    def removed(self, parent: Node, name: str) -> None:
        """A name of a directory means nothing any more."""
        self._by_name.pop((parent.nodeid, name), None)

    def _unname(self, parent: Node, name: str, node: Node) -> None:
        if self._by_name.get((parent.nodeid, name)) is node:
            del self._by_name[parent.nodeid, name]


def _replaced(node: Node, client: Client, stat: Stat) -> bool:
    """Whether the name leads to another file than before; a server that was started anew has other qids."""
    return node.client is client and node.qid_path != stat.qid.path
