"""A server in this process, and clients that attach to it as whoever they say they are."""

import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ninep.client import Client
from ninep.server import AfidConversation, Conn, Server
from ninep.tree import Role
from ollie.olliesrv import ns
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.ns import errors

sys.path.append(str(Path(__file__).parent))

from world import World


@pytest.fixture
async def world(serve: Callable[..., Any], place: Path) -> AsyncIterator[World]:
    ollie = await serve()

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> OlliePeer:
        if uname.startswith("agent:"):
            agent = (await ollie.sessions.find("one", by=None)).find_agent(uname.removeprefix("agent:"))
            return OlliePeer(uname, aname, Role.GROUP, agent)
        return OlliePeer(uname, aname, Role.GROUP if uname == "stranger" else Role.USER)

    address = f"unix!{place}/ns/ollie"
    server = Server(ns.tree(ollie), attach, on_error=partial(errors.keep, ollie))
    ollie.listener = server
    await server.listen(address)
    clients: list[Client] = []

    async def client(uname: str = "glenda") -> Client:
        clients.append(await Client.connect(address, uname=uname))
        return clients[-1]

    yield World(ollie, server, place / "project", client)
    for each in clients:
        await each.close()
    await server.close()
