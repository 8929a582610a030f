"""`session/{session}/agent/{agent}/proc/top`: a table of the agent's processes, for people."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import processes
from ollie.olliesrv.sessions.agent import Agent


async def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """A line with headings, and one for each process: its number, its tool, its command."""
    return (await processes.top_text(agent)).encode()
