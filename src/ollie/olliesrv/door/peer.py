"""A client that was let in: the peer that every callback of the tree is given."""

from dataclasses import dataclass

from ninep.tree import Peer
from ollie.olliesrv.sessions.agent import Agent


@dataclass(frozen=True)
class OlliePeer(Peer):
    """Who attached to olliesrv.

    Args:
        agent: the agent that the client's process belongs to; None for the owner, and for a TCP client let in without
            the secret.
    """

    agent: Agent | None = None

    @property
    def reader(self) -> str:
        """Under which name it is noted what was delivered: an agent that claims another's uname has its own notes."""
        return self.uname if self.agent is None else f"{self.agent.id}/{self.uname}"
