"""`session/{session}/agent/{agent}/cfg`: every setting with what counts for it; a write changes some."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.pairs import format_record, parse_record
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.settings.keys import KEYS


async def change(agent: Agent, peer: OlliePeer, text: str) -> str:
    """Change what is written, all of it or nothing; nothing is answered."""
    await agent.change(parse_record(text.encode(), tuple(KEYS)), by=peer.agent)
    return ""


def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """`key=value` lines, as they can be written."""
    shown = agent.outfit.shown().items()
    return b"".join(format_record({key: value}) if value else f"{key}=\n".encode() for key, value in shown)
