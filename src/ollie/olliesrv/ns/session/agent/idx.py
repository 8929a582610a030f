"""`session/{session}/agent/idx`: a line for each agent."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session


def render(session: Session, _peer: OlliePeer) -> bytes:
    """`id<tab>name<tab>state<tab>profile<tab>backend<tab>model<tab>cwd` lines."""
    return "".join("\t".join(_line(agent)) + "\n" for agent in session.agents()).encode()


def _line(agent: Agent) -> tuple[str, ...]:
    outfit = agent.outfit
    return agent.id, agent.name, agent.state, agent.row.profile, outfit.backend_name, outfit.model, agent.cwd
