"""The tables of the database.

What belongs to an agent refers to it by its object number, which is short and never used twice. A change of a table is
a migration in `migrations/versions/`; a test holds the two against each other.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata: Final = MetaData()


def _agent() -> Column[int]:
    return Column("agent", BigInteger, ForeignKey("agent.number", ondelete="CASCADE"), primary_key=True)


counter: Final = Table(
    "counter",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""The last number that was given away, by kind."""

session: Final = Table(
    "session",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("cwd", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
)

agent: Final = Table(
    "agent",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("session", Text, ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("cwd", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("settings", LargeBinary, nullable=False),
    Column("ceiling", LargeBinary, nullable=False),
    Column("parent", Text, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("busy", Boolean, nullable=False, default=False),
    Column("plan", LargeBinary, nullable=False, default=b""),
    Column("stats", LargeBinary, nullable=False, default=b""),
    Index("agent_session", "session"),
)
"""`busy`: a turn has begun and has not ended. `temporary`: it lives as long as the request that made it."""
Index("agent_busy", agent.c.session, sqlite_where=agent.c.busy)
Index("agent_temporary", agent.c.session, sqlite_where=agent.c.temporary)

record: Final = Table(
    "record",
    metadata,
    _agent(),
    Column("position", BigInteger, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""The history of an agent, one message a row."""

chunk: Final = Table(
    "chunk",
    metadata,
    _agent(),
    Column("log", Text, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""The conversation files, in pieces that follow each other without a gap."""

prompt: Final = Table(
    "prompt",
    metadata,
    _agent(),
    Column("entry", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""The prompts that wait. In one tree, so that a prompt is stored by writing one page."""
