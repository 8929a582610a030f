"""What the store keeps, as values."""

from enum import StrEnum
from typing import NewType

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
