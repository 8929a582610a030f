"""Both ends of the broker descriptor, with a server that notes who attaches."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ninep.blocking import Connection
from ninep.dial import Unix
from ninep.errors import PERMISSION_DENIED, NinepError
from ninep.files import Text
from ninep.server import Server
from ninep.tree import Peer, Role, Tree
from ollie.protocol import broker
from ollie.toolsrv.descriptor import Descriptor


class World:
    """A server, and where it listens."""

    def __init__(self, path: Path) -> None:
        self.address = Unix(str(path / "s"))
        self.attached: list[str] = []
        self.server = Server(Tree((Text("file", 0o444, "x", lambda _obj, _peer: b"read\n"),), None), self._attach)

    async def _attach(self, _conn: object, uname: str, aname: str, _auth: object) -> Peer:
        self.attached.append(aname)
        if aname == "tool-of=refused/7":
            raise NinepError(PERMISSION_DENIED)
        return Peer(uname, aname, Role.USER)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.server.listen(str(world.address))
    yield world
    await world.server.close()


def read(descriptor: Descriptor) -> bytes:
    """What a process of the tool reads over a connection that it is given."""
    with Connection(broker.connection({broker.VARIABLE: str(descriptor.given)}), uname="me", aname="mine") as server:
        return server.open("file", 0).read()


async def test_a_connection_is_bound_before_it_is_given(world: World) -> None:
    """The server hears from the tool server first whose it is; then the tool begins its own conversation."""
    with Descriptor(world.address, "a-1", 7) as descriptor:
        assert await asyncio.to_thread(read, descriptor) == b"read\n"
        assert world.attached == ["tool-of=a-1/7", "mine"]
    await world.server.until(lambda now: now.connections == 0)


async def test_many_processes_share_it(world: World) -> None:
    """Each gets a connection of its own, whoever asked first."""
    with Descriptor(world.address, "a-1", 7) as descriptor:
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(asyncio.to_thread(read, descriptor)) for _ in range(30)]
    assert [answer.result() for answer in answers] == [b"read\n"] * 30


async def test_who_does_not_fetch_its_answers_waits_for_itself(world: World) -> None:
    """Requests without end fill the socket; those who come later are served when the answers are fetched."""
    with Descriptor(world.address, "a-1", 7) as descriptor:
        greedy = socket.socket(fileno=os.dup(descriptor.given))
        greedy.setblocking(False)
        with greedy:
            with contextlib.suppress(BlockingIOError):
                while True:
                    greedy.send(broker.REQUEST)
            greedy.setblocking(True)
            for _ in range(3):
                _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, greedy, 100, 1)
                os.close(descriptors[0])


async def test_why_there_is_none_is_told(world: World, tmp_path: Path) -> None:
    """A server that refuses, one that is not there, a tool server that is gone."""
    refused = pytest.raises(broker.BrokerError, match="permission denied")
    with Descriptor(world.address, "refused", 7) as descriptor, refused:
        await asyncio.to_thread(read, descriptor)
    with Descriptor(Unix(f"{tmp_path}/none"), "a", 7) as descriptor:
        for _ in range(2):
            with pytest.raises(broker.BrokerError, match=f"no server at unix!{tmp_path}/none: no such file"):
                await asyncio.to_thread(read, descriptor)
        kept = os.dup(descriptor.given)
    with pytest.raises(broker.BrokerError, match=f"descriptor {kept}"):
        broker.connection({broker.VARIABLE: str(kept)})
    os.close(kept)


@pytest.mark.parametrize("text", ["", "x", "-1", "99999", "1" * 40])
def test_what_is_no_descriptor(text: str) -> None:
    """The error says what to do."""
    with pytest.raises(broker.BrokerError, match="pass_fds"):
        broker.connection({broker.VARIABLE: text})
