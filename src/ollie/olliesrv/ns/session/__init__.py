"""`session/`: the sessions, and the files of each."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ninep.files import Control, Request, Text
from ninep.tree import Dir, Each, Entry
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.ns.session import agent, ctl, idx, name, new, toolsrv
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions.session import Session
from ollie.protocol import payload


def _names(ollie: Ollie, peer: OlliePeer) -> Iterable[tuple[str, Any]]:
    """The stored row of each session, which is enough to list it."""
    return [(row.name, row) for row in ollie.sessions.visible(peer.agent)]


# The files of one session: `session/{session}/`.
SESSION: Final[Sequence[Entry[Session]]] = (
    Text(
        "env",
        0o440,
        "Its environment, NAME=value.",
        render=lambda session, _peer: payload.format(session.environment()),
    ),
    Text("paused", 0o440, "true or false.", render=lambda session, _peer: f"{session.paused}\n".lower().encode()),
    Control(
        "ctl",
        0o640,
        "Commands to the session: write one, read its answer.",
        commands=ctl.COMMANDS,
    ),
    Control(
        "name",
        0o640,
        "Its name in the path; a write renames it.",
        command=name.rename,
        text=name.render,
    ),
    Text("id", 0o440, "Its id, which never changes.", render=lambda session, _peer: f"{session.id}\n".encode()),
    Dir(
        "toolsrv",
        "Its tool server's own tree; empty where none runs.",
        toolsrv.ENTRIES,
        filled=lambda session, _peer: session.toolsrv.process is not None,
    ),
    Dir("agent", "The agents of the session.", agent.ENTRIES),
)

# `session/`.
ENTRIES: Final[Sequence[Entry[Ollie]]] = (
    Request("new", 0o660, "Make a session; a read gives its name.", run=new.run, bare=new.bare),
    Text("idx", 0o440, "Sessions: id, name, agents, paused, remote, cwd.", render=idx.render),
    Each(
        "{session}",
        "One session.",
        find=lambda ollie, peer, name: ollie.sessions.find(name, by=peer.agent),
        names=_names,
        entries=SESSION,
        remove=lambda _ollie, peer, session: session.kill(by=peer.agent),
        rename=lambda _ollie, peer, session, name: session.rename(name, by=peer.agent),
    ),
)
