"""The tree of a tool server. `ROOT` is its table; the module of a served file is its served path."""

from ninep.files import Control, Dir, Entry, Text, Watch
from ollie.toolsrv.ns import all, bypass, ctl, info, proc, tools, tools_rev  # noqa: A004  named for the served files
from ollie.toolsrv.server import Toolsrv

ROOT: tuple[Entry[Toolsrv], ...] = (
    Control(
        "ctl",
        0o220,
        "Loads and unloads tools: load AGENT TOOL, unload AGENT TOOL, end AGENT, invalidate.",
        commands=ctl.COMMANDS,
    ),
    Control("tools", 0o660, "The loaded tools of the agent whose id is written, as JSON.", tools.command, tools.text),
    Control("tools_rev", 0o660, "The revision of that list.", tools_rev.command, tools_rev.text),
    Text("all", 0o440, "Every tool of this host, as JSON.", all.render),
    Text("info", 0o440, "The host, and what its kernel can enforce.", info.render),
    Watch(
        "events",
        0o440,
        "What starts, ends and is asked, what is so now first; a JSON object a read.",
        lambda toolsrv, peer: toolsrv.events.watch(toolsrv.now(peer), peer),
    ),
    Dir("bypass", "What asks to run without the sandbox.", bypass.ENTRIES),
    Dir("proc", "What runs.", proc.ENTRIES),
)
