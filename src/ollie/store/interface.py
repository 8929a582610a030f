"""What must survive, and the one interface to it.

A change (`put_…`, `set_…`, `append_…`, `clear_…`, `drop_…`, `enqueue`, `dequeue`) returns at once with a sequence
number and is seen by every read that follows. It is durable when `stored` of its number, or of any later one, has
returned. Changes are stored in the order in which they were made, and those made without an `await` between them are
stored together or not at all: so "take a prompt from the queue and write it into the history" needs no transaction of
its own. A change that could not be stored is kept, and stored as soon as it can be.

What belongs to an agent is in memory from `open_session` (or `put_agent`) to `release_session`. Only then it may be
asked for or changed, and lookups are synchronous. What can be long, a history or a range of a chat, is asynchronous.
"""

from collections.abc import Callable, Sequence
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
        temporary: it lives as long as the request that made it.
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
    temporary: bool = False
    created_at: float = 0.0


class Member(msgspec.Struct, frozen=True):
    """An agent in a list of many: the id of its session, its own, and its name."""

    session: str
    id: str
    name: str


class Queued(msgspec.Struct, frozen=True):
    """A prompt that waits for its turn: the number of its entry, and its text."""

    entry: int
    text: str


class Store(Protocol):
    """A store. Arguments named `agent` and `session` are ids."""

    def next_number(self) -> int:
        """A number for a new object, greater than every one given before, also before a restart."""
        ...

    async def stored(self, seq: Seq, trouble: Callable[[StoreError], None] | None = None) -> None:
        """Return when everything up to this change is durable.

        Args:
            seq: the number of the change.
            trouble: told of each attempt that fails; the wait goes on. Without it the first failure is raised.

        Raises:
            StoreError: it could not be stored; it is kept and tried again.
        """
        ...

    async def close(self) -> None:
        """Make everything durable and let go of the files; raise `StoreError` when something could not be stored."""
        ...

    # Sessions and agents.

    def put_session(self, row: SessionRow) -> Seq:
        """Create a session or replace what is stored of it."""
        ...

    def drop_session(self, session: str) -> Seq:
        """Forget a session with all its agents."""
        ...

    async def sessions(self) -> list[SessionRow]:
        """Every session as it is stored, in order of creation."""
        ...

    async def members(self) -> list[Member]:
        """Every agent as it is stored, in order of creation; of an open session it may be out of date."""
        ...

    async def unfinished(self) -> list[str]:
        """The ids of sessions with an agent that is busy, has a queue, or is temporary, as they are stored."""
        ...

    async def open_session(self, session: str) -> list[AgentRow]:
        """Bring what belongs to a session's agents into memory; the agents, in order of creation."""
        ...

    def release_session(self, session: str) -> None:
        """Let go of what belongs to a session's agents, as soon as all of it is durable; it may be opened meanwhile."""
        ...

    def put_agent(self, row: AgentRow) -> Seq:
        """Create an agent or replace what is stored of it."""
        ...

    def drop_agent(self, agent: str) -> Seq:
        """Forget an agent with its history, logs, queue, plan and counts."""
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

    def set_busy(self, agent: str, *, busy: bool) -> Seq:
        """Note that a turn has begun, or that it has ended."""
        ...

    def busy(self, agent: str) -> bool:
        """Whether a turn has begun and has not ended: after a restart, whether it was cut."""
        ...
