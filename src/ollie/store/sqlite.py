"""What must survive, in one SQLite database, through SQLAlchemy Core.

Changes go to `writer.py`, which commits them in groups. What belongs to the agents of a session is read when the
session is opened, in one visit of a reading thread, and kept on a `Shelf` each until the session is released: a
session that nobody uses costs a row on the disk and nothing else. Nothing here waits for the disk in the event loop.

The database is in WAL mode with `synchronous=FULL`: a commit that was answered survives power loss, and readers never
wait for the writer. Reads are single statements, so that checkpoints always proceed.

No read waits for a write: what is not durable yet is in memory, and a session is only forgotten there when all of it
is. So a disk that is full makes nothing unreadable.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.exc import SQLAlchemyError

from ollie.store import statements as sql
from ollie.store.database import open_database
from ollie.store.rows import AgentRow, LogName, Member, Queued, Seq, SessionRow, StoreError
from ollie.store.shelf import Records, Shelf, Tail
from ollie.store.writer import RETRY_S, Batch, Trouble, Writer

_T = TypeVar("_T")


class Store:
    """What must survive. Arguments named `agent` and `session` are ids.

    A change (`put_…`, `set_…`, `append_…`, `clear_…`, `drop_…`, `enqueue`, `dequeue`) returns at once with a sequence
    number and is seen by every read that follows. It is durable when `stored` of its number, or of any later one, has
    returned. Changes are stored in the order in which they were made, and those made without an `await` between them
    are stored together or not at all: so "take a prompt from the queue and write it into the history" needs no
    transaction of its own. A change that could not be stored is kept, and stored as soon as it can be.

    What belongs to an agent is in memory from `open_session` (or `put_agent`) to `release_session`. Only then it may be
    asked for or changed, and lookups are synchronous. What can be long, a history or a range of a chat, is
    asynchronous.

    Args:
        engine: the database, made ready by `database.py`.
        retry_s: the longest time after which what could not be stored is tried again; above 0.
    """

    def __init__(self, engine: Engine, retry_s: float = RETRY_S) -> None:
        self._engine = engine
        self._batch = Batch(sql.ORDER)
        self._shelves: dict[str, Shelf] = {}
        self._members: dict[str, list[str]] = {}  # the agents of the sessions that are open
        self._leaving: dict[str, Seq] = {}  # sessions that are released when this is durable
        self._grown: dict[Tail | Records, dict[str, Any]] = {}  # since they were gathered last: and whose they are
        self._gathered: list[Tail | Records] = []
        self._readers = ThreadPoolExecutor(2, "store-reader")
        self._writer = Writer(engine, self._gather, self._written, retry_s)
        with engine.connect() as connection:
            self._number = sql.last_number(connection, "object")
            self._entry = sql.last_entry(connection)

    @classmethod
    async def open(cls, path: str, retry_s: float = RETRY_S) -> "Store":
        """The store in a file, which is made or brought up to date if need be.

        Raises:
            StoreError: it cannot be opened, is damaged, or is of a later version.
        """
        return await asyncio.to_thread(lambda: cls(open_database(path), retry_s))

    def next_number(self) -> int:
        """A number for a new object, greater than every one given before, also before a restart."""
        self._number += 1
        self._change(sql.COUNT, name="object", value=self._number)
        return self._number

    async def stored(self, seq: Seq, trouble: Trouble | None = None) -> None:
        """Return when everything up to this change is durable.

        Args:
            seq: the number of the change.
            trouble: told of each attempt that fails; the wait goes on. Without it the first failure is raised.

        Raises:
            StoreError: it could not be stored; it is kept and tried again.
        """
        await self._writer.stored(seq, trouble)

    async def close(self) -> None:
        """Make everything durable and let go of the files; raise `StoreError` when something could not be stored."""
        try:
            await self._writer.close()
        finally:
            await asyncio.to_thread(self._end)

    # Sessions and agents.

    async def sessions(self) -> list[SessionRow]:
        """Every session as it is stored, in order of creation."""
        return await self._read(sql.sessions)

    async def members(self) -> list[Member]:
        """Every agent as it is stored, in order of creation; of an open session it may be out of date."""
        return await self._read(sql.members)

    async def unfinished(self) -> list[str]:
        """The ids of sessions with an agent that is busy, has a queue, or is temporary, as they are stored."""
        return await self._read(sql.unfinished)

    async def open_session(self, session: str) -> list[AgentRow]:
        """Bring what belongs to a session's agents into memory; the agents, in order of creation."""
        if session not in self._members:
            found = await self._read(lambda connection: sql.shelves(connection, session))
            if session not in self._members:
                self._members[session] = [shelf.row.id for shelf in found]
                self._shelves.update((shelf.row.id, shelf) for shelf in found)
        self._leaving.pop(session, None)
        return [self._shelves[agent].row for agent in self._members[session]]

    def release_session(self, session: str) -> None:
        """Let go of what belongs to a session's agents, as soon as all of it is durable; it may be opened meanwhile."""
        if session in self._members:
            self._leaving[session] = self._writer.changed
            self._let_go()

    def put_session(self, row: SessionRow) -> Seq:
        """Create a session or replace what is stored of it."""
        self._members.setdefault(row.id, [])
        return self._change(sql.PUT_SESSION, **msgspec.structs.asdict(row))

    def drop_session(self, session: str) -> Seq:
        """Forget a session with all its agents."""
        for agent in self._members.pop(session, ()):
            self._forget(agent)
        self._leaving.pop(session, None)
        return self._change(sql.DROP_SESSION, of=session)

    def put_agent(self, row: AgentRow) -> Seq:
        """Create an agent or replace what is stored of it."""
        shelf = self._shelves.get(row.id)
        if shelf is None:
            self._shelves[row.id] = Shelf(row)
            self._members[row.session].append(row.id)
        else:
            shelf.row = row
        values = msgspec.structs.asdict(row) | {"settings": msgspec.json.encode(row.settings)}
        return self._change(sql.PUT_AGENT, **values, busy=False, plan=b"", stats=b"")

    def drop_agent(self, agent: str) -> Seq:
        """Forget an agent with its history, logs, queue, plan and counts."""
        row = self._forget(agent)
        self._members[row.session].remove(agent)
        return self._change(sql.DROP_AGENT, of=row.number)

    # What belongs to an agent.

    def append_records(self, agent: str, records: Sequence[bytes]) -> Seq:
        """Add to an agent's history."""
        shelf = self._shelves[agent]
        shelf.records.append(records)
        self._grown[shelf.records] = {"agent": shelf.row.number}
        return self._writer.note()

    def clear_records(self, agent: str) -> Seq:
        """Forget an agent's history; its chat stays."""
        shelf = self._shelves[agent]
        shelf.records.clear()
        return self._change(sql.CLEAR_RECORDS, of=shelf.row.number, before=shelf.records.begin)

    async def records(self, agent: str) -> list[bytes]:
        """An agent's history, oldest first."""
        shelf = self._shelves[agent]
        kept, begin, end = shelf.records.kept, shelf.records.begin, shelf.records.durable
        return await self._read(lambda connection: sql.records(connection, shelf.row.number, begin, end)) + kept

    def append_log(self, agent: str, log: LogName, data: bytes) -> Seq:
        """Add bytes to the end of a conversation file."""
        shelf = self._shelves[agent]
        shelf.tails[log].append(data)
        self._grown[shelf.tails[log]] = {"agent": shelf.row.number, "log": log.value}
        return self._writer.note()

    def log_length(self, agent: str, log: LogName) -> int:
        """The bytes of a conversation file."""
        return self._shelves[agent].tails[log].length

    async def read_log(self, agent: str, log: LogName, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; empty at and after the end."""
        shelf = self._shelves[agent]
        tail, end = shelf.tails[log], offset + count
        recent = tail.read(max(offset, tail.begin), max(end - max(offset, tail.begin), 0))
        if offset >= tail.begin:
            return recent
        number, old = shelf.row.number, min(end, tail.begin) - offset
        return await self._read(lambda connection: sql.log_range(connection, number, log, offset, old)) + recent

    def enqueue(self, agent: str, text: str) -> Seq:
        """Add a prompt to the end of an agent's queue."""
        shelf = self._shelves[agent]
        self._entry += 1
        shelf.queue[self._entry] = text
        return self._change(sql.PUT_PROMPT, entry=self._entry, agent=shelf.row.number, text=text)

    def dequeue(self, agent: str, entry: int) -> Seq:
        """Take one prompt out of an agent's queue."""
        shelf = self._shelves[agent]
        shelf.queue.pop(entry, None)
        return self._change(sql.DROP_PROMPT, of=shelf.row.number, one=entry)

    def queue(self, agent: str) -> list[Queued]:
        """An agent's prompts that wait, oldest first."""
        return [Queued(entry, text) for entry, text in self._shelves[agent].queue.items()]

    def put_plan(self, agent: str, plan: bytes) -> Seq:
        """Replace an agent's plan."""
        shelf = self._shelves[agent]
        shelf.plan = plan
        return self._change(sql.SET_PLAN, of=shelf.row.number, value=plan)

    def plan(self, agent: str) -> bytes:
        """An agent's plan, empty when it has none."""
        return self._shelves[agent].plan

    def put_stats(self, agent: str, stats: bytes) -> Seq:
        """Replace an agent's counts, encoded; opaque to the store."""
        shelf = self._shelves[agent]
        shelf.stats = stats
        return self._change(sql.SET_STATS, of=shelf.row.number, value=stats)

    def stats(self, agent: str) -> bytes:
        """An agent's counts, empty when there are none yet."""
        return self._shelves[agent].stats

    def set_busy(self, agent: str, *, busy: bool) -> Seq:
        """Note that a turn has begun, or that it has ended."""
        shelf = self._shelves[agent]
        shelf.busy = busy
        return self._change(sql.SET_BUSY, of=shelf.row.number, value=busy)

    def busy(self, agent: str) -> bool:
        """Whether a turn has begun and has not ended: after a restart, whether it was cut."""
        return self._shelves[agent].busy

    # Between memory and the disk.

    def _change(self, statement: Executable, **row: Any) -> Seq:
        self._batch.add(statement, row)
        return self._writer.note()

    def _forget(self, agent: str) -> AgentRow:
        """The row of an agent of which nothing is kept in memory any more."""
        shelf = self._shelves.pop(agent)
        self._grown.pop(shelf.records, None)
        for tail in shelf.tails.values():
            self._grown.pop(tail, None)
        return shelf.row

    def _gather(self) -> Batch:
        batch, self._batch = self._batch, Batch(sql.ORDER)
        for grown, whose in self._grown.items():
            statement, key = (sql.PUT_CHUNK, "offset") if isinstance(grown, Tail) else (sql.PUT_RECORD, "position")
            for position, data in grown.gather():
                batch.add(statement, {**whose, key: position, "data": data})
        self._gathered.extend(self._grown)
        self._grown.clear()
        return batch

    def _written(self) -> None:
        for grown in self._gathered:
            grown.written()
        self._gathered = []
        self._let_go()

    def _let_go(self) -> None:
        """Forget the released sessions of which everything is durable."""
        for session in [session for session, seq in self._leaving.items() if seq <= self._writer.durable]:
            del self._leaving[session]
            for agent in self._members.pop(session):
                self._forget(agent)

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._ask, query)
        except SQLAlchemyError as error:
            raise StoreError(f"the store cannot be read: {getattr(error, 'orig', None) or error}") from None

    def _end(self) -> None:
        self._readers.shutdown()
        self._engine.dispose()

    def _ask(self, query: Callable[[Connection], _T]) -> _T:
        with self._engine.connect() as connection:
            return query(connection)
