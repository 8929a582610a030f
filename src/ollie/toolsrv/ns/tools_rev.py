"""`tools_rev`: changes whenever the loaded tools of an agent do, and never has an old value again.

A write of an agent's id makes the next read give that agent's; before any write it is the agent that attached. A
decimal number and a newline. Who attached for an agent asks about no other.
"""

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.sight import permitted


def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """The revision of the agent whose id was written."""
    return f"{toolsrv.registry.revision(permitted(peer, text.strip()))}\n"


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """The revision of the agent that attached."""
    return b"%d\n" % toolsrv.registry.revision(peer.aname)
