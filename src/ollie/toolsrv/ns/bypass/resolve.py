"""`bypass/resolve`: an answer to a request, as JSON.

    {"id":"5f0c2a91","approved":true}
    {"id":"5f0c2a91","error":"not on this machine"}

With `"hash"` the answer holds only for the request that has it. Who attached for an agent answers nothing: an agent
approves neither its own runs nor another's.
"""

import json

from ninep.errors import PERMISSION_DENIED, NinepError
from ninep.tree import Peer
from ollie.toolsrv.approval import ApprovalError, answer
from ollie.toolsrv.server import Toolsrv


async def take(toolsrv: Toolsrv, peer: Peer, data: bytes) -> None:
    """Settle the request.

    Raises:
        NinepError: `permission denied`, `not an answer: …`, `no such request: …`, `request … was approved already`.
    """
    if peer.aname:
        raise NinepError(PERMISSION_DENIED)
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApprovalError(f"not an answer: {error}") from None
    toolsrv.broker.resolve(answer(fields))
