"""The sessions of a server: a row each, and an object for those that somebody uses.

A session becomes an object when somebody walks to it, and there is one object of it at a time, as whoever holds one
sees it change. It is held by everything that uses it: an open fid, a turn, a waiting reader, a tool server that lives.
Besides, those that were used last are kept. When nothing holds it any more, the store lets go of what belongs to it.
"""

import asyncio
import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable

from ollie.olliesrv.errors import RefusedError, denied
from ollie.olliesrv.sessions import ids
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.session import Session
from ollie.olliesrv.settings.directories import working_directory
from ollie.olliesrv.settings.services import Services
from ollie.store.rows import Seq, SessionRow, StoreError

_log = logging.getLogger(__name__)


class Sessions:
    """The sessions of a server.

    Args:
        services: what the server has.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store
        self._rows: dict[str, SessionRow] = {}
        self._names: dict[str, str] = {}
        self._live: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, Session] = OrderedDict()
        self._opening: dict[str, asyncio.Task[Session]] = {}

    async def load(self) -> None:
        """Learn which sessions there are; once, before anything else."""
        for row in await self._store.sessions():
            self._rows[row.id] = row
            self._names[row.name] = row.id

    # Finding them.

    def visible(self, by: Agent | None) -> list[SessionRow]:
        """The sessions that `by` sees, in order of creation: an agent its own alone."""
        return list(self._rows.values()) if by is None else [by.session.row]

    async def find(self, key: str, *, by: Agent | None) -> Session | None:
        """The session of a name or an id, of those that `by` sees.

        Raises:
            StoreError: it cannot be read.
        """
        if by is not None:
            return by.session if key in {by.session.name, by.session.id} else None
        row = self._rows.get(self._names.get(key, key))
        if row is None:
            return None
        session = self._live.get(row.id)
        if session is None:
            session = await asyncio.shield(self._opening.get(row.id) or self._open(row.id))
        self._used(session)
        return session

    def ids(self) -> Iterable[str]:
        """The ids of all sessions, in order of creation."""
        return list(self._rows)

    def live(self) -> list[Session]:
        """The sessions that are in memory, in order of creation."""
        return sorted(self._live.values(), key=lambda session: session.number)

    def agent(self, agent_id: str) -> Agent | None:
        """The agent of an id, in whatever session that is in memory."""
        found = (session.find_agent(agent_id) for session in self.live())
        return next((agent for agent in found if agent is not None and agent.id == agent_id), None)

    async def unfinished(self) -> list[Session]:
        """The sessions in which something was cut, which is closed now, or waits; none that cannot be read."""
        sessions = []
        for session_id in await self._store.unfinished():
            try:
                session = await self.find(session_id, by=None)
            except StoreError as error:
                _log.error("session %s: %s", self._rows[session_id].name, error)
            else:
                assert session is not None
                sessions.append(session)
        return sessions

    # Changing them.

    async def create(self, *, name: str = "", remote: str = "", cwd: str = "", by: Agent | None) -> Session:
        """Make a session; it is stored when this returns. The owner's alone.

        Raises:
            RefusedError: `name missing`, `session exists: …`, a bad name or directory.
        """
        if by is not None:
            raise denied()
        if remote:
            raise RefusedError(f"remote sessions are not built yet: {remote}")
        if not name:
            raise RefusedError("name missing: name=X [cwd=Z]")
        self.check_free(name)
        directory = working_directory(cwd, self._services.private) if cwd else ""
        row = SessionRow(
            id=ids.new_id(), number=self._store.next_number(), name=name, cwd=directory, created_at=time.time()
        )
        seq = self.put(row)
        session = Session(row, (), self, self._services)
        self._add(session)
        self._used(session)
        session.tell("session", "", {"state": "created"})
        await self._store.stored(seq)
        return session

    def put(self, row: SessionRow) -> Seq:
        """Note what is new of a session."""
        old = self._rows.get(row.id)
        if old is not None:
            del self._names[old.name]
        self._rows[row.id] = row
        self._names[row.name] = row.id
        return self._store.put_session(row)

    def check_free(self, name: str) -> None:
        """Raise `session exists: …` when a name is taken, and when it is no name."""
        if ids.check_name(name) in self._names:
            raise RefusedError(f"session exists: {name}")

    def forget(self, session: Session) -> None:
        """A session was killed."""
        session.tell("session", "", {"state": "killed"})
        del self._names[self._rows.pop(session.id).name]
        del self._live[session.id]
        self._recent.pop(session.id, None)

    async def members(self) -> dict[str, list[tuple[str, str]]]:
        """Id and name of the agents of every session, by its id."""
        members: dict[str, list[tuple[str, str]]] = {}
        for member in await self._store.members():
            members.setdefault(member.session, []).append((member.id, member.name))
        return members | {session.id: [(agent.id, agent.name) for agent in session.agents()] for session in self.live()}

    # In memory.

    def _open(self, session_id: str) -> asyncio.Task[Session]:
        task = asyncio.get_running_loop().create_task(self._opened(session_id))
        self._opening[session_id] = task
        task.add_done_callback(lambda _: self._opening.pop(session_id))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait for it any more
        return task

    async def _opened(self, session_id: str) -> Session:
        try:
            agents = await self._store.open_session(session_id)
            session = Session(self._rows[session_id], agents, self, self._services)
            await session.recover()
        except BaseException:
            self._store.release_session(session_id)
            raise
        self._add(session)
        return session

    def _add(self, session: Session) -> None:
        self._live[session.id] = session
        loop = asyncio.get_running_loop()
        weakref.finalize(session, _call_soon, loop, self._collected, session.id).atexit = False

    def _collected(self, session_id: str) -> None:
        """An object is gone; another of the same session may have been made since."""
        if session_id not in self._live and session_id not in self._opening:
            self._store.release_session(session_id)

    def _used(self, session: Session) -> None:
        """Keep it for a while; not that which was used longest ago."""
        self._recent[session.id] = session
        self._recent.move_to_end(session.id)
        while len(self._recent) > self._services.config.open_sessions:
            self._recent.popitem(last=False)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[str], None], session_id: str) -> None:
    """Call something in the loop; objects are collected in whatever thread runs then."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, session_id)
