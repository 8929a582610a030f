"""`session/{session}/ctl`: the commands to a session. The owner's alone."""

from collections.abc import Sequence
from typing import Final

from ninep.files import Command, done
from ollie.olliesrv.sessions.session import Session

COMMANDS: Final[Sequence[Command[Session]]] = (
    Command(
        "kill",
        "",
        "remove the session with its agents",
        lambda session, peer, _: done(session.kill(by=peer.agent), "killed"),
    ),
    Command(
        "save",
        "",
        "answer when everything so far is on disk",
        lambda session, peer, _: done(session.save(by=peer.agent), "saved"),
    ),
    Command(
        "invalidate",
        "",
        "have tools read again",
        lambda session, peer, _: done(session.invalidate(by=peer.agent), "invalidated"),
    ),
    Command(
        "pause",
        "",
        "let running turns end and hold the queues",
        lambda session, peer, _: done(session.pause(paused=True, by=peer.agent), "paused"),
    ),
    Command(
        "resume",
        "",
        "let the queues go on",
        lambda session, peer, _: done(session.pause(paused=False, by=peer.agent), "resumed"),
    ),
)
