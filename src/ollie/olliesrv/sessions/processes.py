"""The runs of a session's tool server, as its clients see them: never started for, and empty where none runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninep.client import Client
from ninep.errors import NOT_FOUND, NinepError
from ollie.olliesrv.errors import RefusedError
from ollie.olliesrv.toolserver.client import ToolServer
from ollie.olliesrv.toolserver.relay import Counterpart
from ollie.protocol import payload

if TYPE_CHECKING:
    from ollie.olliesrv.sessions.agent import Agent
    from ollie.olliesrv.sessions.session import Session

_SHOWN_BYTES = 64 * 1024
_PID_BITS = 24
_ORDWR = 2


@dataclass(frozen=True)
class Process:
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

    async def stat_text(self) -> bytes:
        """Its state, `key=value` lines."""
        async with self.toolsrv.visit(self.agent) as client:
            return await client.read(f"proc/{self.pid}/stat")

    async def command(self, text: str) -> str:
        """End or dismiss it; nothing is answered."""
        async with self.toolsrv.visit(self.agent) as client:
            await client.write(f"proc/{self.pid}/ctl", text.encode())
        return ""


async def find(session: "Session", agent: str, name: str) -> Process | None:
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
    return _process(session, agent, int(name), length)


async def names(session: "Session", agent: str) -> list[tuple[str, Process]]:
    """The runs that are seen for the agent, with their names."""
    if session.toolsrv.process is None:
        return []
    async with session.toolsrv.visit(agent) as client:
        pids = [int(row[0]) for row in await _rows(client)]
    return [(str(pid), _process(session, agent, pid, 0)) for pid in pids]


def _process(session: "Session", agent: str, pid: int, length: int) -> Process:
    # A session's number and a pid of its tool server are never used twice, so neither are both together.
    return Process(session.toolsrv, agent, session.number << _PID_BITS | pid, pid, length)


async def list_text(agent: "Agent") -> str:
    """`pid<tab>state<tab>tool`, a line for each run of the agent."""
    toolsrv = agent.session.toolsrv
    if toolsrv.process is None:
        return ""
    async with toolsrv.visit(agent.id) as client:
        return (await client.read("proc/list")).decode()


async def top_text(agent: "Agent") -> str:
    """A table for people: the runs of the agent with pid, tool and command."""
    rows = [("PID", "TOOL", "CMD")]
    if agent.session.toolsrv.process is not None:
        async with agent.session.toolsrv.visit(agent.id) as client:
            for pid, _, tool in await _rows(client):
                rows.append((pid, tool, (await _stat(client, pid)).get("command", "")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = (f"{pid:<{widths[0]}}  {tool:<{widths[1]}}  {' '.join(cmd.split())}" for pid, tool, cmd in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


async def command(agent: "Agent", word: str, pid: str) -> str:
    """`term`, `kill`, `dismiss` a run of the agent, or `out`: the end of what it has printed so far."""
    if not (pid.isascii() and pid.isdigit()):
        raise RefusedError(f"not a process: {pid}" if pid else f"no process given: proc {word} PID")
    toolsrv = agent.session.toolsrv
    if toolsrv.process is None:
        raise RefusedError(f"no such process: {pid}")
    try:
        async with toolsrv.visit(agent.id) as client:
            if word == "out":
                return (await _output(client, pid)).decode(errors="replace")
            await client.write(f"proc/{pid}/ctl", word.encode())
    except NinepError as error:
        if str(error) == NOT_FOUND:
            raise RefusedError(f"no such process: {pid}") from None
        raise
    return {"term": "terminated", "kill": "killed", "dismiss": "dismissed"}[word]


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
