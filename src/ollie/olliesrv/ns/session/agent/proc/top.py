"""`session/{session}/agent/{agent}/proc/top`: a table of the agent's processes, for people."""

from ollie.olliesrv import processes
from ollie.olliesrv.agents import Agent
from ollie.olliesrv.peer import OlliePeer


async def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """A line with headings, and one for each process: its number, its tool, its command."""
    return (await processes.top_text(agent)).encode()
