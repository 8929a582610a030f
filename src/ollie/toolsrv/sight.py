"""What of a tool server a client sees: one that attached for an agent what is that agent's, any other everything."""

from ninep.errors import PERMISSION_DENIED, NinepError
from ninep.tree import Peer


def sees(peer: Peer, agent: str) -> bool:
    """Whether a peer sees what is an agent's."""
    return peer.aname in {"", agent}


def permitted(peer: Peer, agent: str) -> str:
    """The agent that a peer asks about.

    Raises:
        NinepError: `permission denied` when it attached for another one.
    """
    if not sees(peer, agent):
        raise NinepError(PERMISSION_DENIED)
    return agent
