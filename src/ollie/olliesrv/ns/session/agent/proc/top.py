"""`session/{session}/agent/{agent}/proc/top`: a table of the agent's processes, for people."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import runs
from ollie.olliesrv.sessions.agent import Agent


async def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """As `table`."""
    return (await table(agent)).encode()


async def table(agent: Agent) -> str:
    """A line with headings, and one for each process: its number, its tool, its command."""
    rows = [("PID", "TOOL", "CMD"), *await runs.commands(agent)]
    pids, tools = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = (f"{pid:<{pids}}  {tool:<{tools}}  {' '.join(command.split())}" for pid, tool, command in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)
