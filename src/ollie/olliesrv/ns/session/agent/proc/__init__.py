"""`session/{session}/agent/{agent}/proc/`: what runs of an agent, and what has run in the background."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Control, Each, Text, done
from ninep.tree import Entry
from ollie.olliesrv.ns.session.agent.proc import top
from ollie.olliesrv.sessions import runs
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.runs import Run
from ollie.olliesrv.toolserver.relay import RelayLevel, RelayLog

# The files of one run; also of `session/{session}/toolsrv/proc/{pid}/`.
RUN: Final[Sequence[Entry[Run]]] = (
    RelayLog(
        "out",
        0o440,
        "Its output as it comes.",
        of=lambda run, _peer: run.file("out"),
        size=lambda run: run.output_bytes,
    ),
    RelayLevel("wait", 0o440, "Its exit code, as soon as it has exited.", of=lambda run, _peer: run.file("wait")),
    Text("stat", 0o440, "Its state, key=value.", render=lambda run, _peer: run.stat()),
    Control(
        "ctl",
        0o220,
        "Ends or dismisses it: term, kill, signal N, dismiss.",
        command=lambda run, _peer, text: done(run.control(text)),
    ),
)

ENTRIES: Final[Sequence[Entry[Agent]]] = (
    Text("top", 0o440, "Processes for people: pid, tool, command.", render=top.render),
    Each(
        "{pid}",
        "One process.",
        find=lambda agent, _peer, name: runs.find(agent.session, agent.id, name),
        names=lambda agent, _peer: runs.names(agent.session, agent.id),
        entries=RUN,
    ),
)
