"""`session/{session}/agent/new`: write a record, and an agent is made.

Written and then read, the read gives the agent's id, or with `prompt=` the reply of the sub-agent, which is interrupted
when the reader goes away. Written without a read, the agent is made at commit or clunk, and its turn runs
detached.
"""

from collections.abc import AsyncIterator

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.pairs import parse_record
from ollie.olliesrv.sessions import subagents
from ollie.olliesrv.sessions.session import Session

_KEYS = ("name", "cwd", "agent", "model", "backend", "keep", "prompt")


def run(session: Session, peer: OlliePeer, data: bytes) -> AsyncIterator[bytes]:
    """The answer to a record, in pieces."""
    return subagents.request(session, parse_record(data, _KEYS), by=peer.agent)


async def bare(session: Session, peer: OlliePeer, data: bytes) -> None:
    """Obey a record that nobody reads the answer to."""
    await subagents.start(session, parse_record(data, _KEYS), by=peer.agent)
