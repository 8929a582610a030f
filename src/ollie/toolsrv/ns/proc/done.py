"""`proc/done`: background runs that have ended and are not acknowledged yet.

A read gives the next one, a JSON object on a line: boot pid agent session tool cmd exit output. A write of its pid
acknowledges it: it is forgotten, and no later reader is given it.
"""

from ninep.tree import Peer
from ollie.toolsrv.done import DoneWatcher
from ollie.toolsrv.server import Toolsrv


def watch(toolsrv: Toolsrv, peer: Peer) -> DoneWatcher:
    """A fresh fid is given everything that waits first."""
    return toolsrv.done.watch(peer)


async def acknowledge(toolsrv: Toolsrv, peer: Peer, data: bytes) -> None:
    """Forget one.

    Raises:
        NinepError: `not a process: …`, or `no ended process N waits`.
    """
    toolsrv.done.acknowledge(peer, data)
