"""The tools of one agent, as its model is told about them: what its tool server last said."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ollie.engine.messages import ToolSpec
from ollie.olliesrv.settings.outfit import Outfit

if TYPE_CHECKING:
    from ollie.olliesrv.toolserver.toolserver import ToolServer


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

    async def fetched(self) -> tuple[ToolSpec, ...]:
        """All that the agent has, those that the engine answers included; starts the tool server if need be."""
        with self._toolsrv.connection.held():
            await self.fetch()
        return self._outfit().setup(self.specs).tools

    async def revised(self) -> bool:
        """Whether they have changed since they were learned; then they are learned again."""
        specs = await self._toolsrv.revised(self._agent)
        if specs is None:
            return False
        self.specs = specs
        return True
