"""`session/{session}/name` and `session/{session}/agent/{agent}/name`: the name in the path; a write renames."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session


async def rename(it: Session | Agent, peer: OlliePeer, text: str) -> str:
    """Give it another name; the response is that name."""
    await it.rename(text.strip(), by=peer.agent)
    return f"{it.name}\n"


def render(it: Session | Agent, _peer: OlliePeer) -> bytes:
    """Its name."""
    return f"{it.name}\n".encode()
