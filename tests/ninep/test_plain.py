"""The server of plain files."""

from collections.abc import AsyncIterator

import pytest

from ninep import _wire
from ninep.messages import (
    Message,
    Rclunk,
    Rcreate,
    Rerror,
    Ropen,
    Rread,
    Rremove,
    Rwalk,
    Rwrite,
    Rwstat,
    Stat,
    Tclunk,
    Tcreate,
    Topen,
    Tread,
    Tremove,
    Twalk,
    Twrite,
    Twstat,
)
from ninep.testing import Line, PlainServer, line_to
from ninep.testing.plain import FILE_BYTES


@pytest.fixture
async def plain() -> AsyncIterator[PlainServer]:
    server = PlainServer()
    yield server
    await server.close()


@pytest.fixture
async def line(plain: PlainServer) -> AsyncIterator[Line]:
    """With fid 1 at the open file `x`."""
    async with line_to(plain) as line:
        await line.begin()
        assert await line.rpc(Twalk(1, 0, 1, ())) == Rwalk(1, ())
        assert isinstance(await line.rpc(Tcreate(1, 1, "x", 0o644, _wire.ORDWR)), Rcreate)
        yield line


async def _open(line: Line, mode: int) -> Message:
    assert isinstance(await line.rpc(Twalk(1, 0, 2, ("x",))), Rwalk)
    return await line.rpc(Topen(1, 2, mode))


async def test_remove_on_close(plain: PlainServer, line: Line) -> None:
    """Opened or made so, a file is gone with the clunk, and not before."""
    assert isinstance(await _open(line, _wire.ORDWR | _wire.ORCLOSE), Ropen)
    assert list(plain.top.entries) == ["x"]
    assert await line.rpc(Tclunk(1, 2)) == Rclunk(1)
    assert plain.top.entries == {}
    assert await line.rpc(Twalk(1, 0, 2, ())) == Rwalk(1, ())
    assert isinstance(await line.rpc(Tcreate(1, 2, "y", 0o644, _wire.OWRITE | _wire.ORCLOSE)), Rcreate)
    assert list(plain.top.entries) == ["y"]
    assert await line.rpc(Tclunk(1, 2)) == Rclunk(1)
    assert plain.top.entries == {}


async def test_remove_on_close_by_tremove(plain: PlainServer, line: Line) -> None:
    """It is removed once, and said so."""
    assert isinstance(await _open(line, _wire.ORCLOSE), Ropen)
    assert await line.rpc(Tremove(1, 2)) == Rremove(1)
    assert plain.top.entries == {}


async def test_remove_on_close_with_the_connection(plain: PlainServer, line: Line) -> None:
    """The end of the connection is as good as a clunk."""
    assert isinstance(await _open(line, _wire.ORCLOSE), Ropen)
    line.abort()
    await plain.until(lambda now: now.connections == 0)
    assert plain.top.entries == {}


async def test_remove_on_close_wants_permission(plain: PlainServer, line: Line) -> None:
    """The directory's, as for a Tremove; directories are not removed so."""
    plain.top.mode = _wire.DMDIR | 0o555
    assert await _open(line, _wire.ORCLOSE) == Rerror(1, "permission denied")
    plain.top.mode = _wire.DMDIR | 0o755
    assert await line.rpc(Topen(1, 0, _wire.ORCLOSE)) == Rerror(1, "is a directory")
    refused = await line.rpc(Tcreate(1, 0, "d", _wire.DMDIR | 0o755, _wire.ORCLOSE))
    assert refused == Rerror(1, "is a directory")
    assert list(plain.top.entries) == ["x"]


@pytest.mark.parametrize("bit", [_wire.DMEXCL, _wire.DMAPPEND, _wire.DMTMP, 0o1000])
async def test_kinds_of_file_that_there_are_not(plain: PlainServer, line: Line, bit: int) -> None:
    """They are neither made nor made of what is there."""
    assert await line.rpc(Tcreate(1, 0, "y", bit | 0o644, _wire.OREAD)) == Rerror(1, "illegal mode")
    assert await line.rpc(Twstat(1, 1, Stat(mode=bit | 0o644))) == Rerror(1, "illegal mode")
    assert {name: entry.mode for name, entry in plain.top.entries.items()} == {"x": 0o644}


async def test_unknown_bits_of_a_mode(line: Line) -> None:
    """They are refused, by open and create."""
    assert await _open(line, 0x80) == Rerror(1, "illegal mode")
    assert await line.rpc(Tcreate(1, 0, "y", 0o644, 0x80)) == Rerror(1, "illegal mode")


@pytest.mark.parametrize(
    "wanted",
    [
        Stat(mode=_wire.DMDIR | 0o700),
        Stat(uid="zz"),
        Stat(gid="zz"),
        Stat(muid="zz"),
        Stat(dev=7),
        Stat(name="y", uid="zz"),
        Stat(mode=0o600, gid="zz"),
    ],
)
async def test_what_a_wstat_cannot_change(plain: PlainServer, line: Line, wanted: Stat) -> None:
    """It is refused as a whole."""
    assert await line.rpc(Twstat(1, 1, wanted)) == Rerror(1, "wstat prohibited")
    assert {name: entry.mode for name, entry in plain.top.entries.items()} == {"x": 0o644}


async def test_what_a_wstat_changes(plain: PlainServer, line: Line) -> None:
    """Name, mode, length and times, all of one message; the muid of a rename says nothing."""
    wanted = Stat(name="y", mode=0o600, length=3, mtime=5, atime=6, muid="glenda")
    assert await line.rpc(Twstat(1, 1, wanted)) == Rwstat(1)
    found = Stat.parse(plain.top.entries["y"].stat())
    assert (found.mode, found.length, found.mtime, found.atime, found.muid) == (0o600, 3, 5, 6, "owner")
    assert await line.rpc(Twstat(1, 1, found)) == Rwstat(1)


async def test_a_directory_stays_one(plain: PlainServer, line: Line) -> None:
    """It keeps its bit, its length, and at the top its name."""
    for wanted, ename in (
        (Stat(mode=0o755), "wstat prohibited"),
        (Stat(length=1), "wstat prohibited"),
        (Stat(name="y"), "permission denied"),
    ):
        assert await line.rpc(Twstat(1, 0, wanted)) == Rerror(1, ename)
    assert await line.rpc(Twstat(1, 0, Stat(mode=_wire.DMDIR | 0o700))) == Rwstat(1)
    assert plain.top.mode == _wire.DMDIR | 0o700


async def test_a_file_has_a_largest_size(plain: PlainServer, line: Line) -> None:
    """Whatever goes beyond is refused and leaves it as it was; up to there a gap reads as zeros."""
    too_large = Rerror(1, f"file too large: at most {FILE_BYTES} bytes")
    for offset in (1 << 63, _wire.MAX64, FILE_BYTES):
        assert await line.rpc(Twrite(1, 1, offset, b"x")) == too_large
    for length in (1 << 63, FILE_BYTES + 1):
        assert await line.rpc(Twstat(1, 1, Stat(length=length))) == too_large
    assert plain.top.entries["x"].data == b""
    assert await line.rpc(Twrite(1, 1, FILE_BYTES - 1, b"x")) == Rwrite(1, 1)
    assert await line.rpc(Tread(1, 1, FILE_BYTES - 2, 10)) == Rread(1, b"\0x")
    assert await line.rpc(Twstat(1, 1, Stat(length=2))) == Rwstat(1)
    assert await line.rpc(Twrite(1, 1, 1, b"abc")) == Rwrite(1, 3)
    assert await line.rpc(Tread(1, 1, 0, 10)) == Rread(1, b"\0abc")
