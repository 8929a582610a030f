"""The tools of one agent, as its model is told about them: what its tool server last said."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ninep.errors import NinepError
from ollie.engine.messages import ToolSpec
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.settings.outfit import Outfit

if TYPE_CHECKING:
    from ollie.olliesrv.toolserver.toolserver import ToolServer

_log = logging.getLogger(__name__)


class Kit:
    """The tools of one agent.

    Args:
        agent: its id.
        outfit: gives what it works with now.
        toolsrv: the tool server of its session.

    Attributes:
        specs: those of its host.
    """

    def __init__(self, agent: str, outfit: Callable[[], Outfit], toolsrv: "ToolServer") -> None:
        self._agent = agent
        self._outfit = outfit
        self._toolsrv = toolsrv
        self.specs: tuple[ToolSpec, ...] = ()

    async def fetch(self, again: str = "") -> None:
        """Learn them from the tool server, which is not started for an agent that is to have none of it.

        Args:
            again: the one of them that is to be read from disk again.

        Raises:
            RefusedError: no tool server can be started, or it does not answer.
        """
        tools = self._outfit().host_tools
        if tools or self.specs:
            self.specs = await self._toolsrv.specs(self._agent, tools, again)

    async def refresh(self, again: str = "") -> None:
        """As `fetch`, if a tool server runs. The next turn says what is wrong."""
        if self._toolsrv.process is not None:
            with self._toolsrv.held(), contextlib.suppress(RefusedError):
                await self.fetch(again)

    async def fetched(self) -> tuple[ToolSpec, ...]:
        """All that the agent has, those that the engine answers included; starts the tool server if need be."""
        with self._toolsrv.held():
            await self.fetch()
        return self._outfit().setup(self.specs).tools

    async def revised(self) -> bool:
        """Whether they have changed since they were learned; then they are learned again."""
        specs = await self._toolsrv.revised(self._agent)
        if specs is None:
            return False
        self.specs = specs
        return True


def problem(fetching: asyncio.Task[None]) -> str:
    """Why a turn cannot ask its model, from how fetching has ended; empty when it can, or was stopped."""
    if fetching.cancelled():
        return ""
    error = fetching.exception()
    if error is None:
        return ""
    if not isinstance(error, NinepError):
        _log.error("a turn could not be made ready", exc_info=error)
        return "internal error, see the server's log"
    return str(error)
