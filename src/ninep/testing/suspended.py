"""What has to hold while an open waits: whatever ends it, each message is answered once, or never."""

from typing import Final

from ninep import _wire
from ninep.messages import (
    Message,
    Rclunk,
    Rerror,
    Rflush,
    Ropen,
    Rremove,
    Rstat,
    Rversion,
    Rwalk,
    Tclunk,
    Tflush,
    Topen,
    Tremove,
    Tstat,
    Tversion,
    Twalk,
)
from ninep.testing.line import Line
from ninep.testing.rule import Rule, Tested, refused, same

_FID, _OPEN, _SECOND, _LAST = 1, 1, 2, 3  # the fid of the file, the tag of its Topen, those of what follows


async def _opening(server: Tested) -> Line:
    """A connection on which the open of the file waits."""
    line = await server.begin()
    names = tuple(server.opening.split("/"))
    walked = await line.rpc(Twalk(_OPEN, 0, _FID, names))
    assert isinstance(walked, Rwalk), f"{server.opening}: {walked}"
    assert len(walked.wqid) == len(names), f"{server.opening}: {walked}"
    await line.send(Topen(_OPEN, _FID, _wire.OREAD))
    probe = await line.rpc(Tstat(_LAST, 0))
    assert isinstance(probe, Rstat), f"the open of {server.opening} does not wait: {probe}"
    return line


async def _replies(line: Line, *tags: int) -> dict[int, Message]:
    """One reply for each tag, in any order."""
    found: dict[int, Message] = {}
    while len(found) < len(tags):
        reply = await line.receive()
        assert reply.tag in tags, f"{reply}, which nobody waits for"
        assert reply.tag not in found, f"{reply} after {found[reply.tag]}"
        found[reply.tag] = reply
    return found


async def _quiet(line: Line) -> None:
    """Nothing more comes, and the fid is free."""
    reply = await line.rpc(Tstat(_LAST, _FID))
    assert reply.tag == _LAST, f"{reply}, which nobody waits for"
    refused(reply)
    same(await line.rpc(Twalk(_LAST, 0, _FID, ())), Rwalk(_LAST, ()))


async def _clunk(server: Tested) -> None:
    line = await _opening(server)
    await line.send(Tclunk(_SECOND, _FID))
    replies = await _replies(line, _OPEN, _SECOND)
    assert isinstance(replies[_OPEN], Ropen | Rerror), replies[_OPEN]
    same(replies[_SECOND], Rclunk(_SECOND))
    await _quiet(line)


async def _remove(server: Tested) -> None:
    line = await _opening(server)
    await line.send(Tremove(_SECOND, _FID))
    replies = await _replies(line, _OPEN, _SECOND)
    assert isinstance(replies[_OPEN], Ropen | Rerror), replies[_OPEN]
    assert isinstance(replies[_SECOND], Rremove | Rerror), replies[_SECOND]
    await _quiet(line)


async def _flush(server: Tested) -> None:
    line = await _opening(server)
    await line.send(Tflush(_SECOND, _OPEN))
    reply = await line.receive()
    if reply.tag == _OPEN:
        assert isinstance(reply, Ropen | Rerror), reply
        reply = await line.receive()
    same(reply, Rflush(_SECOND))
    same(await line.rpc(Tclunk(_OPEN, _FID)), Rclunk(_OPEN))
    await _quiet(line)


async def _version(server: Tested) -> None:
    line = await _opening(server)
    await line.send(Tversion(_wire.NOTAG, 8192, _wire.VERSION))
    reply = await line.receive()
    if reply.tag == _OPEN:
        assert isinstance(reply, Ropen | Rerror), reply
        reply = await line.receive()
    same(reply, Rversion(_wire.NOTAG, 8192, _wire.VERSION))
    await line.begin(uname=server.uname, aname=server.aname)
    await _quiet(line)


SUSPENDED: Final[list[tuple[str, Rule]]] = [
    ("a clunk behind an open that waits is answered once, and so is the open", _clunk),
    ("a remove behind an open that waits is answered once, and so is the open", _remove),
    ("a flush of an open that waits is answered last, and the fid can be clunked", _flush),
    ("a version behind an open that waits is answered, and nothing of the open comes after it", _version),
]
