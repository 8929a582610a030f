"""`session/{session}/toolsrv/`: the tree of the session's tool server, passed through; empty where none runs.

An agent sees its own tools and runs there, and nothing of what is asked of the owner. Looking never starts a tool
server.
"""

from collections.abc import Sequence
from typing import Final

from ninep.files import Control, Dir, Sink, Text
from ninep.tree import Entry
from ollie.olliesrv.ns.session.toolsrv import ctl, files, proc
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.toolserver.relay import Relay

_BYPASS: Final[Sequence[Entry[Session]]] = (
    Relay("pending", 0o400, "Requests to run without the sandbox.", of=files.counterpart("bypass/pending")),
    Text("list", 0o400, "The same, all that are open, without waiting.", render=files.read("bypass/list")),
    Sink("resolve", 0o200, "Answers one, as JSON.", take=files.write("bypass/resolve")),
)

ENTRIES: Final[Sequence[Entry[Session]]] = (
    Control(
        "ctl",
        0o200,
        "Loads and unloads tools: load AGENT TOOL, unload AGENT TOOL, invalidate.",
        commands=ctl.COMMANDS,
    ),
    Control(
        "tools",
        0o660,
        "The loaded tools of the agent whose name or id is written, as JSON.",
        command=files.ask_of_agent("tools"),
        text=files.read("tools"),
    ),
    Control(
        "tools_rev",
        0o660,
        "The revision of that list.",
        command=files.ask_of_agent("tools_rev"),
        text=files.read("tools_rev"),
    ),
    Text("all", 0o440, "Every tool of that host, as JSON.", render=files.read("all")),
    Text("info", 0o440, "That host, and what its kernel can enforce.", render=files.read("info")),
    Relay("events", 0o440, "What starts, ends and is asked, what is so now first.", of=files.counterpart("events")),
    Dir("bypass", "What asks to run without the sandbox.", _BYPASS),
    Dir("proc", "What runs.", proc.ENTRIES),
)
