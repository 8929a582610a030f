"""`ctl`: loads and unloads tools for an agent, and ends what is its. Nothing is answered."""

from ninep.files import Command
from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.sight import permitted


def _load(toolsrv: Toolsrv, peer: Peer, argument: str) -> str:
    agent, tool = argument.split()
    toolsrv.registry.load(permitted(peer, agent), tool)
    return ""


def _unload(toolsrv: Toolsrv, peer: Peer, argument: str) -> str:
    agent, tool = argument.split()
    toolsrv.registry.unload(permitted(peer, agent), tool)
    return ""


async def _end(toolsrv: Toolsrv, peer: Peer, argument: str) -> str:
    await toolsrv.end(permitted(peer, argument))
    return ""


def _invalidate(toolsrv: Toolsrv, _peer: Peer, _argument: str) -> str:
    toolsrv.registry.invalidate()
    return ""


COMMANDS: tuple[Command[Toolsrv], ...] = (
    Command("load", "AGENT TOOL", "give an agent a tool", _load),
    Command("unload", "AGENT TOOL", "take a tool from an agent", _unload),
    Command("end", "AGENT", "end all that an agent runs, and forget it; answered when nothing of it is alive", _end),
    Command("invalidate", "", "read every tool from disk again", _invalidate),
)
