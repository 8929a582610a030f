"""`tools`: the tools of this host."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.server import Ollie
from ollie.protocol.discovery import Broken


async def render(ollie: Ollie, _peer: OlliePeer) -> bytes:
    """A line for each: its name, blanks, what it does, or that it is broken."""
    tools = await ollie.tools()
    width = max((len(tool.name) for tool in tools), default=0)
    abouts = (
        f"(broken: {tool.error})" if isinstance(tool, Broken) else tool.description.strip().partition("\n")[0]
        for tool in tools
    )
    return "".join(f"{tool.name:<{width}}  {about}\n" for tool, about in zip(tools, abouts, strict=True)).encode()
