"""A server in this process, and whoever attaches to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from ninep.client import Client
from ninep.server import Server
from ollie.olliesrv.server import Ollie


@dataclass
class World:
    """A server whose agents have no tools: a tool server belongs into a namespace of its own.

    Attributes:
        ollie: the server.
        work: a directory for agents.
        attach: gives a client for a uname: `agent:NAME` is that agent of the session `one`, `stranger` a TCP client
            without the secret, everybody else the owner.
    """

    ollie: Ollie
    server: Server
    work: Path
    attach: Callable[..., Awaitable[Client]]

    async def populated(self) -> Client:
        """The owner's client, with two sessions that have agents: `one` with `coder`, `inner` and `wide`, and `two`."""
        client: Client = await self.attach()
        inner = self.work / "inner"
        inner.mkdir()
        for session in ("one", "two"):
            await client.write("session/new", f"name={session}".encode())
        for session, agent, cwd in (("one", "coder", self.work), ("one", "inner", inner), ("two", "other", self.work)):
            await client.write(f"session/{session}/agent/new", f"name={agent} cwd={cwd}".encode())
        return client
