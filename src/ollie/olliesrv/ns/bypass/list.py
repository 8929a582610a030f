"""`bypass/list`: what waits for approval now."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, _peer: OlliePeer) -> bytes:
    """A JSON object on a line for each request, the oldest first."""
    return b"".join(await ollie.approvals.lines())
