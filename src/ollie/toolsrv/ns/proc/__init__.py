"""`proc/`: what runs, and what has run in the background."""

from collections.abc import Iterable

from ninep.files import Control, Each, Entry, Level, Log, Request, Text, Watch
from ninep.tree import Peer
from ollie.toolsrv.ns.proc import ctl, done, list, new, new_bg, stat, wait, whose  # noqa: A004  named for the served files
from ollie.toolsrv.output import OutputReader
from ollie.toolsrv.runs import Run
from ollie.toolsrv.server import Toolsrv
from ollie.toolsrv.sight import sees

RUN: tuple[Entry[Run], ...] = (
    Log("out", 0o440, "Its output as it comes.", lambda run: OutputReader(run.output)),
    Level("wait", 0o440, "Its exit code, as soon as it has exited.", wait.wait),
    Text("stat", 0o440, "Its state, as key=value lines.", stat.render),
    Control("ctl", 0o220, "Ends or dismisses it: term, kill, signal N, dismiss.", commands=ctl.COMMANDS),
)


def _find(toolsrv: Toolsrv, peer: Peer, name: str) -> Run | None:
    """A run that the peer sees, by its number as it is listed."""
    run = toolsrv.runs.find(int(name)) if name.isascii() and name.isdigit() else None
    return run if run and str(run.number) == name and sees(peer, run.task.agent) else None


def _names(toolsrv: Toolsrv, peer: Peer) -> Iterable[tuple[str, Run]]:
    """The runs that the peer sees."""
    return [(str(run.number), run) for run in toolsrv.visible(peer)]


ENTRIES: tuple[Entry[Toolsrv], ...] = (
    Control(
        "list", 0o660, "A line for each run; with an agent id written first, that agent's.", list.command, list.text
    ),
    Request("new", 0o660, "Runs a tool: a payload is written, its ToolResult is read; clunk cancels.", new.run),
    Request("new.bg", 0o660, "Starts a tool: a payload is written, its pid is read.", new_bg.run, new_bg.bare),
    Watch(
        "done",
        0o660,
        "Background runs that have ended, a JSON object a read; a write of the pid acknowledges.",
        done.watch,
        done.acknowledge,
    ),
    Control("whose", 0o660, "The run that a process of the host belongs to.", whose.command),
    Each("{pid}", "One run.", _find, _names, RUN),
)
