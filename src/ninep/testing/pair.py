"""Connections to a server in the same process, without an address."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ninep.client import Client
from ninep.server import Server
from ninep.testing.line import Line


@asynccontextmanager
async def connected(
    server: Server, *, uname: str = "glenda", aname: str = "", secret: bytes | None = None
) -> AsyncIterator[Client]:
    """A client attached to the server over a pair of sockets."""
    ours, theirs = socket.socketpair()
    await server.adopt(theirs)
    client = await Client.adopt(ours, uname=uname, aname=aname, secret=secret)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def line_to(server: Server) -> AsyncIterator[Line]:
    """A bare connection to the server over a pair of sockets."""
    ours, theirs = socket.socketpair()
    await server.adopt(theirs)
    line = await Line.adopt(ours)
    try:
        yield line
    finally:
        await line.close()
