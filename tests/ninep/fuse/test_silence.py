"""A server that says nothing: no caller of the mount waits for it once it has been interrupted."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from kernel import Served, serving

from ninep import _wire
from ninep.fuse import protocol
from ninep.fuse.opcodes import Opcode
from ninep.server import Server
from ninep.testing import Sample


class Filter:
    """Stands between a client and a server, and lets requests of some types through only when it is told to.

    Attributes:
        held: types of requests that are kept.
        kept: set when there is one.
    """

    def __init__(self, server: str) -> None:
        self.held: set[int] = set()
        self.kept = asyncio.Event()
        self._server = server
        self._waiting: list[bytes] = []
        self._to_server: asyncio.StreamWriter | None = None
        self._connections: list[asyncio.Event] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both ways of one connection."""
        ended = asyncio.Event()
        self._connections.append(ended)
        replies, self._to_server = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(_copy(replies, writer))
        try:
            while True:
                size = await reader.readexactly(4)
                frame = size + await reader.readexactly(int.from_bytes(size, "little") - 4)
                if frame[4] in self.held:
                    self._waiting.append(frame)
                    self.kept.set()
                else:
                    self._to_server.write(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._to_server.close()
            await back
        for end in (self._to_server, writer):
            with suppress(ConnectionError):
                await end.wait_closed()
        ended.set()

    async def ended(self) -> None:
        """Until every connection has."""
        for connection in self._connections:
            await connection.wait()

    def let_go(self) -> None:
        """Send what was kept."""
        self.held = set()
        assert self._to_server
        self._to_server.writelines(self._waiting)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.fixture
async def between(address: str, tmp_path: Path) -> AsyncIterator[Filter]:
    """A filter before the sample server."""
    between = Filter(address.removeprefix("unix!"))
    listener = await asyncio.start_unix_server(between.connected, f"{tmp_path}/f")
    yield between
    listener.close()
    await between.ended()


@pytest.fixture
async def served(between: Filter, tmp_path: Path) -> AsyncIterator[Served]:
    """A bridge that is impatient."""
    async with serving(f"unix!{tmp_path}/f", flush_s=0.02) as served:
        yield served


async def test_flush_unanswered(served: Served, between: Filter, server: Server) -> None:
    """An interrupted read is answered although Tflush is not."""
    _, handle = await served.kernel.open("thing/a/level")
    number = served.kernel.read(handle)
    await server.until(lambda now: now.outstanding == 1)
    between.held = {_wire.TFLUSH}
    served.kernel.interrupt(number)
    assert (await served.kernel.reply(number)).error == errno.EINTR
    between.let_go()
    await server.until(lambda now: now.outstanding == 0)
    assert (await served.kernel.lookup("readme")).nodeid


async def test_late_open(served: Served, between: Filter, server: Server) -> None:
    """A file that is opened after its caller gave up is closed again."""
    nodeid = (await served.kernel.lookup("thing/a/inbox")).nodeid
    fids = server.statistics().fids
    between.held = {_wire.TOPEN, _wire.TFLUSH}
    number = served.kernel.send(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(protocol.OpenIn(os.O_WRONLY, 0)))
    await between.kept.wait()
    served.kernel.interrupt(number)
    assert (await served.kernel.reply(number)).error == errno.EINTR
    between.let_go()
    await server.until(lambda now: now.fids == fids)


async def test_interrupted_close(served: Served, between: Filter, sample: Sample) -> None:
    """close(2) that is interrupted returns at once, and the message is taken all the same."""
    served.kernel.pid = os.getppid()
    _, handle = await served.kernel.open("thing/a/inbox", os.O_WRONLY)
    await served.kernel.reply(served.kernel.write(handle, b"whole"))
    between.held = {_wire.TCLUNK}
    number = served.kernel.send(Opcode.FLUSH, 0, protocol.FLUSH_IN.pack(protocol.FlushIn(handle, 1)))
    await between.kept.wait()
    served.kernel.interrupt(number)
    assert (await served.kernel.reply(number)).error == errno.EINTR
    between.let_go()
    assert (await served.kernel.release(handle)).error == 0
    assert (await served.kernel.lookup("thing/a/label")).nodeid
    assert sample.things["a"].messages == [b"whole"]


async def test_end_of_the_mount(served: Served, between: Filter, server: Server) -> None:
    """A mount can end though its server is silent."""
    _, handle = await served.kernel.open("thing/a/level")
    served.kernel.read(handle)
    await server.until(lambda now: now.outstanding == 1)
    between.held = {_wire.TFLUSH, _wire.TCLUNK}
    await served.bridge.close()
    assert served.bridge.ended.is_set()
