"""A request to run something without the sandbox, and what can become of it. No I/O, no clock.

A request is asked once and settled once. Only an answer approves it: time, and the end of its caller, are refusals. An
approval is for the one execution that waits for it, and holds only while that is what it was when it was asked for.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from ninep.errors import NinepError


class ApprovalError(NinepError):
    """A request that cannot be settled so; the text names it."""


class State(StrEnum):
    """The state of a request, as served."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "timed out"
    WITHDRAWN = "withdrawn"


class Event(StrEnum):
    """What happens to a request."""

    APPROVE = "approve"
    REJECT = "reject"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"


TRANSITIONS = {
    (State.PENDING, Event.APPROVE): State.APPROVED,
    (State.PENDING, Event.REJECT): State.REJECTED,
    (State.PENDING, Event.EXPIRE): State.EXPIRED,
    (State.PENDING, Event.WITHDRAW): State.WITHDRAWN,
    # The caller goes while its approved run is about to start: nothing is left to withdraw.
    (State.APPROVED, Event.WITHDRAW): State.APPROVED,
    (State.REJECTED, Event.WITHDRAW): State.REJECTED,
    (State.EXPIRED, Event.WITHDRAW): State.EXPIRED,
}
"""What is missing is refused: nothing settles a request twice."""

_SETTLED = {
    State.APPROVED: "was approved already",
    State.REJECTED: "was rejected already",
    State.EXPIRED: "has timed out",
    State.WITHDRAWN: "was withdrawn: its caller is gone",
}

_FORM = 'not an answer: write {"id":"…","approved":true} or {"id":"…","error":"why not"}'


@dataclass(frozen=True)
class Request:
    """What its owner is asked.

    Args:
        id: names it; short, for it is typed.
        agent: who asks.
        session: the session of that agent.
        tool: the tool that is called.
        command: the exact script, or the call as one line.
        argv: the exact program and arguments.
        stdin: what the program reads, as text.
        cwd: where it runs.
        environment: all variables that it gets.
        differs: those of them whose value is not the one that the server has; without those that every run gets.
        files: the files and directories that its words name, each held to what it is now.
        hash: over all of this, and the content of the files.
        asked_at, expires_at: seconds since the epoch.
    """

    id: str
    agent: str
    session: str
    tool: str
    command: str
    argv: tuple[str, ...]
    stdin: str
    cwd: str
    environment: Mapping[str, str]
    differs: Mapping[str, str]
    files: tuple[str, ...]
    hash: str
    asked_at: float
    expires_at: float

    def public(self) -> dict[str, object]:
        """As it is served."""
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """What an observer says.

    Args:
        id: of the request.
        approved: whether it may run.
        why: told to the agent when it may not.
        hash: that of the request that was looked at; empty leaves it out.
    """

    id: str
    approved: bool
    why: str = ""
    hash: str = ""


def settle(request: Request, state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        ApprovalError: `request ID was approved already`, and the like.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise ApprovalError(f"request {request.id} {_SETTLED[state]}")
    return following


def answer(fields: object) -> Answer:
    """The answer in decoded JSON: `{"id":"…","approved":true}` or `{"id":"…","error":"…"}`; `hash` may be added.

    Raises:
        ApprovalError: `not an answer: …`.
    """
    if not isinstance(fields, dict) or not fields.keys() <= {"id", "approved", "error", "hash"}:
        raise ApprovalError(_FORM)
    id_, why, digest = (fields.get(key, "") for key in ("id", "error", "hash"))
    approved = fields.get("approved", False if "error" in fields else None)
    if not (isinstance(id_, str) and id_ and isinstance(why, str) and isinstance(digest, str)):
        raise ApprovalError(_FORM)
    if not isinstance(approved, bool) or (approved and "error" in fields):
        raise ApprovalError(_FORM)
    return Answer(id_, approved, why, digest)
