"""What must survive, and the one interface to it.

A change (`put_…`, `append_…`, `drop_…`, `enqueue`, `dequeue`) returns at once with a sequence number and is seen by
every read that follows. It is durable when `stored` of its number, or of any later one, has returned. Changes are
stored in the order in which they were made, and those made without an `await` between them are stored together or not
at all: so "take a prompt from the queue and write it into the history" needs no transaction of its own.

Lookups are synchronous and short. What can be long, a history or a range of a chat, is asynchronous.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NewType, Protocol

import msgspec

from ninep.errors import NinepError

Seq = NewType("Seq", int)
"""The number of a change, growing; 0 stands for a time before the first."""

Setting = str | int | float | bool | list[str]
"""A value of `cfg`."""


class StoreError(NinepError):
    """The store cannot do what it was asked; its text is the ename."""


class LogName(StrEnum):
    """The two conversation files that an agent has."""

    CHAT = "chat"
    CHAT_RAW = "chat.raw"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is stored.

    Args:
        id: a UUIDv7.
        number: its object number, never given to another object.
        name: unique among the sessions that live.
        cwd: the working directory of its agents when they name none, or empty.
        paused: whether its agents hold their queues.
        created_at: seconds since the epoch.
    """

    id: str
    number: int
    name: str
    cwd: str = ""
    paused: bool = False
    created_at: float = 0.0


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as it is stored.

    Args:
        id: a UUIDv7.
        number: its object number, never given to another object.
        session: the id of its session.
        name: unique among the agents of its session that live.
        cwd: its working directory, absolute.
        profile: the name of its profile.
        settings: what was set for it alone, by key of `cfg`.
        ceiling: its upper bound, encoded; opaque to the store.
        parent: the id of the agent that made it, or empty.
        created_at: seconds since the epoch.
    """

    id: str
    number: int
    session: str
    name: str
    cwd: str
    profile: str
    settings: dict[str, Setting]
    ceiling: bytes
    parent: str = ""
    created_at: float = 0.0


class Queued(msgspec.Struct, frozen=True):
    """A prompt that waits for its turn: the number of its entry, and its text."""

    entry: int
    text: str


class Store(Protocol):
    """A store. Arguments named `agent` and `session` are ids."""

    def next_number(self) -> int:
        """A number for a new object, greater than every one given before, also before a restart."""
        ...

    async def stored(self, seq: Seq) -> None:
        """Return when everything up to this change is durable; raise `StoreError` when it cannot be made so."""
        ...

    async def close(self) -> None:
        """Make everything durable and let go of the files."""
        ...

    # Sessions and agents.

    def put_session(self, row: SessionRow) -> Seq:
        """Create a session or replace what is stored of it."""
        ...

    def drop_session(self, session: str) -> Seq:
        """Forget a session with all its agents."""
        ...

    def sessions(self) -> list[SessionRow]:
        """Every session, in order of creation."""
        ...

    def put_agent(self, row: AgentRow) -> Seq:
        """Create an agent or replace what is stored of it."""
        ...

    def drop_agent(self, agent: str) -> Seq:
        """Forget an agent with its history, logs, queue, plan and counts."""
        ...

    def agents(self, session: str) -> list[AgentRow]:
        """Every agent of a session, in order of creation."""
        ...

    # What belongs to an agent.

    def append_records(self, agent: str, records: Sequence[bytes]) -> Seq:
        """Add to an agent's history."""
        ...

    def clear_records(self, agent: str) -> Seq:
        """Forget an agent's history; its chat stays."""
        ...

    async def records(self, agent: str) -> list[bytes]:
        """An agent's history, oldest first."""
        ...

    def append_log(self, agent: str, log: LogName, data: bytes) -> Seq:
        """Add bytes to the end of a conversation file."""
        ...

    def log_length(self, agent: str, log: LogName) -> int:
        """The bytes of a conversation file."""
        ...

    async def read_log(self, agent: str, log: LogName, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; empty at and after the end."""
        ...

    def enqueue(self, agent: str, text: str) -> Seq:
        """Add a prompt to the end of an agent's queue."""
        ...

    def dequeue(self, agent: str, entry: int) -> Seq:
        """Take one prompt out of an agent's queue."""
        ...

    def queue(self, agent: str) -> list[Queued]:
        """An agent's prompts that wait, oldest first."""
        ...

    def put_plan(self, agent: str, plan: bytes) -> Seq:
        """Replace an agent's plan."""
        ...

    def plan(self, agent: str) -> bytes:
        """An agent's plan, empty when it has none."""
        ...

    def put_stats(self, agent: str, stats: bytes) -> Seq:
        """Replace an agent's counts, encoded; opaque to the store."""
        ...

    def stats(self, agent: str) -> bytes:
        """An agent's counts, empty when there are none yet."""
        ...
