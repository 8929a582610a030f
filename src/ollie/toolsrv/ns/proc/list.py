"""`proc/list`: `pid<tab>state<tab>tool`, a line for each run.

A write of an agent's id makes the next read give that agent's runs only.
"""

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv, table


async def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """The runs of the agent whose id was written."""
    agent = text.strip()
    return table(run for run in toolsrv.visible(peer) if run.task.agent == agent)


def text(toolsrv: Toolsrv, peer: Peer) -> bytes:
    """Every run that the peer sees."""
    return table(toolsrv.visible(peer)).encode()
