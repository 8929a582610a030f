"""What tests put into a store, and a disk that they fill."""

import asyncio
from functools import partial
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
    """The disk under a store: while it is full, no page is added to the database."""

    def __init__(self, store: Store) -> None:
        self.full = False
        self._loop = asyncio.get_running_loop()
        self._written, self._refused = Bell(), Bell()
        event.listen(store._engine, "begin", self._limit)
        for name, bell in (("commit", self._written), ("rollback", self._refused)):
            event.listen(store._engine, name, partial(self._ring, bell))

    async def written(self) -> None:
        """Return when something is being committed next, whoever has asked for it."""
        await self._written.wait()

    async def refused(self) -> None:
        """Return when something could not be written next."""
        await self._refused.wait()

    def _ring(self, bell: Bell, _: Connection) -> None:
        self._loop.call_soon_threadsafe(bell.ring)

    def _limit(self, connection: Connection, *_: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={1 if self.full else 1 << 30}")
