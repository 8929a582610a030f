"""`session/{session}/agent/{agent}/log`: the end of `chat.raw`."""

from ollie.engine import blocks
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions.agent import Agent

_BYTES = 64 * 1024


async def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """The last 64 KiB, cut at a block."""
    return blocks.tail(await agent.chat_raw.end(_BYTES + 1), _BYTES)
