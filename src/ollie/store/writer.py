"""Group commit: one thread that writes, and commits together whatever has come since it began its last commit.

While the disk is busy with one batch, changes gather for the next, so that a thousand writers share an fsync and one
writer waits for no timer. What nobody waits for is written within `LAZY_S`; a store without changes has no timer.

A batch that fails is kept: those who wait are told, and it is tried again with the next for which anybody waits.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from sqlalchemy import Engine, Executable

from ollie.store.interface import Seq, StoreError

LAZY_S: Final = 1.0
_log = logging.getLogger(__name__)


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

    def write(self, engine: Engine) -> None:
        """Commit; durable when it returns."""
        with engine.begin() as connection:
            for statement, rows in self._rows.values():
                if rows:
                    connection.execute(statement, rows)


class Writer:
    """Writes batches one after the other.

    Args:
        engine: the database.
        gather: takes what is to be written now; called between two steps of the loop.
        written: told that what was gathered is durable.
    """

    def __init__(self, engine: Engine, gather: Callable[[], Batch], written: Callable[[], None]) -> None:
        self.changed = Seq(0)
        self.durable = Seq(0)
        self._engine = engine
        self._gather = gather
        self._written = written
        self._thread = ThreadPoolExecutor(1, "store-writer")
        self._failed: Batch | None = None
        self._writing = False
        self._wanted = Seq(0)
        self._waiting: list[tuple[Seq, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self) -> Seq:
        """There is one more change; its number."""
        self.changed = Seq(self.changed + 1)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LAZY_S, self._late)
        return self.changed

    async def stored(self, seq: Seq) -> None:
        """Return when every change up to this one is durable.

        Raises:
            StoreError: it could not be written; it will be tried again with the next.
        """
        assert 0 <= seq <= self.changed
        if seq <= self.durable:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, future))
        self._want(seq)
        await future

    async def close(self) -> None:
        """Write what is left and end the thread."""
        try:
            await self.stored(self.changed)
        finally:
            self._cancel_timer()
            self._thread.shutdown()

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
            batch, self._failed = self._failed, None
        end = self.changed
        self._cancel_timer()
        writing = asyncio.get_running_loop().run_in_executor(self._thread, batch.write, self._engine)
        writing.add_done_callback(lambda done: self._end(batch, end, done.exception()))

    def _end(self, batch: Batch, end: Seq, error: BaseException | None) -> None:
        self._writing = False
        if error is None:
            self.durable = end
            self._written()
        else:
            self._failed = batch
            self._wanted = self.durable
            _log.error("%s", _readable(error))
        waiting, self._waiting = self._waiting, []
        for seq, future in waiting:
            if future.done():
                continue
            if seq <= self.durable:
                future.set_result(None)
            elif error is not None:
                future.set_exception(_readable(error))
            else:
                self._waiting.append((seq, future))
        self._want(self._wanted)


def _readable(error: BaseException) -> StoreError:
    cause = getattr(error, "orig", None) or error  # SQLAlchemy's errors carry the driver's
    return StoreError(f"the store cannot be written: {cause}")
