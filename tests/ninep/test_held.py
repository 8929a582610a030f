"""What is in memory for a client's fids: it is bounded over all of them, and costs nothing to go on with."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from ninep import _wire
from ninep.files import Peer, Request, Role, Sink, Text, Tree
from ninep.messages import (
    Rclunk,
    Rerror,
    Ropen,
    Rread,
    Rversion,
    Rwalk,
    Rwrite,
    Tattach,
    Tclunk,
    Topen,
    Tread,
    Tremove,
    Tversion,
    Twalk,
    Twrite,
)
from ninep.server import AfidConversation, Conn, Limits, Server
from ninep.testing import Line, Sample, line_to, sample_server

_MSIZE = 256
_PIECE = b"echo " + b"x" * (_MSIZE - _wire.IO_HEADER_BYTES - 5)  # a command that goes on in the next write
_TOO_MUCH = Rerror(1, "too many bytes outstanding")


async def _opened(line: Line, fid: int, *names: str, mode: int = _wire.ORDWR) -> None:
    assert isinstance(await line.rpc(Twalk(1, 0, fid, names)), Rwalk)
    assert isinstance(await line.rpc(Topen(1, fid, mode)), Ropen)


@pytest.fixture
async def narrow(sample: Sample) -> AsyncIterator[Server]:
    """Its connections may hold two pieces."""
    server = sample_server(sample, limits=Limits(held_bytes=2 * len(_PIECE)))
    yield server
    await server.close()


@pytest.mark.parametrize("end", [Tclunk, Tremove, Tversion])
@pytest.mark.parametrize("name", ["inbox", "ask", "queue", "ctl"])
async def test_all_fids_of_a_connection_hold_so_much_and_no_more(name: str, end: type, narrow: Server) -> None:
    """What is over that is refused, and there is room again when a message is taken or discarded."""
    async with line_to(narrow) as line, line_to(narrow) as other:
        await other.begin()
        await line.begin(msize=_MSIZE)
        for _ in range(2):
            mode = _wire.OWRITE if name == "inbox" else _wire.ORDWR
            for fid in (1, 2, 3):
                await _opened(line, fid, "thing", "a", name, mode=mode)
            for fid in (1, 2):
                assert await line.rpc(Twrite(1, fid, 0, _PIECE)) == Rwrite(1, len(_PIECE))
            over = _PIECE if name == "ctl" else b"more"  # a whole command is not held, but run
            assert await line.rpc(Twrite(1, 3, 0, over)) == _TOO_MUCH
            if end is Tversion:
                version = Tversion(_wire.NOTAG, _MSIZE, "9P2000")
                assert isinstance(await line.rpc(version), Rversion)
                await line.rpc(Tattach(1, 0, _wire.NOFID, "glenda", ""))
                continue
            for fid in (1, 2, 3):
                await line.rpc(end(1, fid))
        await _opened(other, 1, "thing", "a", name, mode=mode)
        assert await other.rpc(Twrite(1, 1, 0, _PIECE)) == Rwrite(1, len(_PIECE))


@pytest.mark.parametrize("wait", [False, True])
async def test_texts_that_are_read_count_as_well(wait: bool) -> None:
    """Each fid has the text as it was when it was opened; a small one is not worth counting."""

    async def render() -> bytes:
        return bytes(5000)

    big = Text("big", 0o440, "", render=lambda *_: render() if wait else bytes(5000))
    small = Text("small", 0o440, "", render=lambda *_: bytes(4000))
    server = Server(Tree((big, small), None), _attach, limits=Limits(held_bytes=10_000))
    async with line_to(server) as line:
        await line.begin()
        for fid in (1, 2):
            await _opened(line, fid, "big", mode=_wire.OREAD)
        assert isinstance(await line.rpc(Twalk(1, 0, 3, ("big",))), Rwalk)
        assert await line.rpc(Topen(1, 3, _wire.OREAD)) == _TOO_MUCH
        await _opened(line, 4, "small", mode=_wire.OREAD)
        assert await line.rpc(Tclunk(1, 2)) == Rclunk(1)
        assert isinstance(await line.rpc(Topen(1, 3, _wire.OREAD)), Ropen)
        assert await line.rpc(Tread(1, 3, 0, 5)) == Rread(1, bytes(5))
    await server.close()


async def test_a_request_that_runs_holds_nothing(narrow: Server) -> None:
    """Its answer is made of it by then."""
    async with line_to(narrow) as line:
        await line.begin(msize=_MSIZE)
        for fid in (1, 2, 3):
            await _opened(line, fid, "thing", "a", "ask")
            assert await line.rpc(Twrite(1, fid, 0, _PIECE)) == Rwrite(1, len(_PIECE))
            for piece in (b"got " + _PIECE[:-4], _PIECE[-4:]):
                assert await line.rpc(Tread(1, fid, 0, _MSIZE)) == Rread(1, piece)


@pytest.mark.parametrize("end", [Tread(1, 1, 1, 8000), Twrite(1, 1, 0, b"?"), Tclunk(1, 1)])
async def test_what_is_left_of_an_answer_counts_until_it_is_read_or_given_up(
    end: Tread | Twrite | Tclunk,
) -> None:
    """A piece is kept as a whole for whoever reads a byte of it; a read that would keep too much ends its answer."""

    async def run(_obj: object, _peer: Peer, _data: bytes) -> AsyncIterator[bytes]:
        yield bytes(6000)

    server = Server(Tree((Request("ask", 0o660, "", run=run),), None), _attach, limits=Limits(held_bytes=10_000))
    async with line_to(server) as line:
        await line.begin()
        for fid in (1, 2):
            await _opened(line, fid, "ask")
            assert await line.rpc(Twrite(1, fid, 0, b"?")) == Rwrite(1, 1)
        assert await line.rpc(Tread(1, 1, 0, 1)) == Rread(1, b"\0")
        assert await line.rpc(Tread(1, 2, 0, 1)) == _TOO_MUCH
        assert await line.rpc(Tread(1, 2, 0, 1)) == Rread(1, b"")
        assert not isinstance(await line.rpc(end), Rerror)
        assert await line.rpc(Twrite(1, 2, 0, b"?")) == Rwrite(1, 1)
        assert await line.rpc(Tread(1, 2, 0, 1)) == Rread(1, b"\0")
    await server.close()


async def test_a_write_that_waits_for_the_last_answer_to_end_holds_nothing_after_a_clunk() -> None:
    """Another was quicker, and its answer is being read by then."""
    gate = asyncio.Event()

    async def run(_obj: object, _peer: Peer, _data: bytes) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            await gate.wait()

    server = Server(Tree((Request("ask", 0o660, "", run=run),), None), _attach, limits=Limits(held_bytes=10))
    async with line_to(server) as line:
        await line.begin()
        for fid in (1, 2):
            await _opened(line, fid, "ask")
        assert await line.rpc(Twrite(1, 1, 0, b"?")) == Rwrite(1, 1)
        assert await line.rpc(Tread(1, 1, 0, 100)) == Rread(1, b"x")
        await line.send(Twrite(2, 1, 0, b"first"))
        assert await line.rpc(Twrite(1, 1, 0, b"second")) == Rwrite(1, 6)
        assert await line.rpc(Tread(1, 1, 0, 100)) == Rread(1, b"x")
        gate.set()
        assert await line.receive() == Rwrite(2, 5)
        assert await line.rpc(Tclunk(1, 1)) == Rclunk(1)
        assert await line.rpc(Twrite(1, 2, 0, bytes(10))) == Rwrite(1, 10)
    await server.close()


async def test_what_is_added_to_a_long_message_is_looked_at_alone() -> None:
    """A check that was given all of it for each byte would hold up everybody."""
    seen: list[tuple[bytes, int]] = []

    async def take(_obj: object, _peer: Peer, _data: bytes) -> None:
        """It is gone."""

    sink = Sink("inbox", 0o220, "", take=take, check=lambda _obj, _peer, data, size: seen.append((data, size)))
    server = Server(Tree((sink,), None), _attach)
    async with line_to(server) as line:
        await line.begin()
        await _opened(line, 1, "inbox", mode=_wire.OWRITE)
        for piece in (b"a", b"bc"):
            assert isinstance(await line.rpc(Twrite(1, 1, 0, piece)), Rwrite)
        assert seen == [(b"a", 1), (b"bc", 3)]
        assert await line.rpc(Tclunk(1, 1)) == Rclunk(1)
    await server.close()


async def test_a_long_piece_is_not_copied_for_each_read_of_it() -> None:
    """A client that reads it byte by byte would hold up everybody."""
    size = 8 * 1024 * 1024

    async def run(_obj: object, _peer: Peer, _data: bytes) -> AsyncIterator[bytes]:
        yield bytes(size)

    server = Server(Tree((Request("ask", 0o660, "", run=run),), None), _attach)
    async with line_to(server) as line:
        await line.begin()
        await _opened(line, 1, "ask")
        assert isinstance(await line.rpc(Twrite(1, 1, 0, b"?")), Rwrite)
        assert await line.rpc(Tread(1, 1, 0, 1)) == Rread(1, b"\0")
        tracemalloc.start()
        try:
            assert await line.rpc(Tread(1, 1, 1, 1)) == Rread(1, b"\0")
            assert tracemalloc.get_traced_memory()[1] < size // 2
        finally:
            tracemalloc.stop()
    await server.close()


async def _attach(_conn: Conn, uname: str, aname: str, _auth: AfidConversation | None) -> Peer:
    return Peer(uname, aname, Role.USER)
