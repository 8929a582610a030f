"""`ctl`: loads and unloads tools for an agent.

load AGENT TOOL
unload AGENT TOOL
invalidate
"""

from ninep.errors import NinepError
from ninep.tree import Peer
from ollie.toolsrv.server import Toolsrv, own


async def command(toolsrv: Toolsrv, peer: Peer, text: str) -> str:
    """Run one command; nothing is answered.

    Raises:
        NinepError: `no such tool: NAME`, `broken tool: …`, `tool not loaded: NAME`, `permission denied`, or
            `not a command: …`.
    """
    match text.split():
        case ["load", agent, tool]:
            toolsrv.registry.load(own(peer, agent), tool)
        case ["unload", agent, tool]:
            toolsrv.registry.unload(own(peer, agent), tool)
        case ["invalidate"]:
            toolsrv.registry.invalidate()
        case _:
            raise NinepError(f"not a command: {text} (load AGENT TOOL, unload AGENT TOOL, invalidate)")
    return ""
