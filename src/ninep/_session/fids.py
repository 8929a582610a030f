"""What may be done with a fid, as a table.

    FREE ─Twalk, Tattach, Tauth─> PENDING ─reply─> PLACED ─Topen, Tcreate─> OPENING ─reply─> READING, WRITING, BOTH
                                     └─reply to Tauth─> AUTH
    any of these ─Tclunk, Tremove─> ENDING ─reply─> FREE

`RULES[state][message]` is the next state, or the ename that answers. Replies are in it as well: a fid moves on only
when its reply is sent.
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
    RERROR,
    ROPEN,
    RREMOVE,
    RWALK,
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
        rules: its row of the table.
    """

    rules: "dict[int, FidState | str]"

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
_USES = (TWALK, TOPEN, TCREATE, TREAD, TWRITE, TCLUNK, TREMOVE, TSTAT, TWSTAT)


def _unknown() -> "dict[int, FidState | str]":
    return dict.fromkeys(_USES, errors.UNKNOWN_FID)


def _placed(state: FidState, **differences: FidState | str) -> "dict[int, FidState | str]":
    rules: dict[int, FidState | str] = dict.fromkeys(_USES, state)
    rules |= {TCLUNK: ENDING, TREMOVE: ENDING}
    for name, rule in differences.items():
        rules[_BY_NAME[name]] = rule
    return rules


_BY_NAME = {"walk": TWALK, "open": TOPEN, "create": TCREATE, "read": TREAD, "write": TWRITE}
_OPEN_ALREADY = {"open": errors.ALREADY_OPEN, "create": errors.ALREADY_OPEN}
_UNREADABLE, _UNWRITABLE = errors.NOT_OPEN_FOR_READING, errors.NOT_OPEN_FOR_WRITING

RULES: dict[FidState, dict[int, FidState | str]] = {
    PENDING: _unknown() | {RWALK: PLACED, RATTACH: PLACED, RAUTH: AUTH, RERROR: FREE},
    PLACED: _placed(PLACED, open=OPENING, create=OPENING, read=errors.NOT_OPEN, write=errors.NOT_OPEN),
    OPENING: _placed(OPENING, **_OPEN_ALREADY, read=errors.NOT_OPEN, write=errors.NOT_OPEN)
    | {ROPEN: BOTH, RERROR: PLACED},
    READING: _placed(READING, **_OPEN_ALREADY, write=_UNWRITABLE),
    WRITING: _placed(WRITING, **_OPEN_ALREADY, read=_UNREADABLE),
    BOTH: _placed(BOTH, **_OPEN_ALREADY),
    AUTH: dict.fromkeys(_USES, errors.AFID_MISUSED) | {TREAD: AUTH, TWRITE: AUTH, TCLUNK: ENDING, TREMOVE: ENDING},
    ENDING: _unknown() | {RCLUNK: FREE, RREMOVE: FREE, RERROR: FREE},
}

for _state, _rules in RULES.items():
    _state.rules = _rules

OPENED = (READING, WRITING, BOTH, READING)  # by the two low bits of the mode; OEXEC reads


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
        """The fid that a message of type `kind` is about; NinepError when the table does not allow it."""
        fid = self.get(number)
        if fid is None:
            raise NinepError(errors.UNKNOWN_FID)
        rule = fid.state.rules[kind]
        if rule.__class__ is str:
            raise NinepError(rule)
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

    def place(self, number: int, place: Place) -> None:
        """A new fid, of a number that `check_free` has passed."""
        self[number] = Fid(number, PLACED, place)

    def turn(self, fid: Fid, reply: int) -> None:
        """Move it on by the reply that is about to be sent, where the table says so."""
        state = fid.state.rules.get(reply)
        if state is FREE:
            del self[fid.number]
        elif isinstance(state, FidState):
            fid.state = state

    def pop_all(self) -> list[Fid]:
        """All of them; none is in use any more."""
        fids = list(self.values())
        self.clear()
        return fids
