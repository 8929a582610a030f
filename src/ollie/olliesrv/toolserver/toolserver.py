"""The tool server of a session, as what works in the session asks it: for its tools, and to run one.

What an agent has loaded is known here, and is loaded again into a tool server that has just started.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ninep.client import Client
from ninep.errors import ConnectionLostError, NinepError
from ollie.engine.messages import ToolSpec
from ollie.olliesrv.toolserver.connection import Connection
from ollie.olliesrv.toolserver.following import Ended
from ollie.olliesrv.toolserver.life import Life
from ollie.olliesrv.toolserver.news import News
from ollie.olliesrv.toolserver.places import Settings
from ollie.protocol import payload
from ollie.protocol.result import ResultError, ToolResult, from_json, text

if TYPE_CHECKING:
    from ollie.olliesrv.process.procfs import Process

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """One call of a tool: whose it is, what it is, and where and how bounded it runs."""

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    cwd: str
    sandbox: str = ""


@dataclass
class _Loaded:
    """What an agent has loaded: the revision of it, and the tools as a model is told about them."""

    revision: bytes
    specs: tuple[ToolSpec, ...]


class ToolServer:
    """The tool server of one session.

    Args:
        session: the id of the session.
        cwd: gives the directory where tools work when a call names none.
        settings: how it is run.
        ended: given each background run that has ended; when it returns, its agent has been told for good.
        news: told of runs and requests that begin and end.
        exists: whether there is an agent of an id.
    """

    def __init__(
        self,
        session: str,
        cwd: Callable[[], str],
        settings: Settings,
        *,
        ended: Callable[[Ended], Awaitable[None]],
        news: News,
        exists: Callable[[str], bool],
    ) -> None:
        self._life = Life(session, cwd, settings, self._over)
        self._connection = Connection(
            self._life,
            started=self._load_all,
            found=self._end_strays,
            ended=ended,
            news=news,
            cancel_s=settings.cancel_s,
        )
        self._news = news
        self._exists = exists
        self._known: Process | None = None
        self._session = session
        self._cancel_s = settings.cancel_s
        self._wanted: dict[str, tuple[str, ...]] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._fitting = asyncio.Lock()

    @property
    def process(self) -> "Process | None":
        """Its process; None when none was started or found, or it has ended."""
        return self._life.process

    # Being connected to it.

    def visit(self, agent: str = "") -> AbstractAsyncContextManager[Client]:
        """A connection of one's own, as `Life.visit`: it sees what is an agent's, and never starts a tool server."""
        return self._life.visit(agent)

    def stay(self, agent: str) -> AbstractAsyncContextManager[Client]:
        """As `visit`, for long: `Life.stay`."""
        return self._life.stay(agent)

    def hold(self) -> None:
        """Keep the connection from now on, once it is made; whoever is about to ask more than once does."""
        self._connection.hold()

    def release(self) -> None:
        """The connection is not needed any more."""
        self._connection.release()

    def held(self) -> AbstractContextManager[None]:
        """Keep the connection meanwhile."""
        return self._connection.held()

    def running(self) -> AbstractAsyncContextManager[Client]:
        """The connection, as `Connection.running`: what happens there is heard, and none is started."""
        return self._connection.running()

    def take_over(self) -> None:
        """Follow the one that has outlived an earlier server of ours, if it lives."""
        if self._life.look() is not None:
            self._connection.follow()

    def collect(self) -> asyncio.Task[None]:
        """Have every agent told of what ended in the background, as `Connection.collect`."""
        return self._connection.collect()

    def asks(self, agent: str) -> bool:
        """Whether something of an agent waits for approval."""
        return self._connection.asks(agent)

    # Its tools.

    async def specs(self, agent: str, tools: Sequence[str], again: str = "") -> tuple[ToolSpec, ...]:
        """The tools of an agent as a model is told about them; it has just these afterwards.

        Args:
            agent: its id.
            tools: what it is to have loaded; one that this host does not offer is left out, with a line in the log.
            again: the one of them that is to be read from disk again.

        Raises:
            RefusedError: no tool server can be started, or it does not answer.
        """
        try:
            return await self._specs(agent, tools, again)
        except ConnectionLostError:  # it ended in the moment when we came; a new one is started
            return await self._specs(agent, tools, again)

    async def revised(self, agent: str) -> tuple[ToolSpec, ...] | None:
        """The tools of an agent if they have changed since they were given last, else None."""
        try:
            return await self._changed(await self._connection.client(), agent)
        except NinepError as error:
            _log.warning("the tools of agent %s are not known: %s", agent, error)
            return None

    async def invalidate(self) -> None:
        """Have it read its tools again, if it runs."""
        if self.process is None:
            return
        try:
            async with self._connection.running() as client:
                await client.write("ctl", b"invalidate")
        except NinepError as error:
            _log.info("no tool server was told to read its tools again: %s", error)

    async def forget(self, agent: str) -> None:
        """An agent is gone: end what it has left. When this returns nothing of it is alive.

        A tool server that does not do so in time is ended itself, and everything it runs with it.
        """
        self._wanted.pop(agent, None)
        self._loaded.pop(agent, None)
        if self.process is None:
            return
        task = asyncio.get_running_loop().create_task(self._end(agent))
        done, _ = await asyncio.wait({task}, timeout=self._cancel_s)
        if done and task.exception() is None:
            return
        task.cancel()
        _log.error("ending the tool server of session %s: it does not end what an agent ran", self._session)
        await self.end()
        await asyncio.wait({task})

    # Its runs.

    async def call(self, call: Call) -> ToolResult:
        """Run a tool. When this returns or raises, nothing of the call is alive, also when it was cancelled.

        A tool server that does not end a cancelled call in time is ended itself, and everything it runs with it.
        """
        task = asyncio.get_running_loop().create_task(self._call(call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await self._abandoned(task)
            raise

    async def whose(self, pid: int) -> str | None:
        """The id of the agent that a process below the tool server belongs to, None when it is nobody's."""
        try:
            async with self._connection.running() as client:
                line = await client.rdwr("proc/whose", str(pid).encode())
        except NinepError:
            return None
        return line.decode().rstrip("\n").partition("\t")[2] or None

    async def end(self) -> None:
        """End it with everything it runs; another may be started."""
        await self._connection.end()

    async def close(self) -> None:
        """As `end`, for good; its secret is of no use afterwards."""
        await self._connection.close()
        self._life.forget_secret()

    async def remove(self) -> None:
        """As `close`, and nothing that it has kept is left."""
        await self.close()
        await asyncio.to_thread(self._life.forget_state)

    # How it is asked.

    async def _end(self, agent: str) -> None:
        async with self.visit() as client:
            await client.write("ctl", f"end {agent}".encode())

    async def _end_strays(self, client: Client) -> None:
        """End what a tool server that was found runs for agents that are not there any more."""
        if self.process is None or (self._known is not None and self._known.same(self.process)):
            return
        self._known = self.process
        for agent in await self._agents(client):
            if not self._exists(agent):
                with contextlib.suppress(NinepError):  # it has ended, and all it ran
                    await client.write("ctl", f"end {agent}".encode())

    async def _agents(self, client: Client) -> set[str]:
        """For whom something runs."""
        agents = set()
        with contextlib.suppress(NinepError):
            for line in (await client.read("proc/list")).decode().splitlines():
                with contextlib.suppress(NinepError):  # a run may have gone meanwhile
                    agents.add(payload.parse(await client.read(f"proc/{line.split()[0]}/stat"))["agent"])
        return agents - {""}

    def _over(self) -> None:
        """It has ended."""
        self._news.over()
        self._connection.lost()

    async def _specs(self, agent: str, tools: Sequence[str], again: str) -> tuple[ToolSpec, ...]:
        async with self._fitting:
            client = await self._connection.client()
            await self._fit(client, agent, tuple(tools), again)
            changed = await self._changed(client, agent)
        return self._loaded[agent].specs if changed is None else changed

    async def _fit(self, client: Client, agent: str, tools: tuple[str, ...], again: str) -> None:
        """Load what an agent lacks of its tools, and unload what it has besides, from an earlier server maybe."""
        before = self._wanted.get(agent)
        if before == tools and not again:
            return
        had = [spec.name for spec in await self._listed(client, agent)] if before is None else before
        await self._tell(client, "unload", agent, [tool for tool in had if tool not in tools])
        fresh = [tool for tool in tools if before is None or tool == again or tool not in before]
        await self._tell(client, "load", agent, fresh)
        self._wanted[agent] = tools

    async def _changed(self, client: Client, agent: str) -> tuple[ToolSpec, ...] | None:
        """Its tools, asked for if their revision is another than the known one; else None."""
        revision = await client.rdwr("tools_rev", agent.encode())
        known = self._loaded.get(agent)
        if known is not None and known.revision == revision:
            return None
        specs = await self._listed(client, agent)
        self._loaded[agent] = _Loaded(revision, specs)
        return specs

    async def _listed(self, client: Client, agent: str) -> tuple[ToolSpec, ...]:
        return msgspec.json.decode(await client.rdwr("tools", agent.encode()), type=tuple[ToolSpec, ...])

    async def _load_all(self, client: Client) -> None:
        """Load what every agent is to have into a tool server that has just started."""
        self._loaded.clear()
        for agent, tools in list(self._wanted.items()):
            await self._tell(client, "load", agent, tools)

    async def _tell(self, client: Client, word: str, agent: str, tools: Sequence[str]) -> None:
        for tool in tools:
            try:
                await client.write("ctl", f"{word} {agent} {tool}".encode())
            except ConnectionLostError:
                raise
            except NinepError as error:
                _log.warning("%s %s for agent %s: %s", word, tool, agent, error)

    async def _call(self, call: Call) -> ToolResult:
        fields = {
            "tool": call.tool,
            "agent": call.agent,
            "session": self._session,
            "cwd": call.cwd,
            "args": msgspec.json.encode(call.arguments).decode(),
        }
        if call.sandbox:
            fields["agent.sandbox"] = call.sandbox
        try:
            client = await self._connection.followed()
            return from_json(await client.rdwr("proc/new", payload.format(fields)))
        except ConnectionLostError:
            return text("the tool server ended, and what it ran ended with it", is_error=True)
        except (NinepError, ResultError, payload.PayloadError) as error:
            return text(str(error), is_error=True)

    async def _abandoned(self, task: asyncio.Task[ToolResult]) -> None:
        """Return when a cancelled call has ended. The reply to its Tflush or Tclunk says that nothing of it lives."""
        try:
            done, _ = await asyncio.wait({task}, timeout=self._cancel_s)
        except asyncio.CancelledError:
            done = set()
        if not done:
            _log.error("ending the tool server of session %s: it does not end a call", self._session)
            await self.end()
