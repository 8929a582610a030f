"""`session/{session}/agent/`: the agents of a session, and the files of each."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Control, Level, Log, Queue, Request, Sink, StoredText, Text, Watch
from ninep.tree import Dir, Each, Entry
from ollie.olliesrv.ns.session import name
from ollie.olliesrv.ns.session.agent import cfg, ctl, idx, log, new, proc, stats, wait
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session

# The files of one agent: `session/{session}/agent/{agent}/`.
AGENT: Final[Sequence[Entry[Agent]]] = (
    Sink(
        "prompt",
        0o220,
        "Queue a turn: what is written is the prompt.",
        take=lambda agent, peer, data: agent.prompt(data, by=peer.agent),
        check=lambda agent, peer, _data, size: agent.check_prompt(size, by=peer.agent),
    ),
    Queue(
        "fifo",
        0o660,
        "The prompts that wait: a read takes the next one out, a write adds one.",
        put=lambda agent, peer, data: agent.prompt(data, by=peer.agent),
        head=lambda agent, peer: agent.next_prompt(by=peer.agent),
        check=lambda agent, peer, _data, size: agent.check_prompt(size, by=peer.agent),
    ),
    Level(
        "wait",
        0o440,
        "The state, as soon as no turn runs or may run.",
        wait=wait.wait,
    ),
    Log("chat", 0o440, "The conversation as text; ends when no turn runs.", log=lambda agent: agent.chat),
    Log(
        "chat.raw", 0o440, "The conversation with everything in it, in marked blocks.", log=lambda agent: agent.chat_raw
    ),
    Watch(
        "statewait",
        0o440,
        "The next change of state: idle, running or paused; after a turn the state it left.",
        watch=lambda agent, peer: agent.watch_state(peer.reader),
    ),
    Text("log", 0o440, "The last 64 KiB of chat.raw.", render=log.render),
    StoredText("plan", 0o660, "Notes of the agent that survive compaction.", buffer=lambda agent: agent.plan),
    Control(
        "cfg",
        0o640,
        "Settings, key=value; a write changes one or more of them, all or nothing.",
        command=cfg.change,
        text=cfg.render,
    ),
    Control(
        "ctl",
        0o660,
        "Commands to the agent: write one, read its answer.",
        commands=ctl.COMMANDS,
    ),
    Text(
        "stats",
        0o440,
        "Tokens, cost, context and what it is doing, key=value.",
        render=stats.render,
    ),
    Control(
        "name",
        0o640,
        "Its name in the path; a write renames it.",
        command=name.rename,
        text=name.render,
    ),
    Text("id", 0o440, "Its id, which never changes.", render=lambda agent, _peer: f"{agent.id}\n".encode()),
    Dir("proc", "What it runs, and what has run in the background.", proc.ENTRIES),
)

# `session/{session}/agent/`.
ENTRIES: Final[Sequence[Entry[Session]]] = (
    Request(
        "new",
        0o660,
        "Make an agent; with prompt= a sub-agent, whose reply is read; with keep=no it goes with the reader.",
        run=new.run,
        bare=new.bare,
    ),
    Text(
        "idx",
        0o440,
        "Agents: id, name, state, profile, backend, model, cwd.",
        render=idx.render,
    ),
    Each(
        "{agent}",
        "One agent.",
        find=lambda session, _peer, name: session.find_agent(name),
        names=lambda session, _peer: [(agent.name, agent) for agent in session.agents()],
        entries=AGENT,
        remove=lambda _session, peer, agent: agent.kill(by=peer.agent),
        rename=lambda _session, peer, agent, name: agent.rename(name, by=peer.agent),
    ),
)
