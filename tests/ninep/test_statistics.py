"""The statistics of a server, served by itself."""

import pytest

from ninep.errors import NinepError
from ninep.files import Entry, Peer, Role, Text, Tree
from ninep.server import Server, statistics_file
from ninep.testing import connected


class Top:
    """The object of the tree, which knows its server."""

    server: Server


async def test_statistics_as_a_file() -> None:
    """The numbers are those of the moment of opening, with the reader in them, and for those who may read them."""
    top = Top()

    async def attach(_conn: object, uname: str, aname: str, _auth: object) -> Peer:
        return Peer(uname, aname, Role.USER if uname == "owner" else Role.GROUP)

    files: tuple[Entry[Top], ...] = (
        statistics_file(lambda top: top.server, mode=0o400),
        Text("readme", 0o444, "A text.", render=lambda _top, _peer: b""),
    )
    top.server = Server(Tree(files, top), attach)
    async with connected(top.server, uname="owner") as owner, connected(top.server) as other:
        assert await owner.read("statistics") == b"connections=2\nfids=3\noutstanding=0\n"
        async with await other.open("readme"):
            assert await owner.read("statistics") == b"connections=2\nfids=4\noutstanding=0\n"
        with pytest.raises(NinepError, match="permission denied"):
            await other.read("statistics")
    await top.server.close()
