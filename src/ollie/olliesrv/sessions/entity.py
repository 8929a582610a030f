"""What sessions and agents have in common: who they are, as it is stored, and that they end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ollie.store.rows import AgentRow, SessionRow

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent

_Row = TypeVar("_Row", SessionRow, AgentRow)
_T = TypeVar("_T")


class Entity(ABC, Generic[_Row]):
    """A session or an agent.

    Args:
        row: as it is stored.

    Attributes:
        row: as it is stored now.
        gone: whether it was killed.
    """

    def __init__(self, row: _Row) -> None:
        self.row: _Row = row
        self.gone = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def number(self) -> int:
        """Its object number."""
        return self.row.number

    @property
    def id(self) -> str:
        """Its id, a UUIDv7."""
        return self.row.id

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.name

    @property
    def cwd(self) -> str:
        """Its working directory, resolved; empty for a session that has none."""
        return self.row.cwd

    @abstractmethod
    def permit(self, by: "Agent | None") -> None:
        """Raise `file does not exist` when it was killed, `permission denied` when `by` may not command it."""

    async def kill(self, *, by: "Agent | None") -> None:
        """Remove it. When this returns nothing of it is alive, and it is gone from the store.

        It goes on to the end also when the caller is cancelled, as a tool is that kills its own agent.
        """
        self.permit(by)
        self.gone = True
        await asyncio.shield(self.later(self._kill()))

    @abstractmethod
    async def _kill(self) -> None:
        """End what is its own, and remove it from the store."""

    def later(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Do something to its end, whoever waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
