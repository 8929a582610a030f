"""A store in one SQLite database, through SQLAlchemy Core.

Changes go to `writer.py`, which commits them in groups. What belongs to the agents of a session is read when the
session is opened, in one visit of the reading thread, and kept on a `Shelf` each until the session is released: a
session that nobody uses costs a row on the disk and nothing else. Nothing here waits for the disk in the event loop.

The database is in WAL mode with `synchronous=FULL`: a commit that was answered survives power loss, and readers never
wait for the writer. Reads are single statements, so that checkpoints always proceed.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, Executable

from ollie.store import statements as sql
from ollie.store.interface import AgentRow, LogName, Queued, Seq, SessionRow
from ollie.store.shelf import Shelf, Tail
from ollie.store.writer import Batch, Writer

_T = TypeVar("_T")


class SqliteStore:
    """A `Store` in a database.

    Args:
        engine: the database, made ready by `database.py`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._batch = Batch(sql.ORDER)
        self._shelves: dict[str, Shelf] = {}
        self._members: dict[str, list[str]] = {}  # agents of the open sessions
        self._grown: dict[Tail, tuple[int, LogName]] = {}  # since they were gathered last
        self._gathered: list[Tail] = []
        self._readers = ThreadPoolExecutor(2, "store-reader")
        self._writer = Writer(engine, self._gather, self._written)
        with engine.connect() as connection:
            self._number = sql.last_number(connection, "object")
            self._entry = sql.last_entry(connection)

    def next_number(self) -> int:
        """A number for a new object."""
        self._number += 1
        self._change(sql.COUNT, name="object", value=self._number)
        return self._number

    async def stored(self, seq: Seq) -> None:
        """Return when everything up to this change is durable."""
        await self._writer.stored(seq)

    async def close(self) -> None:
        """Make everything durable and let go of the file."""
        try:
            await self._writer.close()
        finally:
            self._readers.shutdown()
            self._engine.dispose()

    # Sessions and agents.

    async def sessions(self) -> list[SessionRow]:
        """Every session, in order of creation."""
        return await self._read(sql.sessions)

    async def unfinished(self) -> list[str]:
        """The sessions in which something was cut or waits."""
        return await self._read(sql.unfinished)

    async def open_session(self, session: str) -> list[AgentRow]:
        """Bring what belongs to a session's agents into memory."""
        found = await self._read(lambda connection: sql.agents(connection, session))
        self._members[session] = [row.id for row, _ in found]
        self._shelves.update((row.id, shelf) for row, shelf in found)
        return [row for row, _ in found]

    async def release_session(self, session: str) -> None:
        """Let go of what belongs to a session's agents."""
        await self.stored(self._writer.changed)
        for agent in self._members.pop(session, ()):
            del self._shelves[agent]

    def put_session(self, row: SessionRow) -> Seq:
        """Create or replace a session."""
        self._members.setdefault(row.id, [])
        return self._change(sql.PUT_SESSION, **msgspec.structs.asdict(row))

    def drop_session(self, session: str) -> Seq:
        """Forget a session with all its agents."""
        for agent in list(self._members.pop(session, ())):
            self._forget(agent)
        return self._change(sql.DROP_SESSION, of=session)

    def put_agent(self, row: AgentRow) -> Seq:
        """Create or replace an agent."""
        if row.id not in self._shelves:
            self._shelves[row.id] = Shelf(row.number)
            self._members[row.session].append(row.id)
        values = msgspec.structs.asdict(row) | {"settings": msgspec.json.encode(row.settings)}
        return self._change(sql.PUT_AGENT, **values, busy=False, plan=b"", stats=b"")

    def drop_agent(self, agent: str) -> Seq:
        """Forget an agent and what belongs to it."""
        for members in self._members.values():
            if agent in members:
                members.remove(agent)
        return self._change(sql.DROP_AGENT, of=self._forget(agent))

    # What belongs to an agent.

    def append_records(self, agent: str, records: Sequence[bytes]) -> Seq:
        """Add to an agent's history."""
        shelf = self._shelves[agent]
        for data in records:
            self._change(sql.PUT_RECORD, agent=shelf.number, position=shelf.position, data=data)
            shelf.position += 1
        return self._writer.changed

    def clear_records(self, agent: str) -> Seq:
        """Forget an agent's history."""
        shelf = self._shelves[agent]
        return self._change(sql.CLEAR_RECORDS, of=shelf.number, before=shelf.position)

    async def records(self, agent: str) -> list[bytes]:
        """An agent's history, oldest first."""
        number = self._shelves[agent].number
        return await self._read(lambda connection: sql.records(connection, number))

    def append_log(self, agent: str, log: LogName, data: bytes) -> Seq:
        """Add bytes to the end of a conversation file."""
        shelf = self._shelves[agent]
        shelf.tails[log].append(data)
        self._grown[shelf.tails[log]] = (shelf.number, log)
        return self._writer.note()

    def log_length(self, agent: str, log: LogName) -> int:
        """The bytes of a conversation file."""
        return self._shelves[agent].tails[log].length

    async def read_log(self, agent: str, log: LogName, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; empty at and after the end."""
        shelf = self._shelves[agent]
        recent = shelf.tails[log].read(offset, count)
        if recent is not None:
            return recent
        return await self._in_thread(lambda connection: sql.log_range(connection, shelf.number, log, offset, count))

    def enqueue(self, agent: str, text: str) -> Seq:
        """Add a prompt to the end of an agent's queue."""
        shelf = self._shelves[agent]
        self._entry += 1
        shelf.queue[self._entry] = text
        return self._change(sql.PUT_PROMPT, entry=self._entry, agent=shelf.number, text=text)

    def dequeue(self, agent: str, entry: int) -> Seq:
        """Take one prompt out of an agent's queue."""
        self._shelves[agent].queue.pop(entry, None)
        return self._change(sql.DROP_PROMPT, of=entry)

    def queue(self, agent: str) -> list[Queued]:
        """An agent's prompts that wait, oldest first."""
        return [Queued(entry, text) for entry, text in self._shelves[agent].queue.items()]

    def put_plan(self, agent: str, plan: bytes) -> Seq:
        """Replace an agent's plan."""
        shelf = self._shelves[agent]
        shelf.plan = plan
        return self._change(sql.SET_PLAN, of=shelf.number, value=plan)

    def plan(self, agent: str) -> bytes:
        """An agent's plan, empty when it has none."""
        return self._shelves[agent].plan

    def put_stats(self, agent: str, stats: bytes) -> Seq:
        """Replace an agent's counts."""
        shelf = self._shelves[agent]
        shelf.stats = stats
        return self._change(sql.SET_STATS, of=shelf.number, value=stats)

    def stats(self, agent: str) -> bytes:
        """An agent's counts, empty when there are none yet."""
        return self._shelves[agent].stats

    def set_busy(self, agent: str, *, busy: bool) -> Seq:
        """Note that a turn has begun, or that it has ended."""
        shelf = self._shelves[agent]
        shelf.busy = busy
        return self._change(sql.SET_BUSY, of=shelf.number, value=busy)

    def busy(self, agent: str) -> bool:
        """Whether a turn had begun and had not ended."""
        return self._shelves[agent].busy

    # Between memory and the disk.

    def _change(self, statement: Executable, **row: Any) -> Seq:
        self._batch.add(statement, row)
        return self._writer.note()

    def _forget(self, agent: str) -> int:
        """The number of an agent of which nothing is kept in memory any more."""
        shelf = self._shelves.pop(agent)
        for tail in shelf.tails.values():
            self._grown.pop(tail, None)
        return shelf.number

    def _gather(self) -> Batch:
        batch, self._batch = self._batch, Batch(sql.ORDER)
        for tail, (number, log) in self._grown.items():
            for offset, piece in tail.gather():
                batch.add(sql.PUT_CHUNK, {"agent": number, "log": log.value, "offset": offset, "data": piece})
        self._gathered.extend(self._grown)
        self._grown.clear()
        return batch

    def _written(self) -> None:
        for tail in self._gathered:
            tail.written()
        self._gathered = []

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        """Ask the database when everything so far is in it."""
        await self.stored(self._writer.changed)
        return await self._in_thread(query)

    async def _in_thread(self, query: Callable[[Connection], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._ask, query)

    def _ask(self, query: Callable[[Connection], _T]) -> _T:
        with self._engine.connect() as connection:
            return query(connection)
