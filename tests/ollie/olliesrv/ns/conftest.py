"""A server in this process, and clients that attach to it as whoever they say they are."""

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from ninep.client import Client
from ninep.server import AfidConversation, Conn, Server
from ninep.tree import Role
from ollie.backends.registry import Backends
from ollie.olliesrv import ns
from ollie.olliesrv.config import Config
from ollie.olliesrv.ns import errors
from ollie.olliesrv.peer import OlliePeer
from ollie.olliesrv.server import Ollie

sys.path.append(str(Path(__file__).parent))

from world import World

SCRIPT = "turns: [{replies: [{text: 'you said {prompt}'}]}]"


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    top = Path(tempfile.mkdtemp(prefix="ollie-"))
    for name in [name for name in os.environ if name.startswith(("OLLIE_", "OPENAI_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(top / "home"))
    script = top / "script.yaml"
    script.write_text(SCRIPT)
    work = top / "work"
    work.mkdir()
    address = f"unix!{top}/ns/ollie"
    config = Config()
    environ = {"OLLIE_BACKEND": "replay", "OLLIE_REPLAY": str(script)}
    ollie = await Ollie.open(config, address=address, backends=Backends(environ, config))

    async def attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> OlliePeer:
        if uname.startswith("agent:"):
            session = ollie.sessions.find("one")
            agent = session and session.find_agent(uname.removeprefix("agent:"))
            assert agent is not None
            return OlliePeer(uname, aname, Role.GROUP, agent)
        return OlliePeer(uname, aname, Role.GROUP if uname == "stranger" else Role.USER)

    server = Server(ns.tree(ollie), attach, on_error=partial(errors.keep, ollie))
    await server.listen(address)
    clients: list[Client] = []

    async def client(uname: str = "glenda") -> Client:
        clients.append(await Client.connect(address, uname=uname))
        return clients[-1]

    yield World(ollie, server, work, client)
    for each in clients:
        await each.close()
    await server.close()
    await ollie.close()
    shutil.rmtree(top)
