"""Which tools each agent may call: loaded by name, from what the host offers.

Discovery says what exists on this host; loading makes a tool callable for one agent, with the metadata of that moment.
Every change gives the agent a new revision, and no revision is ever given twice, so a client that compares revisions
never takes an old tool list for a new one, not even over a restart.
"""

from collections.abc import Callable

from ninep.errors import NinepError
from ollie.protocol.discovery import Broken, Catalog
from ollie.protocol.metadata import ToolInfo


class RegistryError(NinepError):
    """A load, unload or look-up that cannot be done; the text is a short phrase that names the tool."""


class Registry:
    """The loaded tools of every agent.

    Args:
        catalog: What the host offers.
        revision: Gives the next revision; never the same twice.
    """

    def __init__(self, catalog: Catalog, revision: Callable[[], int]) -> None:
        self._catalog = catalog
        self._revision = revision
        self._first = revision()
        self._loaded: dict[str, dict[str, ToolInfo]] = {}
        self._revisions: dict[str, int] = {}

    def offered(self) -> list[ToolInfo | Broken]:
        """Every tool of this host, sorted by name, the broken ones too."""
        return list(self._catalog.tools().values())

    def load(self, agent: str, name: str) -> None:
        """Make the tool callable for the agent, with its metadata as it is now.

        Raises:
            RegistryError: `no such tool: NAME`, or `broken tool: NAME: why`.
        """
        tool = self._catalog.tools().get(name)
        if tool is None:
            raise RegistryError(f"no such tool: {name}")
        if isinstance(tool, Broken):
            raise RegistryError(f"broken tool: {name}: {tool.error}")
        self._loaded.setdefault(agent, {})[name] = tool
        self._changed(agent)

    def unload(self, agent: str, name: str) -> None:
        """Take the tool away from the agent.

        Raises:
            RegistryError: `tool not loaded: NAME`.
        """
        if self._loaded.get(agent, {}).pop(name, None) is None:
            raise RegistryError(f"tool not loaded: {name}")
        self._changed(agent)

    def forget(self, agent: str) -> None:
        """The agent is gone, and with it what it had loaded."""
        self._loaded.pop(agent, None)
        self._revisions.pop(agent, None)

    def invalidate(self) -> None:
        """Read every tool from disk again; one that has gone or is broken now is unloaded."""
        self._catalog.invalidate()
        offered = self._catalog.tools()
        for agent, loaded in self._loaded.items():
            fresh = {name: offered.get(name) for name in loaded}
            kept = {name: tool for name, tool in fresh.items() if isinstance(tool, ToolInfo)}
            if kept != loaded:
                self._loaded[agent] = kept
                self._changed(agent)

    def loaded(self, agent: str) -> list[ToolInfo]:
        """The agent's tools, sorted by name."""
        tools = self._loaded.get(agent, {})
        return [tools[name] for name in sorted(tools)]

    def lookup(self, agent: str, name: str) -> ToolInfo:
        """The agent's tool of that name.

        Raises:
            RegistryError: `tool not loaded: NAME`; of one that is broken, where and why.
        """
        tool = self._loaded.get(agent, {}).get(name)
        if tool is None:
            offered = self._catalog.tools().get(name)
            why = f"; it is broken: {offered.path}: {offered.error}" if isinstance(offered, Broken) else ""
            raise RegistryError(f"tool not loaded: {name}{why}")
        return tool

    def revision(self, agent: str) -> int:
        """Changes with every load and unload of the agent; never 0, which clients read as "no revisions here"."""
        return self._revisions.get(agent, self._first)

    def _changed(self, agent: str) -> None:
        self._revisions[agent] = self._revision()
