"""`session/{session}/toolsrv/proc/new`: runs a tool, for an agent of the session."""

from collections.abc import AsyncIterator

from ollie.olliesrv import requests
from ollie.olliesrv.peer import OlliePeer
from ollie.olliesrv.session import Session


def run(session: Session, peer: OlliePeer, data: bytes) -> AsyncIterator[bytes]:
    """The ToolResult of a payload."""
    return requests.run(session, "proc/new", data, by=peer.agent)
