"""`ctl`: loads and unloads tools for an agent. Nothing is answered."""

from ninep.files import Command
from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.sight import own


async def _load(toolsrv: Toolsrv, peer: Peer, argument: str) -> str:
    agent, tool = argument.split()
    toolsrv.registry.load(own(peer, agent), tool)
    return ""


async def _unload(toolsrv: Toolsrv, peer: Peer, argument: str) -> str:
    agent, tool = argument.split()
    toolsrv.registry.unload(own(peer, agent), tool)
    return ""


async def _invalidate(toolsrv: Toolsrv, _peer: Peer, _argument: str) -> str:
    toolsrv.registry.invalidate()
    return ""


COMMANDS: tuple[Command[Toolsrv], ...] = (
    Command("load", "AGENT TOOL", "give an agent a tool", _load),
    Command("unload", "AGENT TOOL", "take a tool from an agent", _unload),
    Command("invalidate", "", "read every tool from disk again", _invalidate),
)
