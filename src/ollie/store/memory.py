"""A store that forgets everything with its process: for tests, and for servers that are thrown away.

It keeps the promises of the interface except durability. A barrier is answered at once but never in the same step of
the loop, as with a store on a disk, so that no caller comes to rely on less.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ollie.store.interface import AgentRow, LogName, Queued, Seq, SessionRow


@dataclass
class _Belongings:
    """What belongs to one agent."""

    records: list[bytes] = field(default_factory=list)
    logs: dict[LogName, bytearray] = field(default_factory=lambda: {log: bytearray() for log in LogName})
    queue: dict[int, str] = field(default_factory=dict)
    plan: bytes = b""
    stats: bytes = b""


class MemoryStore:
    """A `Store` in memory."""

    def __init__(self) -> None:
        self._seq = 0
        self._number = 0
        self._sessions: dict[str, SessionRow] = {}
        self._agents: dict[str, AgentRow] = {}
        self._belongings: dict[str, _Belongings] = {}

    def next_number(self) -> int:
        """A number for a new object."""
        self._number += 1
        return self._number

    async def stored(self, seq: Seq) -> None:
        """Return in a later step of the loop."""
        assert 0 <= seq <= self._seq
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Nothing is to be let go of."""

    def put_session(self, row: SessionRow) -> Seq:
        """Create or replace a session."""
        self._sessions[row.id] = row
        return self._changed()

    def drop_session(self, session: str) -> Seq:
        """Forget a session with all its agents."""
        self._sessions.pop(session, None)
        for row in self.agents(session):
            self.drop_agent(row.id)
        return self._changed()

    def sessions(self) -> list[SessionRow]:
        """Every session, in order of creation."""
        return list(self._sessions.values())

    def put_agent(self, row: AgentRow) -> Seq:
        """Create or replace an agent."""
        self._agents[row.id] = row
        self._belongings.setdefault(row.id, _Belongings())
        return self._changed()

    def drop_agent(self, agent: str) -> Seq:
        """Forget an agent and what belongs to it."""
        self._agents.pop(agent, None)
        self._belongings.pop(agent, None)
        return self._changed()

    def agents(self, session: str) -> list[AgentRow]:
        """Every agent of a session, in order of creation."""
        return [row for row in self._agents.values() if row.session == session]

    def append_records(self, agent: str, records: Sequence[bytes]) -> Seq:
        """Add to an agent's history."""
        self._belongings[agent].records.extend(records)
        return self._changed()

    def clear_records(self, agent: str) -> Seq:
        """Forget an agent's history."""
        self._belongings[agent].records.clear()
        return self._changed()

    async def records(self, agent: str) -> list[bytes]:
        """An agent's history, oldest first."""
        return list(self._belongings[agent].records)

    def append_log(self, agent: str, log: LogName, data: bytes) -> Seq:
        """Add bytes to a conversation file."""
        self._belongings[agent].logs[log] += data
        return self._changed()

    def log_length(self, agent: str, log: LogName) -> int:
        """The bytes of a conversation file."""
        return len(self._belongings[agent].logs[log])

    async def read_log(self, agent: str, log: LogName, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`."""
        return bytes(memoryview(self._belongings[agent].logs[log])[offset : offset + count])

    def enqueue(self, agent: str, text: str) -> Seq:
        """Add a prompt to the end of an agent's queue."""
        seq = self._changed()
        self._belongings[agent].queue[seq] = text
        return seq

    def dequeue(self, agent: str, entry: int) -> Seq:
        """Take one prompt out of an agent's queue."""
        self._belongings[agent].queue.pop(entry, None)
        return self._changed()

    def queue(self, agent: str) -> list[Queued]:
        """An agent's prompts that wait, oldest first."""
        return [Queued(entry, text) for entry, text in self._belongings[agent].queue.items()]

    def put_plan(self, agent: str, plan: bytes) -> Seq:
        """Replace an agent's plan."""
        self._belongings[agent].plan = plan
        return self._changed()

    def plan(self, agent: str) -> bytes:
        """An agent's plan."""
        return self._belongings[agent].plan

    def put_stats(self, agent: str, stats: bytes) -> Seq:
        """Replace an agent's counts."""
        self._belongings[agent].stats = stats
        return self._changed()

    def stats(self, agent: str) -> bytes:
        """An agent's counts."""
        return self._belongings[agent].stats

    def _changed(self) -> Seq:
        self._seq += 1
        return Seq(self._seq)
