"""A kernel for a bridge, in the test: what `/dev/fuse` does, over a pair of sockets that keep messages whole."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from ninep.client import Client
from ninep.fuse import protocol
from ninep.fuse.bridge import Bridge
from ninep.fuse.callers import Caller
from ninep.fuse.link import Link
from ninep.fuse.opcodes import Opcode
from ninep.fuse.protocol import InHeader, InitIn, InitOut, InterruptIn, OpenIn, OpenOut, ReadIn, ReleaseIn

OWNER = (1000, 1001)
MAX_WRITE = 8168


class Reply(NamedTuple):
    """What a bridge answered: an errno, 0 for none, and data."""

    error: int
    data: bytes


class Entry(NamedTuple):
    """What a lookup found."""

    nodeid: int
    attr: protocol.Attr


class Kernel:
    """Sends requests and hands replies to whoever asked."""

    def __init__(self, sock: socket.socket) -> None:
        self.pid = 4711
        self._socket = sock
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._next = 2
        asyncio.get_running_loop().add_reader(sock, self._readable)

    def close(self) -> None:
        """Unmount."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _readable(self) -> None:
        message = self._socket.recv(1 << 20)
        if not message:
            asyncio.get_running_loop().remove_reader(self._socket)
            return
        header = protocol.OUT_HEADER.parse(message)
        assert header.len == len(message)
        self._replies[header.unique].set_result(Reply(-header.error, message[protocol.OUT_HEADER.size :]))

    def send(self, opcode: int, nodeid: int = 0, body: bytes = b"") -> int:
        """A request that wants no reply, or whose reply is asked for later; its number."""
        unique, self._next = self._next, self._next + 2
        size = protocol.IN_HEADER.size + len(body)
        header = InHeader(size, opcode, unique, nodeid, OWNER[0], OWNER[1], self.pid, 0)
        self._replies[unique] = asyncio.get_running_loop().create_future()
        self._socket.send(protocol.IN_HEADER.pack(header) + body)
        return unique

    async def reply(self, unique: int) -> Reply:
        """The reply to a request."""
        try:
            return await self._replies[unique]
        finally:
            del self._replies[unique]

    async def call(self, opcode: int, nodeid: int = 0, body: bytes = b"") -> Reply:
        """A request and its reply."""
        return await self.reply(self.send(opcode, nodeid, body))

    def interrupt(self, unique: int) -> None:
        """The caller of a request got a signal."""
        self.send(Opcode.INTERRUPT, 0, protocol.INTERRUPT_IN.pack(InterruptIn(unique)))

    async def init(self, minor: int = 45) -> InitOut:
        """Begin."""
        reply = await self.call(Opcode.INIT, 0, protocol.INIT_IN.pack(InitIn(7, minor, 131072, 0xFFFFFFFF)) + bytes(48))
        return protocol.INIT_OUT.parse(reply.data)

    async def lookup(self, path: str) -> Entry:
        """Every name of a path in turn."""
        entry = Entry(protocol.ROOT_ID, protocol.Attr(*[0] * 16))
        for name in path.split("/"):
            reply = await self.call(Opcode.LOOKUP, entry.nodeid, name.encode() + b"\0")
            assert reply.error == 0, name
            found = protocol.ENTRY_OUT.parse(reply.data)
            entry = Entry(found.nodeid, protocol.ATTR.parse(reply.data, protocol.ENTRY_OUT.size))
        return entry

    async def open(self, path: str, flags: int = 0) -> tuple[int, int]:
        """The node and the handle of a file."""
        nodeid = (await self.lookup(path)).nodeid
        reply = await self.call(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(OpenIn(flags, 0)))
        assert reply.error == 0
        opened: OpenOut = protocol.OPEN_OUT.parse(reply.data)
        return nodeid, opened.fh

    def read(self, handle: int, offset: int = 0, size: int = 4096) -> int:
        """Ask for data."""
        return self.send(Opcode.READ, 0, protocol.READ_IN.pack(ReadIn(handle, offset, size, 0, 0, 0)))

    def write(self, handle: int, data: bytes, offset: int = 0) -> int:
        """Give data."""
        head = protocol.WRITE_IN.pack(protocol.WriteIn(handle, offset, len(data), 0, 0, 0))
        return self.send(Opcode.WRITE, 0, head + data)

    async def flush(self, handle: int) -> Reply:
        """A descriptor is closed."""
        return await self.call(Opcode.FLUSH, 0, protocol.FLUSH_IN.pack(protocol.FlushIn(handle, 1)))

    async def release(self, handle: int) -> Reply:
        """The last one was."""
        return await self.call(Opcode.RELEASE, 0, protocol.RELEASE_IN.pack(ReleaseIn(handle, 0, 0, 0)))


class Served(NamedTuple):
    """A bridge, with a kernel on one side and a server on the other."""

    kernel: Kernel
    bridge: Bridge
    log: list[str]


class Judgement:
    """Who may use the mount, as the test says."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.refused: set[int] = set()

    async def __call__(self, caller: Caller) -> bool:
        """By the pid."""
        self.callers.append(caller)
        return caller.pid not in self.refused


@asynccontextmanager
async def serving(
    address: str, judge: Judgement | None = None, *, reconnect: bool = True, flush_s: float = 5, patience_s: float = 5
) -> AsyncIterator[Served]:
    """A bridge to a server, after INIT."""
    log: list[str] = []
    connect = partial(Client.connect, address, uname="me", msize=MAX_WRITE + 24)
    link = Link(connect, reconnect=reconnect, log=log.append)
    await link.start()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bridge = Bridge(
        theirs.detach(),
        link,
        judge=judge or Judgement(),
        owner=OWNER,
        max_write=MAX_WRITE,
        log=log.append,
        flush_s=flush_s,
        patience_s=patience_s,
    )
    kernel = Kernel(ours)
    try:
        await kernel.init()
        yield Served(kernel, bridge, log)
    finally:
        await bridge.close()
        await link.close()
        kernel.close()
