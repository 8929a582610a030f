"""`tools`: the loaded tools of an agent.

A write of an agent's id makes the next read give that agent's; before any write it is the agent that attached. A JSON
array of `{name, description, input_schema, effect}`, sorted by name, and a newline. Who attached for an agent asks
about no other.
"""

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv, own


async def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """The tools of the agent whose id was written."""
    return toolsrv.loaded_text(own(peer, text.strip()))


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """The tools of the agent that attached."""
    return toolsrv.loaded_text(peer.aname).encode()
