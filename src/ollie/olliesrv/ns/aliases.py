"""`aliases`: what path each id stands for; for an agent, in its own session only."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`id<tab>path` lines."""
    text = await ollie.sessions.aliases_text()
    if peer.agent is None:
        return text
    mine = f"session/{peer.agent.session.name}/".encode()
    return b"".join(line for line in text.splitlines(keepends=True) if _path(line).startswith(mine))


def _path(line: bytes) -> bytes:
    """The path of a line, with a `/` at its end."""
    return line.rstrip(b"\n").partition(b"\t")[2] + b"/"
