"""The tool server of a session: started when it is needed, found again when it lives, and asked over 9P.

It is a process of its own that outlives this one. Its socket lies in the private directory of our own, its secret in a
file that only its owner can read, and both are named for the session, so that a later server finds them. It ends by
itself some time after it has nothing to do: we hold a connection only while a turn of the session runs, or something of
it in the background, whose end the agent is to be told.

What an agent has loaded is known here, and is loaded again into a tool server that has just started.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ninep.client import Client
from ninep.errors import ConnectionLostError, NinepError
from ollie.engine.messages import ToolSpec
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.toolserver import life
from ollie.olliesrv.toolserver.following import Ended, Follower
from ollie.protocol import payload
from ollie.protocol.paths import toolsrv_state
from ollie.protocol.result import ResultError, ToolResult, from_json, text
from ollie.protocol.words import reason

if TYPE_CHECKING:
    from ollie.olliesrv.process.procfs import Process

_log = logging.getLogger(__name__)
_UNAME = "ollie"
NO_TOOL_SERVER = "no tool server runs"


@dataclass(frozen=True)
class Settings:
    """How tool servers are run.

    Args:
        sockets: the directory of their sockets, private to us.
        secrets: the directory of their secrets, private to us.
        address: the dial string by which tools reach us.
        yolo: without a sandbox.
        start_s: how long one may take to answer.
        idle_s: how long one lives without work.
        cancel_s: how long one may take to end a call, or itself.
        bypass_s: how long what asks to run without the sandbox waits for its answer.
    """

    sockets: str
    secrets: str
    address: str
    yolo: bool
    start_s: float
    idle_s: float
    cancel_s: float
    bypass_s: float


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
        asked: called when something waits for approval.
    """

    def __init__(
        self,
        session: str,
        cwd: Callable[[], str],
        settings: Settings,
        ended: Callable[[Ended], Awaitable[None]],
        asked: Callable[[], None],
    ) -> None:
        self._process: Process | None = None
        self._pidfd: int | None = None
        self._session = session
        self._cwd = cwd
        self._settings = settings
        self._ended = ended
        self._asked = asked
        self._socket = socket_path(settings, session)
        self._secret = _secret_path(settings, session)
        self._child: asyncio.subprocess.Process | None = None
        self._client: Client | None = None
        self._follower: Follower | None = None
        self._opening: asyncio.Task[Client] | None = None
        self._users = 0
        self._wanted: dict[str, tuple[str, ...]] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def process(self) -> "Process | None":
        """Its process; None when none was started or found, or it has ended."""
        return self._process

    @property
    def pid(self) -> int | None:
        """Its process id, None when none was started or found."""
        return self.process.pid if self.process else None

    @property
    def start_ticks(self) -> int | None:
        """When that process started, in clock ticks since boot."""
        return self.process.start if self.process else None

    def adopt(self) -> bool:
        """Look for a tool server that outlived an earlier one of ours; whether there is one."""
        self._found(life.listener(self._socket))
        return self.process is not None

    def _found(self, process: "Process | None") -> None:
        """Note which process it is. While it lives the loop looks for its end, and so keeps this object."""
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._process, self._pidfd = process, None
        if process is not None:
            self._pidfd = life.pidfd(process)
            if self._pidfd is None:
                self._process = None
            else:
                asyncio.get_running_loop().add_reader(self._pidfd, self._found, None)

    # A connection is held while somebody uses it.

    def hold(self) -> None:
        """A turn begins that may need it."""
        self._users += 1

    def release(self) -> None:
        """That turn is over; the connection of the last one is closed."""
        self._users -= 1
        self._settle()

    @contextlib.asynccontextmanager
    async def visit(self, agent: str = "") -> AsyncIterator[Client]:
        """A connection for one purpose; it never starts a tool server.

        Args:
            agent: the id of the agent whose tools and runs are to be seen; empty for all.

        Raises:
            RefusedError: none runs.
        """
        if self.process is None:
            raise RefusedError(NO_TOOL_SERVER)
        try:
            client = await self._connect(agent)
        except OSError:
            raise RefusedError(NO_TOOL_SERVER) from None
        async with client:
            yield client

    def asks(self, agent: str) -> bool:
        """Whether something of an agent waits for approval."""
        return self._follower is not None and self._follower.asks(agent)

    async def catch_up(self) -> None:
        """Connect, if it runs, to follow what runs in the background and to hear what has ended."""
        self.hold()
        try:
            await self._connected(start=False)
        except NinepError as error:
            _log.info("no tool server is followed: %s", error)
        finally:
            self.release()

    # What it is asked.

    async def specs(self, agent: str, tools: Sequence[str]) -> tuple[ToolSpec, ...]:
        """The tools of an agent as a model is told about them, each loaded first if it is not.

        Args:
            agent: its id.
            tools: what it is to have loaded; one that this host does not offer is left out, with a line in the log.

        Raises:
            RefusedError: no tool server can be started, or it does not answer.
        """
        try:
            return await self._specs(agent, tools)
        except ConnectionLostError:  # it ended in the moment when we came; a new one is started
            return await self._specs(agent, tools)

    async def revised(self, agent: str) -> tuple[ToolSpec, ...] | None:
        """The tools of an agent if they have changed since they were given last, else None."""
        try:
            client = await self._connected()
            revision = await client.rdwr("tools_rev", agent.encode())
            known = self._loaded.get(agent)
            if known is not None and known.revision == revision:
                return None
            return await self._fetch(client, agent, revision)
        except NinepError as error:
            _log.warning("the tools of agent %s are not known: %s", agent, error)
            return None

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
        if self.process is None:
            return None
        self.hold()
        try:
            client = await self._connected(start=False)
            line = await client.rdwr("proc/whose", str(pid).encode())
        except NinepError:
            return None
        finally:
            self.release()
        return line.decode().rstrip("\n").partition("\t")[2] or None

    def forget(self, agent: str) -> None:
        """An agent is gone."""
        self._wanted.pop(agent, None)
        self._loaded.pop(agent, None)

    async def invalidate(self) -> None:
        """Have it read its tools again, if it runs."""
        if self.process is not None:
            self.hold()
            try:
                client = await self._connected(start=False)
                await client.write("ctl", b"invalidate")
            except NinepError as error:
                _log.info("no tool server was told to read its tools again: %s", error)
            finally:
                self.release()

    async def close(self) -> None:
        """End it with everything it runs; its secret is of no use afterwards."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        await self._end()
        if self._ending:
            await asyncio.wait(self._ending, timeout=self._settings.cancel_s)
        life.forget(self._secret)

    def forget_all(self) -> None:
        """Remove what it has kept: its session is gone."""
        life.forget_state(toolsrv_state(f"unix!{self._socket}"))

    # How it is reached.

    async def _connected(self, *, start: bool = True) -> Client:
        if self._client is not None and not self._client.calls.lost:
            return self._client
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(start=start))
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, task: asyncio.Task[Client]) -> None:
        self._opening = None
        if task.cancelled() or task.exception() is not None:
            return
        self._disconnect()  # from the one that was lost
        self._client = task.result()
        self._follower = Follower(self._client, self._ended, self._settle, self._asked)
        self._settle()

    def _settle(self) -> None:
        """Close the connection when nobody uses it; look after what it was followed for when it was lost."""
        lost = self._client is not None and self._client.calls.lost
        if lost and self._follower is not None and self._follower.working and self.process is not None:
            self._disconnect()
            self._later(self.catch_up())
        elif self._users == 0 and not (self._follower is not None and self._follower.busy):
            self._disconnect()

    async def _open(self, *, start: bool) -> Client:
        found = life.listener(self._socket)
        self._found(found)
        if found is not None:
            try:
                return await self._connect()
            except (NinepError, OSError) as error:
                _log.warning("ending the tool server %d: it does not take us: %s", found.pid, error)
            await self._end()
        if not start:
            raise RefusedError(NO_TOOL_SERVER)
        await self._start()
        try:
            client = await self._connect()
        except OSError as error:
            raise RefusedError(f"the tool server cannot be reached: {reason(error)}") from None
        for agent, tools in self._wanted.items():
            await self._load(client, agent, tools)
        return client

    async def _connect(self, agent: str = "") -> Client:
        secret = life.secret(self._secret)
        return await Client.connect(f"unix!{self._socket}", uname=_UNAME, aname=agent, secret=secret)

    async def _start(self) -> None:
        settings = self._settings
        options = ["--cwd", self._cwd(), "--listen", f"unix!{self._socket}", "--idle-timeout", f"{settings.idle_s:g}s"]
        options += ["--bypass-timeout", f"{settings.bypass_s:g}s", *(["--yolo"] if settings.yolo else [])]
        self._loaded.clear()
        environ = {name: value for name, value in os.environ.items() if name != "OLLIE_BROKER_FD"}
        environ["OLLIE_ADDRESS"] = settings.address
        self._child = await life.start(options, life.secret(self._secret), environ, settings.start_s)
        self._found(life.listener(self._socket))

    async def _end(self) -> None:
        self._disconnect()
        if self.process is not None:
            await life.end(self.process, self._settings.cancel_s)
            self._found(None)
        if self._child is not None:
            await self._child.wait()
            self._child = None

    def _disconnect(self) -> None:
        client, follower = self._client, self._follower
        self._client = self._follower = None
        if client is not None:
            self._later(_hang_up(client, follower))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # How it is asked.

    async def _specs(self, agent: str, tools: Sequence[str]) -> tuple[ToolSpec, ...]:
        client = await self._connected()
        if agent not in self._wanted:
            self._wanted[agent] = tuple(tools)
            await self._load(client, agent, tools)
        revision = await client.rdwr("tools_rev", agent.encode())
        known = self._loaded.get(agent)
        if known is not None and known.revision == revision:
            return known.specs
        return await self._fetch(client, agent, revision)

    async def _load(self, client: Client, agent: str, tools: Sequence[str]) -> None:
        for tool in tools:
            try:
                await client.write("ctl", f"load {agent} {tool}".encode())
            except ConnectionLostError:
                raise
            except NinepError as error:
                _log.warning("agent %s has no tool %s: %s", agent, tool, error)

    async def _fetch(self, client: Client, agent: str, revision: bytes) -> tuple[ToolSpec, ...]:
        listed = await client.rdwr("tools", agent.encode())
        specs = msgspec.json.decode(listed, type=tuple[ToolSpec, ...])
        self._loaded[agent] = _Loaded(revision, specs)
        return specs

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
            client = await self._connected()
            return from_json(await client.rdwr("proc/new", payload.format(fields)))
        except ConnectionLostError:
            return text("the tool server ended, and what it ran ended with it", is_error=True)
        except (NinepError, ResultError, payload.PayloadError) as error:
            return text(str(error), is_error=True)

    async def _abandoned(self, task: asyncio.Task[ToolResult]) -> None:
        """Return when a cancelled call has ended. The reply to its Tflush or Tclunk says that nothing of it lives."""
        try:
            done, _ = await asyncio.wait({task}, timeout=self._settings.cancel_s)
        except asyncio.CancelledError:
            done = set()
        if not done:
            _log.error("ending the tool server of session %s: it does not end a call", self._session)
            await self._end()


async def _hang_up(client: Client, follower: Follower | None) -> None:
    if follower is not None:
        await follower.close()
    await client.close()


def sockets(settings: Settings) -> list[str]:
    """The sockets of tool servers that are there, living or not."""
    return [str(path) for path in Path(settings.sockets).glob("toolsrv.*") if path.is_socket()]


def forget_others(settings: Settings, sessions: Iterable[str]) -> None:
    """Remove the secrets of all sessions but these, by id, and what their tool servers have kept."""
    ids = list(sessions)
    kept = {_secret_path(settings, session) for session in ids}
    for path in Path(settings.secrets).glob("*.secret"):
        if str(path) not in kept:
            life.forget(str(path))
    states = {toolsrv_state(f"unix!{socket_path(settings, session)}") for session in ids}
    ours = toolsrv_state(f"unix!{settings.sockets}/toolsrv.")
    for found in Path(ours).parent.glob("*.pid"):
        state = str(found).removesuffix(".pid")
        if state.startswith(ours) and state not in states:
            life.forget_state(state)


def _secret_path(settings: Settings, session: str) -> str:
    return f"{settings.secrets}/{session}.secret"


def socket_path(settings: Settings, session: str) -> str:
    """The socket of a session's tool server; short, for a path of a socket has at most 107 bytes."""
    return socket_path_in(settings.sockets, session)


def socket_path_in(directory: str, session: str) -> str:
    """As `socket_path`; they all are of one length."""
    return f"{directory}/toolsrv.{session[-12:]:0>12}"
