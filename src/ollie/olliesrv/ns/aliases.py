"""`aliases`: what path each id stands for."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """An `id<tab>path` line for each session and agent."""
    members = await ollie.sessions.members()
    lines = []
    for row in ollie.sessions.visible(peer.agent):
        path = f"session/{row.name}"
        lines.append(f"{row.id}\t{path}\n")
        lines.extend(f"{agent}\t{path}/agent/{name}\n" for agent, name in members.get(row.id, ()))
    return "".join(lines).encode()
