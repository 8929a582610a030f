"""What the files of an object answer, asked by their tables without a connection."""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from ninep.files import Control, Text
from ninep.tree import Dir, Entry, Role
from ollie.olliesrv import ns
from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.ns.session import SESSION
from ollie.olliesrv.ns.session.agent import AGENT
from ollie.olliesrv.server import Ollie
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session

_TABLES = {Ollie: ns.ENTRIES, Session: SESSION, Agent: AGENT}


async def write(obj: Any, name: str, text: str, *, by: Agent | None = None) -> str:
    """What a control file of an object answers."""
    entry = _entry(obj, name)
    assert isinstance(entry, Control)
    answer = entry.run(obj, _peer(by), text)
    return answer if isinstance(answer, str) else await answer


async def command(obj: Any, text: str, *, by: Agent | None = None) -> str:
    """What its `ctl` answers."""
    return await write(obj, "ctl", text, by=by)


async def content(obj: Any, name: str, *, by: Agent | None = None) -> str:
    """What a file of an object holds."""
    made = _made(obj, name, by)
    return (made if isinstance(made, bytes) else await made).decode()


def values(obj: Any, name: str) -> dict[str, str]:
    """The values of a file of `key=value` lines, as they stand there."""
    made = _made(obj, name, None)
    assert isinstance(made, bytes)
    return dict(line.split("=", 1) for line in made.decode().splitlines())


async def written(fifo: Path) -> str:
    """What a tool writes into a pipe, when it has."""
    there = asyncio.Event()
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    asyncio.get_running_loop().add_reader(fd, there.set)
    try:
        await there.wait()
        return os.read(fd, 100).decode()
    finally:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)


def _made(obj: Any, name: str, by: Agent | None) -> bytes | Awaitable[bytes]:
    entry = _entry(obj, name)
    assert isinstance(entry, Control | Text)
    return entry.own_text(obj, _peer(by)) if isinstance(entry, Control) else entry.render(obj, _peer(by))


def _entry(obj: Any, path: str) -> Entry[Any]:
    entries: Sequence[Entry[Any]] = _TABLES[type(obj)]
    *directories, name = path.split("/")
    for directory in directories:
        entries = next(entry.entries for entry in entries if isinstance(entry, Dir) and entry.name == directory)
    return next(entry for entry in entries if entry.name == name)


def _peer(by: Agent | None) -> OlliePeer:
    return OlliePeer("", "", Role.USER if by is None else Role.GROUP, by)
