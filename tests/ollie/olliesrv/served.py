"""What the files of an object answer, asked by their tables without a connection."""

from typing import Any

from ninep.files import Control, Text
from ninep.tree import Entry, Role
from ollie.olliesrv import ns
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.ns.session import SESSION
from ollie.olliesrv.ns.session.agent import AGENT
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session

_TABLES = {Ollie: ns.ENTRIES, Session: SESSION, Agent: AGENT}


async def command(obj: Any, text: str, *, by: Agent | None = None) -> str:
    """What the `ctl` of an object answers to a command."""
    entry = _entry(obj, "ctl")
    assert isinstance(entry, Control)
    return await entry.run(obj, _peer(by), text)


async def content(obj: Any, name: str, *, by: Agent | None = None) -> str:
    """What a file of an object holds."""
    entry = _entry(obj, name)
    assert isinstance(entry, Control | Text)
    made = entry.own_text(obj, _peer(by)) if isinstance(entry, Control) else entry.render(obj, _peer(by))
    return (made if isinstance(made, bytes) else await made).decode()


async def lines(obj: Any, name: str) -> dict[str, str]:
    """The values of a file of `key=value` lines, as they stand there."""
    return dict(line.split("=", 1) for line in (await content(obj, name)).splitlines())


def _entry(obj: Any, name: str) -> Entry[Any]:
    return next(entry for entry in _TABLES[type(obj)] if entry.name == name)


def _peer(by: Agent | None) -> OlliePeer:
    return OlliePeer("", "", Role.USER if by is None else Role.GROUP, by)
