"""`session/idx`: a line for each session; for an agent, for its own only."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`id<tab>name<tab>agents<tab>paused<tab>remote<tab>cwd` lines."""
    text = await ollie.sessions.index_text()
    if peer.agent is None:
        return text
    mine = peer.agent.session.id.encode() + b"\t"
    return b"".join(line for line in text.splitlines(keepends=True) if line.startswith(mine))
