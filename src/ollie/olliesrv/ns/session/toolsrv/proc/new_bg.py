"""`session/{session}/toolsrv/proc/new.bg`: starts a tool, for an agent of the session, and lets it run."""

from collections.abc import AsyncIterator

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import requests
from ollie.olliesrv.sessions.session import Session


def run(session: Session, peer: OlliePeer, data: bytes) -> AsyncIterator[bytes]:
    """The pid of what a payload started."""
    return requests.run(session, "proc/new.bg", data, by=peer.agent)


async def bare(session: Session, peer: OlliePeer, data: bytes) -> None:
    """Start it without telling its pid."""
    await requests.start(session, "proc/new.bg", data, by=peer.agent)
