"""`session/{session}/toolsrv/ctl`: loads and unloads tools, as the agents' own `ctl` does. The owner's alone.

An agent is given by name or id, of this session. Nothing is answered.
"""

from collections.abc import Sequence
from typing import Final

from ninep.files import Command, done
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions import requests
from ollie.olliesrv.sessions.session import Session


async def _load(session: Session, peer: OlliePeer, argument: str) -> str:
    name, tool = argument.split()
    return await done(requests.named(session, name).load_tool(tool, by=peer.agent))


async def _unload(session: Session, peer: OlliePeer, argument: str) -> str:
    name, tool = argument.split()
    return await done(requests.named(session, name).unload_tool(tool, by=peer.agent))


COMMANDS: Final[Sequence[Command[Session]]] = (
    Command("load", "AGENT TOOL", "give an agent a tool, for good", _load),
    Command("unload", "AGENT TOOL", "take a tool from an agent, for good", _unload),
    Command(
        "invalidate",
        "",
        "read every tool from disk again",
        lambda session, peer, _: done(session.invalidate(by=peer.agent)),
    ),
)
