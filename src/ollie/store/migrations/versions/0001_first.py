"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "counter",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "session",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cwd", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_table(
        "agent",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cwd", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("settings", sa.LargeBinary(), nullable=False),
        sa.Column("ceiling", sa.LargeBinary(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("temporary", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("busy", sa.Boolean(), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("stats", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["session.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("agent_busy", "agent", ["session"], unique=False, sqlite_where=sa.text("busy"))
    op.create_index("agent_temporary", "agent", ["session"], unique=False, sqlite_where=sa.text("temporary"))
    op.create_index("agent_session", "agent", ["session"], unique=False)
    op.create_table(
        "chunk",
        sa.Column("agent", sa.BigInteger(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent", "log", "offset"),
    )
    op.create_table(
        "prompt",
        sa.Column("agent", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent", "entry"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "record",
        sa.Column("agent", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent", "position"),
    )
