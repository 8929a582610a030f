"""What tests put into a store, and a disk that they fill."""

import asyncio
from typing import Any

from sqlalchemy import Connection, event

from ninep.bell import Bell
from ollie.store.rows import AgentRow, SessionRow
from ollie.store.sqlite import Store

SESSION = SessionRow(id="s1", number=1, name="one", cwd="/w", paused=True, created_at=1.5)


def agent(agent_id: str, number: int, session: str = "s1", *, temporary: bool = False) -> AgentRow:
    """An agent with something in every field."""
    return AgentRow(
        id=agent_id,
        number=number,
        session=session,
        name=f"name of {agent_id}",
        cwd="/",
        profile="default",
        settings={"max_steps": 3, "stop": ["x"], "model": "m"},
        ceiling=b"\0bound",
        parent="p",
        temporary=temporary,
    )


class Disk:
    """The disk under a store: while it is full, no page is added to the database. It counts and tells of commits."""

    def __init__(self, store: Store) -> None:
        self.full = False
        self.commits = 0
        self._loop = asyncio.get_running_loop()
        self._written, self._refused = Bell(), Bell()
        event.listen(store._engine, "begin", self._limit)
        event.listen(store._engine, "commit", self._commit)
        event.listen(store._engine, "rollback", self._rollback)

    async def written(self) -> None:
        """Return when something is being committed next, whoever has asked for it."""
        await self._written.wait()

    async def refused(self) -> None:
        """Return when a transaction is rolled back next, as one is that cannot be written."""
        await self._refused.wait()

    def _commit(self, _: Connection) -> None:
        self.commits += 1
        self._loop.call_soon_threadsafe(self._written.ring)

    def _rollback(self, _: Connection) -> None:
        self._loop.call_soon_threadsafe(self._refused.ring)

    def _limit(self, connection: Connection, *_: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={1 if self.full else 1 << 30}")
