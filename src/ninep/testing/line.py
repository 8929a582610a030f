"""A bare connection to a server: nothing is checked, matched or hidden."""

import asyncio
import socket
from typing import Self

from ninep import _wire, dial
from ninep.messages import Message, Rerror, Rversion, Tattach, Tversion, decode, encode

LIMIT_BYTES = 16 * 1024 * 1024


class Line:
    """Sends what it is told to and gives what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(cls, address: str) -> Self:
        """Connect to a dial string."""
        where = dial.parse(address)
        if isinstance(where, dial.Unix):
            return cls(*await asyncio.open_unix_connection(where.path))
        return cls(*await asyncio.open_connection(where.host, where.port))

    @classmethod
    async def adopt(cls, sock: socket.socket) -> Self:
        """Use a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock))

    async def send(self, *messages: Message | bytes) -> None:
        """Send messages, or bytes as they are, in one segment; EOFError when the server has closed the connection."""
        self._writer.write(b"".join(m if isinstance(m, bytes) else encode(m) for m in messages))
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise EOFError("the server closed the connection") from error

    async def receive(self) -> Message:
        """The next message; EOFError when the server has closed the connection."""
        try:
            start = await self._reader.readexactly(4)
            end = _wire.message_end(start, 0, LIMIT_BYTES)
            return decode(start + await self._reader.readexactly(end - 4))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError("the server closed the connection") from error

    async def rpc(self, message: Message) -> Message:
        """Send one message and give the next that comes."""
        await self.send(message)
        return await self.receive()

    async def begin(self, *, msize: int = 8192, uname: str = "glenda", aname: str = "", fid: int = 0) -> None:
        """Tversion and Tattach; AssertionError when one is refused."""
        version = await self.rpc(Tversion(_wire.NOTAG, msize, _wire.VERSION))
        assert isinstance(version, Rversion), version
        attached = await self.rpc(Tattach(0, fid, _wire.NOFID, uname, aname))
        assert not isinstance(attached, Rerror), attached

    async def closed(self) -> bool:
        """Whether the next thing that comes is the end of the connection."""
        try:
            return not await self._reader.read(1)
        except ConnectionError:
            return True

    def abort(self) -> None:
        """End the connection at once, whatever is under way."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return
