"""What every 9P2000 server has to do, whatever its tree.

Nothing is written and no file is opened but directories, and those that are named for it, so that the suite can be run
against a server in use.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from ninep import _wire
from ninep.messages import (
    Qid,
    Rattach,
    Rclunk,
    Rflush,
    Ropen,
    Rread,
    Rstat,
    Rversion,
    Rwalk,
    Stat,
    Tattach,
    Tclunk,
    Tflush,
    Topen,
    Tread,
    Tstat,
    Tversion,
    Twalk,
    parse_directory,
)
from ninep.testing.line import Line
from ninep.testing.rule import Check, Rule, Tested, refused, run_rule, same
from ninep.testing.suspended import suspended

_NOTAG, _NOFID = _wire.NOTAG, _wire.NOFID
_CHECKS: Final[list[tuple[str, Rule]]] = []


async def conformance(
    connect: Callable[[], Awaitable[Line]] | str,
    *,
    uname: str = "glenda",
    aname: str = "",
    opening: str = "",
    reading: str = "",
    walking: str = "",
    creating: str = "",
    tell: Callable[[Check], None] | None = None,
) -> list[Check]:
    """Run all checks.

    Args:
        connect: makes a connection, or the dial string of the server.
        uname: a user who may attach without authentication and read the root.
        aname: the tree.
        opening: a file whose open waits; what is asked of such an open is left out without it.
        reading: a file whose read waits; likewise.
        walking: a path that a walk waits for; likewise.
        creating: a path that the making of a directory waits for; likewise.
        tell: gets each check when it was made.

    Returns:
        All checks, passed or not, in a fixed order.

    Raises:
        OSError, AddressError: there is no connection.
    """
    if isinstance(connect, str):
        address = connect

        async def dialled() -> Line:
            return await Line.dial(address)

        connect = dialled
    server = Tested(connect, uname, aname)
    rules = _CHECKS + suspended(opening=opening, reading=reading, walking=walking, creating=creating)
    checks = []
    for name, rule in rules:
        checks.append(await run_rule(name, rule, server))
        if tell is not None:
            tell(checks[-1])
    return checks


def _check(name: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _CHECKS.append((name, function))
        return function

    return register


async def _root_entries(line: Line, fid: int) -> list[Stat]:
    opened = await line.rpc(Topen(1, fid, _wire.OREAD))
    assert isinstance(opened, Ropen), opened
    data = b""
    while True:
        reply = await line.rpc(Tread(1, fid, len(data), 8192 - _wire.IO_HEADER_BYTES))
        assert isinstance(reply, Rread), reply
        if not reply.data:
            return parse_directory(data)
        data += reply.data


@_check("a version with a suffix gets the version without")
async def _suffix(server: Tested) -> None:
    line = await server.connect()
    for version in ("9P2000.u", "9P2000.L", "9P2000.xyz"):
        same(await line.rpc(Tversion(_NOTAG, 8192, version)), Rversion(_NOTAG, 8192, "9P2000"))


@_check("a version that is unknown gets `unknown`")
async def _unknown(server: Tested) -> None:
    line = await server.connect()
    reply = await line.rpc(Tversion(_NOTAG, 8192, "8P1999"))
    assert isinstance(reply, Rversion), reply
    assert reply.version == "unknown", reply


@_check("msize is never larger than what was offered")
async def _msize(server: Tested) -> None:
    line = await server.connect()
    for offered in (256, 8192, _wire.MAX32):
        reply = await line.rpc(Tversion(_NOTAG, offered, "9P2000"))
        assert isinstance(reply, Rversion), reply
        assert reply.msize <= offered, reply


@_check("Tversion in the middle frees every fid")
async def _again(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Tversion(_NOTAG, 8192, "9P2000")), Rversion(_NOTAG, 8192, "9P2000"))
    refused(await line.rpc(Tstat(1, 0)))


@_check("Tflush of an unknown tag gets Rflush")
async def _flush(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Tflush(3, 77)), Rflush(3))
    same(await line.rpc(Tflush(3, 3)), Rflush(3))


@_check("a fid that was never made is unknown")
async def _no_fid(server: Tested) -> None:
    line = await server.begin()
    for message in (Tstat(1, 9), Topen(1, 9, 0), Tread(1, 9, 0, 10), Tclunk(1, 9), Twalk(1, 9, 10, ())):
        refused(await line.rpc(message))


@_check("a fid is clunked once")
async def _clunk(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Twalk(1, 0, 1, ())), Rwalk(1, ()))
    same(await line.rpc(Tclunk(1, 1)), Rclunk(1))
    refused(await line.rpc(Tclunk(1, 1)))
    same(await line.rpc(Twalk(1, 0, 1, ())), Rwalk(1, ()))


@_check("a fid in use is no newfid")
async def _in_use(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Twalk(1, 0, 1, ())), Rwalk(1, ()))
    refused(await line.rpc(Twalk(1, 0, 1, ())))
    refused(await line.rpc(Tattach(1, 1, _NOFID, server.uname, server.aname)))


@_check("dot-dot above the root is the root")
async def _dotdot(server: Tested) -> None:
    line = await server.begin()
    reply = await line.rpc(Twalk(1, 0, 1, ("..", "..")))
    assert isinstance(reply, Rwalk), reply
    attached = await line.rpc(Tattach(1, 2, _NOFID, server.uname, server.aname))
    assert isinstance(attached, Rattach), attached
    assert reply.wqid == (attached.qid, attached.qid), reply


@_check("names that are no names are refused")
async def _names(server: Tested) -> None:
    line = await server.begin()
    for name in ("", ".", "a/b", "\0", "\udcff", "no such file here"):
        refused(await line.rpc(Twalk(1, 0, 1, (name,))))
    refused(await line.rpc(Tstat(1, 1)))


@_check("a walk that fails at a later name is short and sets no fid")
async def _short(server: Tested) -> None:
    line = await server.begin()
    reply = await line.rpc(Twalk(1, 0, 1, ("..", "no such file here")))
    assert isinstance(reply, Rwalk), reply
    assert len(reply.wqid) == 1, reply
    refused(await line.rpc(Tstat(1, 1)))


@_check("more than 16 names are refused")
async def _many(server: Tested) -> None:
    line = await server.begin()
    refused(await line.rpc(Twalk(1, 0, 1, ("..",) * 17)))


@_check("a file is read only when it is open, and opened only once")
async def _open(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Twalk(1, 0, 1, ())), Rwalk(1, ()))
    refused(await line.rpc(Tread(1, 1, 0, 100)))
    assert isinstance(await line.rpc(Topen(1, 1, 0)), Ropen)
    refused(await line.rpc(Topen(1, 1, 0)))


@_check("a directory cannot be written")
async def _write(server: Tested) -> None:
    line = await server.begin()
    for mode in (_wire.OWRITE, _wire.ORDWR, _wire.OREAD | _wire.OTRUNC):
        refused(await line.rpc(Topen(1, 0, mode)))


@_check("a directory is read from the start or from where the last read ended")
async def _directory(server: Tested) -> None:
    line = await server.begin()
    assert isinstance(await line.rpc(Topen(1, 0, 0)), Ropen)
    first = await line.rpc(Tread(1, 0, 0, 8000))
    assert isinstance(first, Rread), first
    parse_directory(first.data)
    refused(await line.rpc(Tread(1, 0, len(first.data) + 1, 8000)))
    again = await line.rpc(Tread(1, 0, 0, 8000))
    assert isinstance(again, Rread), again
    names = [entry.name for entry in parse_directory(first.data)]
    assert [entry.name for entry in parse_directory(again.data)] == names, again


@_check("a directory read by single entries is the same as read at once")
async def _paging(server: Tested) -> None:
    line = await server.begin()
    whole = await _root_entries(line, 0)
    line = await server.begin()
    assert isinstance(await line.rpc(Topen(1, 0, 0)), Ropen)
    names, offset = [], 0
    for entry in whole:
        reply = await line.rpc(Tread(1, 0, offset, len(entry.pack())))
        assert isinstance(reply, Rread), reply
        names += [found.name for found in parse_directory(reply.data)]
        offset += len(reply.data)
    assert names == [entry.name for entry in whole], names


@_check("stat of an entry is the record that its directory has")
async def _stat(server: Tested) -> None:
    line = await server.begin()
    same(await line.rpc(Twalk(1, 0, 1, ())), Rwalk(1, ()))
    for entry in await _root_entries(line, 1):
        walked = await line.rpc(Twalk(1, 0, 2, (entry.name,)))
        assert isinstance(walked, Rwalk), walked
        assert walked.wqid[0].path == entry.qid.path, f"{entry.name}: {walked}"
        reply = await line.rpc(Tstat(1, 2))
        assert isinstance(reply, Rstat), reply
        assert (reply.stat.name, reply.stat.mode, reply.stat.qid.path) == (entry.name, entry.mode, entry.qid.path), (
            reply
        )
        same(await line.rpc(Tclunk(1, 2)), Rclunk(1))


@_check("qid paths in a directory differ")
async def _paths(server: Tested) -> None:
    line = await server.begin()
    paths = [entry.qid.path for entry in await _root_entries(line, 0)]
    assert len(set(paths)) == len(paths), paths


@_check("a malformed message ends its connection and no other")
async def _malformed(server: Tested) -> None:
    other = await server.begin()
    for frame in (
        b"\x06\0\0\0\x78\1\0",
        b"\x08\0\0\0\x78\1\0\0",
        b"\xff\xff\xff\xff\x78\1\0",
        b"\x0b\0\0\0\x64\1\0\0\0\0\0",
    ):
        line = await server.begin()
        await line.send(frame)
        assert await line.closed(), f"{frame.hex()} was accepted"
    assert isinstance(await other.rpc(Tstat(1, 0)), Rstat)


@_check("fid 0 and the highest fid are ordinary fids")
async def _fids(server: Tested) -> None:
    line = await server.begin()
    highest = _NOFID - 1
    same(await line.rpc(Twalk(1, 0, highest, ())), Rwalk(1, ()))
    same(await line.rpc(Tclunk(1, 0)), Rclunk(1))
    reply = await line.rpc(Twalk(1, highest, 0, ()))
    same(reply, Rwalk(1, ()))
    stat = await line.rpc(Tstat(1, 0))
    assert isinstance(stat, Rstat), stat
    assert isinstance(stat.stat.qid, Qid)
    assert stat.stat.is_dir, stat
