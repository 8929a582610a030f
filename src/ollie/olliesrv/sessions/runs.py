"""The runs of a session's tool server, as its clients see them: never started for, and empty where none runs."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninep.client import Client
from ninep.errors import NOT_FOUND, NinepError
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.toolserver.relay import Counterpart
from ollie.olliesrv.toolserver.toolserver import ToolServer
from ollie.protocol import payload

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent
    from ollie.olliesrv.sessions.session import Session

_SHOWN_BYTES = 64 * 1024
_PID_BITS = 24


@dataclass(frozen=True)
class Run:
    """A run.

    Args:
        toolsrv: where it runs.
        agent: for which agent it is seen; empty for the owner, who sees those of all.
        number: its object number, of all runs of all sessions.
        pid: its number there.
        output_bytes: how long its output was when it was found.
    """

    toolsrv: ToolServer
    agent: str
    number: int
    pid: int
    output_bytes: int

    def file(self, name: str) -> Counterpart:
        """One of its files."""
        return Counterpart(self.toolsrv, self.agent, f"proc/{self.pid}/{name}")

    async def stat(self) -> bytes:
        """Its state, `key=value` lines."""
        async with self.toolsrv.visit(self.agent) as client:
            return await client.read(f"proc/{self.pid}/stat")

    async def control(self, command: str) -> None:
        """End it, signal it or forget it."""
        async with self.toolsrv.visit(self.agent) as client:
            await client.write(f"proc/{self.pid}/ctl", command.encode())


async def find(session: "Session", agent: str, name: str) -> Run | None:
    """The run of that number that is seen for the agent; None when there is none."""
    if session.toolsrv.process is None or not (name.isascii() and name.isdigit()):
        return None
    try:
        async with session.toolsrv.visit(agent) as client:
            length = (await client.stat(f"proc/{name}/out")).length
    except NinepError as error:
        if str(error) == NOT_FOUND:
            return None
        raise
    return _run(session, agent, int(name), length)


async def names(session: "Session", agent: str) -> list[tuple[str, Run]]:
    """The runs that are seen for the agent, with their names."""
    return [(pid, _run(session, agent, int(pid), 0)) for pid, *_ in await rows(session, agent)]


def _run(session: "Session", agent: str, pid: int, length: int) -> Run:
    # A session's number and a pid of its tool server are never used twice, so neither are both together.
    return Run(session.toolsrv, agent, session.number << _PID_BITS | pid, pid, length)


async def rows(session: "Session", agent: str) -> list[list[str]]:
    """The runs that are seen for the agent: pid, state and tool of each."""
    if session.toolsrv.process is None:
        return []
    async with session.toolsrv.visit(agent) as client:
        return await _rows(client)


async def commands(agent: "Agent") -> list[tuple[str, str, str]]:
    """The runs of the agent: pid, tool and command of each."""
    if agent.session.toolsrv.process is None:
        return []
    async with agent.session.toolsrv.visit(agent.id) as client:
        return [(pid, tool, (await _stat(client, pid)).get("command", "")) for pid, _, tool in await _rows(client)]


async def output(agent: "Agent", pid: str) -> bytes:
    """The end of what a run of the agent has printed so far."""
    async with _visit(agent, pid) as client:
        return await _output(client, pid)


async def command(agent: "Agent", pid: str, word: str, *, by: "Agent | None") -> None:
    """`term`, `kill` or `dismiss` a run of the agent."""
    agent.permit(by)
    async with _visit(agent, pid) as client:
        await client.write(f"proc/{pid}/ctl", word.encode())


@contextlib.asynccontextmanager
async def _visit(agent: "Agent", pid: str) -> AsyncIterator[Client]:
    """A connection to ask for a run by; `no such process: …` when the agent has none of that number."""
    if not (pid.isascii() and pid.isdigit()):
        raise RefusedError(f"not a process: {pid}")
    unknown = RefusedError(f"no such process: {pid}")
    if agent.session.toolsrv.process is None:
        raise unknown
    try:
        async with agent.session.toolsrv.visit(agent.id) as client:
            yield client
    except NinepError as error:
        if str(error) == NOT_FOUND:
            raise unknown from None
        raise


async def _output(client: Client, pid: str) -> bytes:
    """The end of an output as it is now; a read past that would wait."""
    length = (await client.stat(f"proc/{pid}/out")).length
    at = max(0, length - _SHOWN_BYTES)
    data = b""
    async with await client.open(f"proc/{pid}/out") as file:
        while at + len(data) < length and (piece := await file.read(length - at - len(data), at + len(data))):
            data += piece
    return data


async def _rows(client: Client) -> list[list[str]]:
    return [line.split("\t") for line in (await client.read("proc/list")).decode().splitlines()]


async def _stat(client: Client, pid: str) -> Mapping[str, str]:
    try:
        return payload.parse(await client.read(f"proc/{pid}/stat"))
    except NinepError:  # it was dismissed meanwhile
        return {}
