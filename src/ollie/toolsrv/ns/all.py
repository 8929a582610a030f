"""`all`: every tool of this host, a broken one with its error.

A JSON array of `{name, description, input_schema, effect}` or `{name, error}`, sorted by name, and a newline.
"""

from ninep.tree import Peer
from ollie.protocol.discovery import Broken
from ollie.toolsrv.json_line import json_line
from ollie.toolsrv.server import Toolsrv


def render(toolsrv: Toolsrv, _peer: Peer) -> bytes:
    """The array."""
    return json_line(
        [
            {"name": tool.name, "error": tool.error} if isinstance(tool, Broken) else tool.public()
            for tool in toolsrv.registry.offered()
        ]
    )
