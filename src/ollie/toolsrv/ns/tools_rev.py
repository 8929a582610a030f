"""`tools_rev`: changes whenever the loaded tools of an agent do, and never has an old value again.

A write of an agent's id makes the next read give that agent's; before any write it is the agent that attached. A
decimal number and a newline.
"""

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv


async def command(toolsrv: Toolsrv, _peer: Peer, text: str) -> str:
    """The revision of the agent whose id was written."""
    return f"{toolsrv.registry.revision(text.strip())}\n"


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """The revision of the agent that attached."""
    return b"%d\n" % toolsrv.registry.revision(peer.aname)
