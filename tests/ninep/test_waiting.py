"""Requests that wait when something ends them: every kind, every end, and every way in which the request ends then."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from still import Still, still_root

from ninep import _wire
from ninep._session import AfidConversation, OpenFile
from ninep._session import Place as SessionPlace
from ninep.errors import NinepError
from ninep.messages import (
    Message,
    Rattach,
    Rauth,
    Rclunk,
    Rcreate,
    Rerror,
    Rflush,
    Ropen,
    Rread,
    Rremove,
    Rversion,
    Rwalk,
    Rwrite,
    Rwstat,
    Stat,
    Tattach,
    Tauth,
    Tclunk,
    Tcreate,
    Tflush,
    Topen,
    Tread,
    Tremove,
    Tversion,
    Twalk,
    Twrite,
    Twstat,
)
from ninep.testing import DirectDriver

VERSION = Tversion(_wire.NOTAG, 8192, "9P2000")
WAIT, FLUSH, END = 5, 6, 7  # tags
FID, NEWFID = 1, 2
TEXT, SINK, KEPT = ("slow", "text"), ("slow", "sink"), ("slow", "kept")


class Opened(OpenFile):
    """An open file that counts how often it was closed."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    def close(self, *, commit: bool) -> Awaitable[None] | None:  # noqa: ARG002  as every file is closed
        """Count."""
        self.closed += 1
        return None


class Conversation:
    """One that is never finished."""

    done = False

    async def read(self, count: int) -> bytes:
        """The end, however much is asked for."""
        return b""[:count]

    async def write(self, data: bytes) -> None:
        """Nothing is wrong with it."""


class Slow(DirectDriver):
    """The first Tattach is answered; the others wait, and so does every Tauth."""

    def __init__(self) -> None:
        super().__init__(still_root())
        self._begun = False

    async def attach(self, uname: str, aname: str, auth: AfidConversation | None) -> SessionPlace:
        """The root."""
        if self._begun:
            await Still()
        self._begun = True
        return await super().attach(uname, aname, auth)

    async def authenticate(self, uname: str, aname: str) -> AfidConversation:
        """Wait."""
        await Still()
        return await super().authenticate(uname, aname)


def _walked() -> tuple[SessionPlace, list[bytes]]:
    walked = still_root().walk(KEPT)
    assert isinstance(walked, tuple)
    return walked[0], walked[1][:1]


@dataclass(frozen=True)
class Case:
    """A request that waits.

    Args:
        path: where FID is.
        message: the request.
        reply: the type of its reply when it ends well.
        result: what it gives then.
        before: sent before it.
        makes: it is to make NEWFID.
        uses: it runs on behalf of FID.
    """

    path: tuple[str, ...]
    message: Message
    reply: type[Message]
    result: Callable[[Opened], object] = lambda _opened: None
    before: tuple[Message, ...] = ()
    makes: bool = False
    uses: bool = True

    @property
    def ends(self) -> bool:
        """Whether FID is gone with it."""
        return isinstance(self.message, Tclunk | Tremove)


_WRITTEN = (Topen(1, FID, _wire.OWRITE), Twrite(1, FID, 0, b"data"))
CASES = {
    "open": Case(TEXT, Topen(WAIT, FID, 0), Ropen, lambda opened: opened),
    "create": Case(
        ("slow",), Tcreate(WAIT, FID, "new", _wire.DMDIR, 0), Rcreate, lambda opened: (_walked()[0], opened)
    ),
    "read": Case(("thing", "a", "level"), Tread(WAIT, FID, 0, 9), Rread, lambda _opened: b"ready", (Topen(1, FID, 0),)),
    "write": Case(("thing", "a", "ctl"), Twrite(WAIT, FID, 0, b"do"), Rwrite, lambda _opened: 2, (Topen(1, FID, 1),)),
    "commit": Case(SINK, Twstat(WAIT, FID, Stat()), Rwstat, before=_WRITTEN),
    "rename": Case(KEPT, Twstat(WAIT, FID, Stat(name="other")), Rwstat),
    "walk": Case(("slow",), Twalk(WAIT, FID, NEWFID, ("far",)), Rwalk, lambda _opened: _walked(), makes=True),
    "walk onto itself": Case(("slow",), Twalk(WAIT, FID, FID, ("far",)), Rwalk, lambda _opened: _walked()),
    "clunk": Case(SINK, Tclunk(WAIT, FID), Rclunk, before=_WRITTEN),
    "remove": Case(KEPT, Tremove(WAIT, FID), Rremove),
    "attach": Case(
        (), Tattach(WAIT, NEWFID, _wire.NOFID, "u", ""), Rattach, lambda _opened: still_root(), makes=True, uses=False
    ),
    "auth": Case((), Tauth(WAIT, NEWFID, "u", ""), Rauth, lambda _opened: Conversation(), makes=True, uses=False),
}
ENDS: dict[str, tuple[Message, ...]] = {
    "clunk": (Tclunk(END, FID),),
    "remove": (Tremove(END, FID),),
    "flush": (Tflush(FLUSH, WAIT),),
    "flush, clunk": (Tflush(FLUSH, WAIT), Tclunk(END, FID)),
    "clunk, flush": (Tclunk(END, FID), Tflush(FLUSH, WAIT)),
    "clunk of newfid": (Tclunk(END, NEWFID),),
    "version": (VERSION,),
    "lost": (),
}


OUTCOMES = ("well", "error", "cancelled", "abandoned")


def _end_it(direct: DirectDriver, outcome: str, result: object) -> str:
    """The request, and then whatever else waits. What was not cancelled cannot be abandoned: it ends well.

    Returns:
        What came of it.
    """
    if outcome == "abandoned" and not direct.timers:
        outcome = "well"
    if outcome == "abandoned":
        for expire in list(direct.timers):
            expire()
    waiting = direct.suspended[0]
    if outcome == "error":
        waiting.done(None, NinepError("no"))
    elif outcome == "cancelled":
        waiting.done(None, asyncio.CancelledError())
    else:
        waiting.done(result, None)
    for other in direct.suspended[1:]:
        other.done(None, None)
    return outcome


def _expected(case: Case, end: str, came: str) -> list[tuple[int, type[Message]]]:
    """Tags and types of all replies, in order."""
    if end == "version":
        return [(_wire.NOTAG, Rversion)]
    if end == "lost":
        return []
    gone = _ends_fid(end)
    flushed = "flush" in end
    replies: list[tuple[int, type[Message]]] = []
    if came == "well":  # a fid that is about to end goes nowhere any more
        replies.append((WAIT, Rerror if gone and case is CASES["walk onto itself"] else case.reply))
    elif came == "error" or not flushed:
        replies.append((WAIT, Rerror))
    if flushed:
        replies.append((FLUSH, Rflush))
    if case.ends or end == "clunk of newfid":
        return [(END, Rerror), *replies] if "clunk" in end or "remove" in end else replies
    if not gone:
        return replies
    ended: type[Message] = Rclunk
    if end == "remove":
        created = case is CASES["create"] and came == "well"  # then it is what was created that is removed
        ended = Rremove if case.path == KEPT or created else Rerror
    return [*replies, (END, ended)] if case.uses else [(END, ended), *replies]


def _ends_fid(end: str) -> bool:
    return any(isinstance(message, Tclunk | Tremove) and message.fid == FID for message in ENDS[end])


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", CASES)
def test_what_waits_when_something_ends_it(name: str, end: str, outcome: str) -> None:
    """Each message has its reply, in order; no fid, request or open file is left over, and none is closed twice."""
    case, direct, opened = CASES[name], Slow(), Opened()
    direct.exchange(VERSION, Tattach(9, 0, _wire.NOFID, "glenda", ""), Twalk(1, 0, FID, case.path), *case.before)
    assert direct.exchange(case.message) == []
    replies = direct.exchange(*ENDS[end])
    if end == "lost":
        direct.session.close()
    came = _end_it(direct, outcome, case.result(opened))
    replies += direct.exchange()
    assert [(reply.tag, type(reply)) for reply in replies] == _expected(case, end, came)
    assert (direct.session.outstanding, direct.timers) == (0, [])
    in_use = set() if end in {"version", "lost"} else {0, FID, NEWFID}
    if _ends_fid(end) or case.ends:
        in_use.discard(FID)
    if came != "well" or not case.makes:
        in_use.discard(NEWFID)
    assert set(direct.session.fids) == in_use
    assert direct.is_closed is (end == "lost")
    left_open = came == "well" and FID in in_use
    assert opened.closed == int(name in {"open", "create"} and came in {"well", "abandoned"} and not left_open)
