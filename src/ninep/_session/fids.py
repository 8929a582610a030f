"""A fid's life, as two tables that everything moves by.

    FREE ─Twalk, Tattach, Tauth─> PENDING ─reply─> PLACED ─Topen, Tcreate─> OPENING ─reply─> READING, WRITING, BOTH
                                     └─reply to Tauth─> AUTH
    any of these ─Tclunk, Tremove─> ENDING ─reply─> FREE

`MESSAGES[state][message]` is the state as long as the message is being answered, or the ename that refuses it (`use`).
`REPLIES[state][reply]` is the state that the reply leaves behind (`turn`). A new fid begins as PENDING, or as PLACED
where its Rwalk comes at once.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING

from ninep import errors
from ninep._session.interface import OpenFile, Place
from ninep._wire import (
    NOFID,
    RATTACH,
    RAUTH,
    RCLUNK,
    ROPEN,
    RREMOVE,
    RWALK,
    TATTACH,
    TAUTH,
    TCLUNK,
    TCREATE,
    TOPEN,
    TREAD,
    TREMOVE,
    TSTAT,
    TWALK,
    TWRITE,
    TWSTAT,
)
from ninep.errors import NinepError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ninep._session.request import Request


class FidState(Enum):
    """Where a fid is in its life.

    Attributes:
        messages: its row of the table of messages.
        replies: its row of the table of replies.
    """

    messages: "dict[int, FidState | str]"
    replies: "dict[int, FidState]"

    FREE = auto()  # not in the session's table at all
    PENDING = auto()  # reserved by a request that is to make it
    PLACED = auto()
    OPENING = auto()
    READING = auto()
    WRITING = auto()
    BOTH = auto()
    AUTH = auto()
    ENDING = auto()


FREE, PENDING, PLACED, OPENING, READING, WRITING, BOTH, AUTH, ENDING = FidState  # a member is slow to look up

TMOVE = TWALK | 0x100  # a Twalk of names onto its own fid
FAILED = 0x200  # `TOPEN | FAILED` is the Rerror to a Topen; a Twalk that ends half way makes no fid and fails, too
_FOR_READING, _FOR_WRITING, _FOR_BOTH = ROPEN | 0x400, ROPEN | 0x800, ROPEN | 0xC00
ROPENS = (_FOR_READING, _FOR_WRITING, _FOR_BOTH, _FOR_READING)  # and Rcreate, by the two low bits of the mode

_USES = (TWALK, TMOVE, TOPEN, TCREATE, TREAD, TWRITE, TCLUNK, TREMOVE, TSTAT, TWSTAT)
_UNKNOWN: dict[int, FidState | str] = dict.fromkeys(_USES, errors.UNKNOWN_FID)
_ENDS: dict[int, FidState | str] = {TCLUNK: ENDING, TREMOVE: ENDING}
_CLOSED: dict[int, FidState | str] = {TREAD: errors.NOT_OPEN, TWRITE: errors.NOT_OPEN}
_OPEN: dict[int, FidState | str] = {
    TMOVE: errors.OPEN_FID_WALKED,
    TOPEN: errors.ALREADY_OPEN,
    TCREATE: errors.ALREADY_OPEN,
}

MESSAGES: dict[FidState, dict[int, FidState | str]] = {
    PENDING: _UNKNOWN,
    PLACED: dict.fromkeys(_USES, PLACED) | _CLOSED | {TOPEN: OPENING, TCREATE: OPENING} | _ENDS,
    OPENING: dict.fromkeys(_USES, OPENING) | _CLOSED | _OPEN | _ENDS,
    READING: dict.fromkeys(_USES, READING) | {TWRITE: errors.NOT_OPEN_FOR_WRITING} | _OPEN | _ENDS,
    WRITING: dict.fromkeys(_USES, WRITING) | {TREAD: errors.NOT_OPEN_FOR_READING} | _OPEN | _ENDS,
    BOTH: dict.fromkeys(_USES, BOTH) | _OPEN | _ENDS,
    AUTH: dict.fromkeys(_USES, errors.AFID_MISUSED) | {TREAD: AUTH, TWRITE: AUTH} | _ENDS,
    ENDING: _UNKNOWN,
}

_NOT_MADE = {TWALK | FAILED: FREE, TATTACH | FAILED: FREE, TAUTH | FAILED: FREE}
_OPENED = {_FOR_READING: READING, _FOR_WRITING: WRITING, _FOR_BOTH: BOTH}
_NOT_OPENED = {TOPEN | FAILED: PLACED, TCREATE | FAILED: PLACED}
_ENDED = {RCLUNK: FREE, RREMOVE: FREE, TCLUNK | FAILED: FREE, TREMOVE | FAILED: FREE}

REPLIES: dict[FidState, dict[int, FidState]] = {
    PENDING: {RWALK: PLACED, RATTACH: PLACED, RAUTH: AUTH} | _NOT_MADE,
    OPENING: _OPENED | _NOT_OPENED,
    ENDING: dict.fromkeys(_OPENED | _NOT_OPENED, ENDING) | _ENDED,  # an open that it waits for does not set it free
}

for _state, _row in MESSAGES.items():
    _state.messages = _row
    _state.replies = REPLIES.get(_state, {})


class Fid:
    """A client's handle: where it is, and the open file when it is open.

    Attributes:
        requests: those that run on its behalf and have not ended; None where there never was one.
        ending: clunks or removes it, once nothing runs on its behalf any more.
    """

    __slots__ = ("ending", "file", "number", "place", "requests", "state")

    def __init__(self, number: int, state: FidState, place: Place | None = None) -> None:
        self.number = number
        self.place = place
        self.file: OpenFile | None = None
        self.requests: set[Request] | None = None
        self.ending: Callable[[], None] | None = None
        self.state = state


class Fids(dict[int, Fid]):
    """The fids of a session, by number, whatever their state.

    Args:
        limit: how many may be in use.
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def use(self, number: int, kind: int) -> Fid:
        """The fid that a message of type `kind` is about, moved on; NinepError when the table does not allow it."""
        fid = self.get(number)
        if fid is None:
            raise NinepError(errors.UNKNOWN_FID)
        rule = fid.state.messages[kind]
        if not isinstance(rule, FidState):
            raise NinepError(rule)
        fid.state = rule
        return fid

    def check_free(self, number: int) -> None:
        """NinepError when the number cannot become a new fid."""
        if number in self:
            raise NinepError(errors.FID_IN_USE)
        if number == NOFID:
            raise NinepError(errors.UNKNOWN_FID)
        if len(self) >= self._limit:
            raise NinepError(errors.TOO_MANY_FIDS)

    def reserve(self, number: int) -> Fid:
        """A fid that is yet to be made."""
        self.check_free(number)
        fid = self[number] = Fid(number, PENDING)
        return fid

    def turn(self, fid: Fid, reply: int) -> None:
        """Move it on by the reply that is about to be sent."""
        fid.state = fid.state.replies[reply]
        if fid.state is FREE:
            del self[fid.number]

    def pop_all(self) -> list[Fid]:
        """All of them; none is in use any more."""
        fids = list(self.values())
        self.clear()
        return fids
