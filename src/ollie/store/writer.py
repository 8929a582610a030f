"""Group commit: one thread that writes, and commits together whatever has come since it began its last commit.

While the disk is busy with one batch, changes gather for the next, so that a thousand writers share an fsync and one
writer waits for no timer. What nobody waits for is written within a second; a store without changes has no timer.

A batch that fails is kept, with whatever comes after it, and tried again: when somebody asks for it, else after a time
that grows to `retry_s`. This is the one place that repeats a write.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Executable

from ollie.store.rows import Seq, StoreError

_LAZY_S: Final = 1.0
RETRY_S: Final = 30.0
_RETRY_FIRST_S: Final = 1.0
_log = logging.getLogger(__name__)

Trouble = Callable[[StoreError], None]


class Batch:
    """Changes that are committed together: rows by statement.

    Args:
        order: every statement there is, in the order in which a batch is written.
    """

    def __init__(self, order: Sequence[Executable]) -> None:
        self._rows: dict[int, tuple[Executable, list[Mapping[str, Any]]]] = {id(one): (one, []) for one in order}

    def add(self, statement: Executable, row: Mapping[str, Any]) -> None:
        """Add a change."""
        self._rows[id(statement)][1].append(row)

    def update(self, later: "Batch") -> None:
        """Add the changes of a batch that came after this one."""
        for key, (_, rows) in later._rows.items():  # noqa: SLF001  of the same class
            self._rows[key][1].extend(rows)

    def write(self, connection: Connection) -> None:
        """Commit; durable when it returns."""
        with connection.begin():
            for statement, rows in self._rows.values():
                if rows:
                    connection.execute(statement, rows)


class _Waiter(NamedTuple):
    """Who waits for a change, and how it takes a failure."""

    seq: Seq
    future: "asyncio.Future[None]"
    trouble: Trouble | None


class Writer:
    """Writes batches one after the other.

    Args:
        engine: the database.
        gather: takes what is to be written now; called between two steps of the loop.
        written: told that what was gathered is durable.
        retry_s: the longest time after which a batch that failed is tried again; above 0.
    """

    def __init__(
        self, engine: Engine, gather: Callable[[], Batch], written: Callable[[], None], retry_s: float
    ) -> None:
        self.changed = Seq(0)
        self.durable = Seq(0)
        self._gather = gather
        self._written = written
        self._thread = ThreadPoolExecutor(1, "store-writer")
        self._engine = engine
        self._connection: Connection | None = None  # of the thread
        self._failed: Batch | None = None
        self._retry_s = retry_s
        self._next_retry_s = self._first_retry_s
        self._writing = False
        self._wanted = Seq(0)
        self._waiting: list[_Waiter] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self) -> Seq:
        """There is one more change; its number."""
        self.changed = Seq(self.changed + 1)
        self._later()
        return self.changed

    async def stored(self, seq: Seq, trouble: Trouble | None = None) -> None:
        """Return when every change up to this one is durable; see `Store.stored`."""
        assert 0 <= seq <= self.changed
        if seq <= self.durable:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(seq, future, trouble))
        self._want(seq)
        await future

    async def close(self) -> None:
        """Write what is left and end the thread; `StoreError` when something could not be written."""
        try:
            await self.stored(self.changed)
        finally:
            self._cancel_timer()
            self._thread.submit(self._disconnect)
            await asyncio.to_thread(self._thread.shutdown)

    # In the loop.

    @property
    def _first_retry_s(self) -> float:
        return min(_RETRY_FIRST_S, self._retry_s)

    def _later(self) -> None:
        """Write in a while, if nobody asks for it before."""
        if self._timer is None:
            delay_s = _LAZY_S if self._failed is None else self._next_retry_s
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._late)

    def _late(self) -> None:
        self._timer = None
        self._want(self.changed)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _want(self, seq: Seq) -> None:
        self._wanted = max(self._wanted, seq)
        if not self._writing and self._wanted > self.durable:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._begin)  # not now: the step that makes changes goes to its end

    def _begin(self) -> None:
        batch = self._gather()
        if self._failed is not None:
            self._failed.update(batch)
            batch = self._failed
        end = self.changed
        self._cancel_timer()
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)
        writing.add_done_callback(lambda done: self._end(batch, end, done.exception()))

    def _end(self, batch: Batch, end: Seq, error: BaseException | None) -> None:
        self._writing = False
        if error is None:
            self._succeeded(end)
        else:
            self._have_failed(batch, readable(error))
        self._want(self._wanted)

    def _succeeded(self, end: Seq) -> None:
        self.durable = end
        if self._failed is not None:
            _log.warning("the store can be written again")
        self._failed = None
        self._next_retry_s = self._first_retry_s
        self._written()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.seq > end:
                self._waiting.append(waiter)
            elif not waiter.future.done():
                waiter.future.set_result(None)

    def _have_failed(self, batch: Batch, error: StoreError) -> None:
        if self._failed is None:
            _log.error("%s", error)
        self._failed = batch
        self._wanted = self.durable
        self._later()
        self._next_retry_s = min(self._next_retry_s * 2, self._retry_s)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.future.done():
                continue
            if waiter.trouble is None:
                waiter.future.set_exception(error)
            else:
                waiter.trouble(error)
                self._waiting.append(waiter)

    # In the thread.

    def _write(self, batch: Batch) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
        batch.write(self._connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()


def readable(error: BaseException) -> StoreError:
    """Why something was not stored, in words."""
    cause = getattr(error, "orig", None) or error  # SQLAlchemy's errors carry the driver's
    return StoreError(f"not on disk yet, kept in memory: the store cannot be written: {cause}")
