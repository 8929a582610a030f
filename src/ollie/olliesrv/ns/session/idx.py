"""`session/idx`: a line for each session."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie


async def render(ollie: Ollie, peer: OlliePeer) -> bytes:
    """`id<tab>name<tab>agents<tab>paused<tab>remote<tab>cwd` lines; nothing is remote."""
    members = await ollie.sessions.members()
    lines = (
        (row.id, row.name, str(len(members.get(row.id, ()))), str(row.paused).lower(), "", row.cwd)
        for row in ollie.sessions.visible(peer.agent)
    )
    return "".join("\t".join(line) + "\n" for line in lines).encode()
