"""What has to hold while a request waits: whatever ends it, each message is answered once, or never."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from ninep import _wire
from ninep.messages import (
    Message,
    Rclunk,
    Rcreate,
    Rerror,
    Rflush,
    Ropen,
    Rread,
    Rremove,
    Rstat,
    Rversion,
    Rwalk,
    Tclunk,
    Tcreate,
    Tflush,
    Topen,
    Tread,
    Tremove,
    Tstat,
    Tversion,
    Twalk,
)
from ninep.testing.line import Line
from ninep.testing.rule import Rule, Tested, refused, same

_FID = 1  # what the request is about, or makes
_WAITS, _SECOND, _LAST = 1, 2, 3  # the tag of the request, and those of what follows


_Ending = Callable[["_Kind", str, Tested], Awaitable[None]]


class _Kind(NamedTuple):
    """A request that may wait.

    Args:
        name: what it is called, with its article.
        ask: sends it for a path, with the tag and the fid above.
        answer: what it is answered by when all is well.
    """

    name: str
    ask: Callable[[Line, str], Awaitable[None]]
    answer: type[Message]

    @property
    def bare_name(self) -> str:
        """Without the article."""
        return self.name.partition(" ")[2]


async def _walk_to(line: Line, path: str) -> None:
    names = tuple(path.split("/")) if path else ()
    walked = await line.rpc(Twalk(_WAITS, 0, _FID, names))
    assert isinstance(walked, Rwalk), f"{path}: {walked}"
    assert len(walked.wqid) == len(names), f"{path}: {walked}"


async def _open(line: Line, path: str) -> None:
    await _walk_to(line, path)
    await line.send(Topen(_WAITS, _FID, _wire.OREAD))


async def _read(line: Line, path: str) -> None:
    await _walk_to(line, path)
    opened = await line.rpc(Topen(_WAITS, _FID, _wire.OREAD))
    assert isinstance(opened, Ropen), f"{path}: {opened}"
    await line.send(Tread(_WAITS, _FID, 0, 4096))


async def _walk(line: Line, path: str) -> None:
    await line.send(Twalk(_WAITS, 0, _FID, tuple(path.split("/"))))


async def _create(line: Line, path: str) -> None:
    parent, _, name = path.rpartition("/")
    await _walk_to(line, parent)
    await line.send(Tcreate(_WAITS, _FID, name, _wire.DMDIR | 0o777, _wire.OREAD))


_OPEN, _READ = _Kind("an open", _open, Ropen), _Kind("a read", _read, Rread)
_WALK, _CREATE = _Kind("a walk", _walk, Rwalk), _Kind("a create", _create, Rcreate)


async def _waiting(kind: _Kind, path: str, server: Tested) -> Line:
    """A connection on which the request waits."""
    line = await server.begin()
    await kind.ask(line, path)
    probe = await line.rpc(Tstat(_LAST, 0))
    assert isinstance(probe, Rstat), f"the {kind.bare_name} of {path} does not wait: {probe}"
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


async def _before(kind: _Kind, line: Line) -> tuple[Message | None, Message]:
    """The reply to the request, if it comes first, and the one after it."""
    reply = await line.receive()
    if reply.tag != _WAITS:
        return None, reply
    assert isinstance(reply, (kind.answer, Rerror)), reply
    return reply, await line.receive()


async def _clunk(kind: _Kind, path: str, server: Tested) -> None:
    line = await _waiting(kind, path, server)
    await line.send(Tclunk(_SECOND, _FID))
    replies = await _replies(line, _WAITS, _SECOND)
    assert isinstance(replies[_WAITS], (kind.answer, Rerror)), replies[_WAITS]
    same(replies[_SECOND], Rclunk(_SECOND))
    await _quiet(line)


async def _remove(kind: _Kind, path: str, server: Tested) -> None:
    line = await _waiting(kind, path, server)
    await line.send(Tremove(_SECOND, _FID))
    replies = await _replies(line, _WAITS, _SECOND)
    assert isinstance(replies[_WAITS], (kind.answer, Rerror)), replies[_WAITS]
    assert isinstance(replies[_SECOND], Rremove | Rerror), replies[_SECOND]
    await _quiet(line)


async def _flush(kind: _Kind, path: str, server: Tested) -> None:
    line = await _waiting(kind, path, server)
    await line.send(Tflush(_SECOND, _WAITS), Tflush(_LAST, _WAITS))
    reply, flushed = await _before(kind, line)
    same(flushed, Rflush(_SECOND))
    same(await line.receive(), Rflush(_LAST))
    if kind is not _WALK or isinstance(reply, Rwalk):  # else there is no fid
        same(await line.rpc(Tclunk(_WAITS, _FID)), Rclunk(_WAITS))
    await _quiet(line)


async def _version(kind: _Kind, path: str, server: Tested) -> None:
    line = await _waiting(kind, path, server)
    await line.send(Tversion(_wire.NOTAG, 8192, _wire.VERSION))
    _, begun = await _before(kind, line)
    same(begun, Rversion(_wire.NOTAG, 8192, _wire.VERSION))
    await line.begin(uname=server.uname, aname=server.aname)
    await _quiet(line)


def suspended(*, opening: str, reading: str, walking: str, creating: str) -> list[tuple[str, Rule]]:
    """The rules for requests that wait, each with the path it waits for; without a path there are none of its kind."""
    rules: list[tuple[str, Rule]] = []
    for kind, path in ((_OPEN, opening), (_READ, reading), (_WALK, walking), (_CREATE, creating)):
        if path:
            rules += [(name, partial(rule, kind, path)) for name, rule in _rules(kind)]
    return rules


def _rules(kind: _Kind) -> list[tuple[str, _Ending]]:
    a, the = kind.name, kind.bare_name
    rules: list[tuple[str, _Ending]] = [
        (f"flushes of {a} that waits are answered last and in order, and leave nothing behind", _flush),
        (f"a version behind {a} that waits is answered, and nothing of the {the} comes after it", _version),
    ]
    if kind is not _WALK:  # which has no fid yet
        rules.insert(0, (f"a clunk behind {a} that waits is answered once, and so is the {the}", _clunk))
    if kind is _OPEN:
        rules.insert(1, (f"a remove behind {a} that waits is answered once, and so is the {the}", _remove))
    return rules
