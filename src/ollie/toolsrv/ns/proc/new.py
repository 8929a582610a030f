"""`proc/new`: runs a tool.

A payload is written, then the first read runs it and gives its ToolResult as JSON. When the fid is clunked, the read
flushed or the connection lost before that, the run is ended, and the reply says that nothing of it is alive.
"""

from collections.abc import AsyncIterator

from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv

_PIECE_BYTES = 64 * 1024


async def run(toolsrv: Toolsrv, peer: Peer, data: bytes) -> AsyncIterator[bytes]:
    """The ToolResult of a payload, in pieces.

    Raises:
        NinepError: The payload cannot be read, names no tool, or has a wrong token. What a model can mend is no error
            but a result with `isError`.
    """
    answer = (await toolsrv.executor.foreground(toolsrv.call(peer, data))).to_json()
    for start in range(0, len(answer), _PIECE_BYTES):
        yield answer[start : start + _PIECE_BYTES]
