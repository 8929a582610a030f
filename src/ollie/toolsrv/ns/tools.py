"""`tools`: the loaded tools of an agent.

A write of an agent's id makes the next read give that agent's; before any write it is the agent that attached. A JSON
array of `{name, description, input_schema, effect}`, sorted by name, and a newline. Who attached for an agent asks
about no other.
"""

from ninep.tree import Peer
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.sight import permitted


def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """The tools of the agent whose id was written."""
    return _listing(toolsrv, permitted(peer, text.strip())).decode()


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """The tools of the agent that attached."""
    return _listing(toolsrv, peer.aname)


def _listing(toolsrv: Toolsrv, agent: str) -> bytes:
    return json_line([tool.public() for tool in toolsrv.registry.loaded(agent)])
