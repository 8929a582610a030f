"""`session/{session}/toolsrv/proc/new`: runs a tool, for an agent of the session."""

from collections.abc import AsyncIterator

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import requests
from ollie.olliesrv.sessions.session import Session


def run(session: Session, peer: OlliePeer, data: bytes) -> AsyncIterator[bytes]:
    """The ToolResult of a payload."""
    return requests.run(session, "proc/new", data, by=peer.agent)
