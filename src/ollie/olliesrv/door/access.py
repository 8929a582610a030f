"""Who may do what: mode bits first, and for agents the bounds of their session and their ceiling.

Everybody is held to the mode bits of their role. An agent is held to more: it reads what the group may read, in its own
session only, and it writes, creates, commands and removes only where an agent's ceiling lies within its own.
`allowed` is the whole rule. What depends on the content of a write, such as `cwd /` to a `ctl`, is checked again by
the agent that is written to.
"""

from enum import Enum
from typing import Any

from ninep.tree import WANT_REMOVE, WANT_RENAME, WANT_WRITE, Entry, Role
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.errors import denied
from ollie.olliesrv.sessions.agent import Agent

_SHIFT = {Role.USER: 6, Role.GROUP: 3, Role.OTHER: 0}
# Files of the root that an agent may write where the group may: this one runs no tool. It may make no session.
_ROOT_WRITES = frozenset({"generate"})


class Reach(Enum):
    """Where a file lies, seen from the agent that asks."""

    ROOT = "at the root"
    ROOT_WRITABLE = "at the root, and agents may write it"
    OWN_SESSION = "in its own session, above the agents"
    COVERED = "below an agent of its session whose ceiling lies within its own, itself included"
    NOT_COVERED = "below another agent of its session"
    ELSEWHERE = "in another session"


_WRITABLE = frozenset({Reach.ROOT_WRITABLE, Reach.OWN_SESSION, Reach.COVERED})


def allowed(role: Role, mode: int, want: int, reach: Reach | None) -> bool:
    """Whether a peer may do something.

    Args:
        role: which bits of the mode are the peer's.
        mode: the permission bits of the file.
        want: what is wanted, `WANT_…` of `ninep.tree`.
        reach: where the file lies, for an agent; None for a peer that is no agent.
    """
    if want & WANT_RENAME:
        return reach is None and role is Role.USER
    if want & WANT_REMOVE:
        return reach is Reach.COVERED or (reach is None and role is Role.USER)
    if want & ~(mode >> _SHIFT[role]):
        return False
    if reach is None:
        return True
    return reach in _WRITABLE if want & WANT_WRITE else reach is not Reach.ELSEWHERE


def permit(peer: OlliePeer, entry: Entry[Any], objs: tuple[Any, ...], want: int) -> None:
    """The `permit` of the tree.

    Args:
        peer: who asks.
        entry: the file.
        objs: the server, then the session and the agent that the path leads through.
        want: what is wanted.

    Raises:
        NinepError: `permission denied`.
    """
    if not allowed(peer.role, entry.mode, want, _reach(peer, entry, objs)):
        raise denied()


def _reach(peer: OlliePeer, entry: Entry[Any], objs: tuple[Any, ...]) -> Reach | None:
    agent = peer.agent
    if agent is None:
        return None
    _, *below = objs
    if not below:
        return Reach.ROOT_WRITABLE if entry.name in _ROOT_WRITES else Reach.ROOT
    if below[0] is not agent.session:
        return Reach.ELSEWHERE
    # Runs of the session's tool server are found by the agent whose they are alone.
    if len(below) == 1 or not isinstance(below[1], Agent):
        return Reach.OWN_SESSION
    return Reach.COVERED if agent.may(below[1]) else Reach.NOT_COVERED
