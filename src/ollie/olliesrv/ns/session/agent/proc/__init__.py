"""`session/{session}/agent/{agent}/proc/`: what runs of an agent, and what has run in the background."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Control, Each, Text, done
from ninep.tree import Entry
from ollie.olliesrv.ns.session.agent.proc import top
from ollie.olliesrv.sessions import processes
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.processes import Process
from ollie.olliesrv.toolserver.relay import RelayLevel, RelayLog

# The files of one run; also of `session/{session}/toolsrv/proc/{pid}/`.
PROCESS: Final[Sequence[Entry[Process]]] = (
    RelayLog(
        "out",
        0o440,
        "Its output as it comes.",
        of=lambda process, _peer: process.file("out"),
        size=lambda process: process.output_bytes,
    ),
    RelayLevel(
        "wait", 0o440, "Its exit code, as soon as it has exited.", of=lambda process, _peer: process.file("wait")
    ),
    Text("stat", 0o440, "Its state, key=value.", render=lambda process, _peer: process.stat()),
    Control(
        "ctl",
        0o220,
        "Ends or dismisses it: term, kill, signal N, dismiss.",
        command=lambda process, _peer, text: done(process.control(text)),
    ),
)

ENTRIES: Final[Sequence[Entry[Agent]]] = (
    Text("top", 0o440, "Processes for people: pid, tool, command.", render=top.render),
    Each(
        "{pid}",
        "One process.",
        find=lambda agent, _peer, name: processes.find(agent.session, agent.id, name),
        names=lambda agent, _peer: processes.names(agent.session, agent.id),
        entries=PROCESS,
    ),
)
