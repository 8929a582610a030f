"""`proc/new.bg`: starts a tool and lets it run.

A payload is written, then the first read starts it and gives its pid and a newline. Without a read it is started at
commit or clunk.
"""

from collections.abc import AsyncIterator

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv


async def run(toolsrv: Toolsrv, peer: Peer, data: bytes) -> AsyncIterator[bytes]:
    """The pid of what a payload started.

    Raises:
        NinepError: It cannot run; the text says why.
    """
    started = await toolsrv.executor.background(toolsrv.call(peer, data))
    yield b"%d\n" % started.number


async def bare(toolsrv: Toolsrv, peer: Peer, data: bytes) -> None:
    """Start it without telling its pid; the same errors."""
    await toolsrv.executor.background(toolsrv.call(peer, data))
