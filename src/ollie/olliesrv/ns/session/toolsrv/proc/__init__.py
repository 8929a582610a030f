"""`session/{session}/toolsrv/proc/`: what runs in the tool server, and what has run in the background."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Control, Each, Request
from ninep.tree import Entry
from ollie.olliesrv.ns.session.agent.proc import RUN
from ollie.olliesrv.ns.session.toolsrv import files
from ollie.olliesrv.ns.session.toolsrv.proc import new, new_bg
from ollie.olliesrv.sessions import runs
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.toolserver.relay import Relay

ENTRIES: Final[Sequence[Entry[Session]]] = (
    Control(
        "list",
        0o660,
        "A line for each run; with an agent's name or id written first, that agent's.",
        command=files.ask_of_agent("proc/list"),
        text=files.read("proc/list"),
    ),
    Request("new", 0o660, "Runs a tool: a payload is written, its ToolResult is read; clunk cancels.", run=new.run),
    Request("new.bg", 0o660, "Starts a tool: a payload is written, its pid is read.", run=new_bg.run, bare=new_bg.bare),
    Relay(
        "done", 0o400, "Background runs that have ended, until olliesrv has told it.", of=files.counterpart("proc/done")
    ),
    Control("whose", 0o600, "The run that a process of that host belongs to.", command=files.ask("proc/whose")),
    Each(
        "{pid}",
        "One run.",
        find=lambda session, peer, name: runs.find(session, files.aname(peer), name),
        names=lambda session, peer: runs.names(session, files.aname(peer)),
        entries=RUN,
    ),
)
