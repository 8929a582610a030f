"""A session: agents that belong together, with one tool server and one pause for all of them."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ollie.olliesrv.errors import RefusedError, denied, gone
from ollie.olliesrv.sessions import ids, subagents
from ollie.olliesrv.sessions.agent import Agent
from ollie.olliesrv.sessions.entity import Entity
from ollie.olliesrv.settings.ceilings import covers
from ollie.olliesrv.settings.directories import Scratch, working_directory
from ollie.olliesrv.settings.outfit import TOOLS, Outfit
from ollie.olliesrv.settings.services import Services
from ollie.olliesrv.toolserver.following import Ended
from ollie.olliesrv.toolserver.news import News
from ollie.olliesrv.toolserver.toolserver import ToolServer
from ollie.olliesrv.turns.account import Account
from ollie.protocol import paths
from ollie.protocol.result import ToolResult
from ollie.store.rows import AgentRow, Seq, SessionRow, StoreError

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.sessions import Sessions

_KINDS = ("tools", "agents", "skills")  # what is looked for along a path of directories


class Session(Entity[SessionRow]):
    """A session.

    Args:
        row: the session as it is stored.
        agents: its agents as they are stored; what belongs to them is in memory.
        sessions: where it is found.
        services: what the server has.
    """

    def __init__(self, row: SessionRow, agents: Sequence[AgentRow], sessions: "Sessions", services: Services) -> None:
        super().__init__(row)
        self._sessions = sessions
        self._services = services
        self._store = services.store
        self._scratch = Scratch(services.scratch, row.id)
        news = News(self.tell, services.asked.add)
        self.toolsrv = ToolServer(
            row.id, self.directory, services.toolsrv, ended=self._completed, news=news, exists=self._has
        )
        self._agents: dict[str, Agent] = {}
        self._names: dict[str, Agent] = {}
        for agent in agents:
            self._add(Agent(agent, self, services))
            if self._scratch.is_at(agent.cwd):
                self._scratch.path()  # it was empty, or lost with all that was temporary

    @property
    def paused(self) -> bool:
        """Whether its agents hold their queues."""
        return self.row.paused

    def directory(self) -> str:
        """Its working directory, or else its scratch directory, made when first asked for."""
        return self.cwd or self._scratch.path()

    def environment(self) -> dict[str, str]:
        """What whoever works in the session finds it and its server by."""
        return {
            "OLLIE_SESSION_ID": self.id,
            "OLLIE_ADDRESS": self._services.address,
            "OLLIE_CFG_PATH": paths.config_path(),
            "OLLIE_DATA_PATH": paths.data_path(),
            "OLLIE_CACHE_PATH": paths.cache_path(),
            **{f"OLLIE_{kind.upper()}_PATH": ":".join(paths.search_path(kind)) for kind in _KINDS},
        }

    def tell(self, event: str, agent: str, fields: Mapping[str, object]) -> None:
        """Tell whoever watches what has happened here.

        Args:
            event: what, a word.
            agent: the id of the agent that it concerns; empty for the session itself.
            fields: what else is told.
        """
        found = self._agents.get(agent)
        path = f"session/{self.name}" if found is None else f"session/{self.name}/agent/{found.name}"
        whose = {"agent": agent} if agent else {}
        self._services.events.tell(event, session=self.id, **whose, path=path, **fields)

    # Its agents.

    def find_agent(self, key: str) -> Agent | None:
        """The agent of a name or an id."""
        return self._names.get(key) or self._agents.get(key)

    def account(self, agent: str) -> Account | None:
        """What the agent of an id has used; None when it is not there."""
        found = self._agents.get(agent)
        return found.account if found is not None else None

    def agents(self) -> list[Agent]:
        """Its agents, in order of creation."""
        return list(self._agents.values())

    def make_agent(self, fields: Mapping[str, str], *, by: Agent | None, temporary: bool = False) -> tuple[Agent, Seq]:
        """Make an agent; it is stored when the change is whose number is given.

        Args:
            fields: `name cwd agent model backend`, all optional; others are not looked at.
            temporary: it lives as long as the request that makes it, and does not outlive the server.
            by: who asks. What an agent makes has at most its own bound, and works in its directory unless told.

        Raises:
            RefusedError: `agent exists: …`, a bad name, directory, profile, model or backend; `permission denied`.
        """
        self._permit_agent(by)
        if len(self._agents) >= self._services.config.max_agents:
            raise RefusedError(f"session has {len(self._agents)} agents already (max_agents): {self.name}")
        number = self._store.next_number()
        base = AgentRow(
            id=ids.new_id(),
            number=number,
            session=self.id,
            name=self._free_name(fields.get("name", ""), fields.get("agent", ""), number),
            cwd=by.cwd if by is not None else "",
            profile=by.row.profile if by is not None else self._services.config.profile,
            settings=_inherited(by),
            ceiling=b"",
            parent=by.id if by is not None else "",
            temporary=temporary,
            created_at=time.time(),
        )
        row = self._dressed(base, fields, by)
        seq = self._store.put_agent(row)
        agent = Agent(row, self, self._services)
        self._add(agent)
        self.tell("agent", agent.id, {"state": "created"})
        return agent, seq

    async def stored(self, seq: Seq) -> None:
        """Return when a change is durable."""
        await self._store.stored(seq)

    async def spawn(self, agent: str, arguments: Mapping[str, Any]) -> ToolResult:
        """The tool `agent_spawn`: what a sub-agent of an agent replies."""
        return await subagents.call(self, arguments, by=self._agents[agent])

    def rename_agent(self, agent: Agent, name: str) -> None:
        """Find an agent, which has another name, under that from now on."""
        self._free_name(name, "", 0)
        del self._names[agent.name]
        self._names[name] = agent

    def forget_agent(self, agent: Agent) -> None:
        """An agent was killed."""
        self.tell("agent", agent.id, {"state": "killed"})
        del self._agents[agent.id]
        del self._names[agent.name]

    # What is done to it.

    def permit(self, by: Agent | None) -> None:
        """Only the owner commands a session."""
        if self.gone:
            raise gone()
        if by is not None:
            raise denied()

    async def rename(self, name: str, *, by: Agent | None) -> None:
        """Give it another name; durable when this returns."""
        self.permit(by)
        if name == self.name:
            return
        self._sessions.check_free(name)
        seq = self._change(replace(self.row, name=name))
        self.tell("session", "", {"state": "renamed"})
        await self._store.stored(seq)

    async def pause(self, *, paused: bool, by: Agent | None) -> None:
        """Hold the queues of its agents, or let them go on; turns that run are not touched."""
        self.permit(by)
        seq = self._change(replace(self.row, paused=paused))
        for agent in self.agents():
            if paused:
                agent.runner.advance()
            else:
                agent.runner.let_go()
        await self._store.stored(seq)

    async def save(self, *, by: Agent | None) -> None:
        """Return when everything so far is durable."""
        self.permit(by)
        await self._store.stored(self._store.put_session(self.row))

    async def invalidate(self, *, by: Agent | None) -> None:
        """Have its tool server read the tools again."""
        self.permit(by)
        await self.toolsrv.invalidate()

    async def close(self) -> None:
        """The server ends: end what runs, forget nothing."""
        await asyncio.gather(*(agent.close() for agent in self.agents()))
        await self.toolsrv.close()
        self._scratch.release()

    async def _kill(self) -> None:
        self._sessions.forget(self)
        # Where the store cannot write now, the session goes all the same, and whoever asked is told in the end.
        await asyncio.gather(*(agent.kill(by=None) for agent in self.agents()), return_exceptions=True)
        await self.toolsrv.remove()
        await asyncio.to_thread(self._scratch.remove)
        await self._store.stored(self._store.drop_session(self.id))

    def _has(self, agent: str) -> bool:
        return agent in self._agents

    async def _completed(self, ended: Ended) -> None:
        """Something that an agent ran in the background has ended."""
        agent = self.find_agent(ended.agent)
        if agent is not None and agent.id == ended.agent and not agent.gone:
            await agent.completed(ended.key, ended.message)

    def _change(self, row: SessionRow) -> Seq:
        self.row = row
        return self._sessions.put(row)

    # After a restart.

    async def recover(self) -> None:
        """Close what an earlier server was in the middle of when it ended. Nothing is begun again."""
        for agent in self.agents():
            if self._store.busy(agent.id):
                await agent.runner.recover()
        for agent in self.agents():
            if agent.row.temporary:
                await self._orphaned(agent)

    def let_go(self) -> None:
        """Let the queues that come from the store go on."""
        for agent in self.agents():
            agent.runner.let_go()

    async def _orphaned(self, agent: Agent) -> None:
        """Remove an agent whose request was lost with the server; what it had said is told to who had asked for it."""
        words = await agent.runner.last_words()
        by = self.find_agent(agent.row.parent)
        if by is not None and words:
            await by.runner.load()  # the chat goes on behind what is written
            subagents.tell(by, agent, words)
        with contextlib.suppress(StoreError):  # then it is done later
            await agent.kill(by=None)

    # Making an agent.

    def _add(self, agent: Agent) -> None:
        self._agents[agent.id] = agent
        self._names[agent.name] = agent

    def _free_name(self, name: str, profile: str, number: int) -> str:
        """A name that is allowed and free; made from the profile and the number when none is given."""
        if not name:
            stem = f"{profile or self._services.config.profile}-{number}"
            return stem if stem not in self._names else ids.new_id()[-12:]
        if ids.check_name(name) in self._names:
            raise RefusedError(f"agent exists: {name}")
        return name

    def _dressed(self, base: AgentRow, fields: Mapping[str, str], by: Agent | None) -> AgentRow:
        """The row of a new agent with its settings and its bound."""
        outfit = Outfit(base, self._services)
        pairs = {key: fields[key] for key in ("agent", "backend", "model") if fields.get(key)}
        cwd = fields.get("cwd") or base.cwd or self.directory()
        try:
            directory = working_directory(cwd, self._services.private)
        except RefusedError:
            if by is not None:
                raise denied() from None  # of directories outside its bound an agent learns nothing
            raise
        row = replace(outfit.changed(pairs).row, cwd=directory)
        bounded = Outfit(row, self._services).bounded()
        if by is not None and not covers(by.ceiling, bounded.ceiling):
            raise denied()
        return bounded.row

    def _permit_agent(self, by: Agent | None) -> None:
        """Its own agents may make others in it."""
        if self.gone:
            raise gone()
        if by is None:
            return
        if by.session is not self or by.gone:
            raise denied()
        if subagents.depth(by) >= self._services.config.max_depth:
            limit = self._services.config.max_depth
            raise RefusedError(f"agents are made by agents at most {limit} levels deep (max_depth): {by.name}")


def _inherited(by: Agent | None) -> dict[str, Any]:
    """The settings that what an agent makes has from it: what binds it, and whom it asks."""
    if by is None:
        return {}
    kept: dict[str, Any] = {
        key: by.row.settings[key] for key in ("sandbox", "backend", "model", *TOOLS) if key in by.row.settings
    }
    return {**kept, **({"max_cost_usd": by.ceiling.max_cost_usd} if by.ceiling.max_cost_usd else {})}
