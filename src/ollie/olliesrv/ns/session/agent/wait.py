"""`session/{session}/agent/{agent}/wait`: the state, as soon as no turn runs or may run."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions.agent import Agent


async def wait(agent: Agent, _peer: OlliePeer) -> bytes:
    """The state and a newline."""
    return f"{await agent.wait_state()}\n".encode()
