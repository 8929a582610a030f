"""The file of the store: new, old, later, damaged, torn."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from stocked import SESSION, agent

from ollie.store import database, migrations
from ollie.store.database import MIGRATIONS, VERSIONS, connect, open_database
from ollie.store.rows import LogName, StoreError
from ollie.store.schema import metadata
from ollie.store.sqlite import Store

Change = Callable[[bytes], bytes]
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("session", recreate="always") as batch:
        batch.add_column(sa.Column("remote", sa.Text(), server_default="here"))
    {more}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ollie.db")


async def filled(path: str) -> None:
    """A store with a session that has an agent."""
    store = await Store.open(path)
    store.put_session(SESSION)
    store.put_agent(agent("a1", 2))
    store.append_log("a1", LogName.CHAT, b"hello")
    await store.close()


def second(tmp_path: Path, more: str = "pass") -> str:
    """A directory of migrations with one more."""
    directory = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, directory)
    (directory / "versions" / "0002_second.py").write_text(SECOND.format(more=more))
    return str(directory)


def rows(path: str, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def change(path: str, how: Change) -> None:
    Path(path).write_bytes(how(Path(path).read_bytes()))


def test_a_new_file_is_its_owners(path: str) -> None:
    """With the present schema, in WAL mode."""
    open_database(path).dispose()
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert rows(path, "SELECT version_num FROM alembic_version") == [(VERSIONS[-1],)]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_the_migrations_are_those_that_are_known() -> None:
    """By name, in order."""
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == VERSIONS


def test_the_migrations_make_the_schema(path: str) -> None:
    """From nothing to what `schema.py` says."""
    engine = connect(path)
    with database.whole(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    database._upgrade(path, "none", VERSIONS[-1], MIGRATIONS)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    open_database(f"{path}.new").dispose()
    assert [name for name, _ in rows(path, indexes)] == [name for name, _ in rows(f"{path}.new", indexes)]
    engine.dispose()


async def test_an_earlier_schema_is_upgraded_after_a_backup(path: str, tmp_path: Path) -> None:
    """What belongs to the rows of a table that is made anew stays; the backup is the store as it was."""
    await filled(path)
    open_database(path, ("0001", "0002"), second(tmp_path)).dispose()
    assert rows(path, "SELECT version_num FROM alembic_version") == [("0002",)]
    assert rows(path, "SELECT id, remote FROM session") == [("s1", "here")]
    assert rows(path, "SELECT data FROM chunk") == [(b"hello",)]
    store = await Store.open(f"{path}.0001")
    assert await store.sessions() == [SESSION]
    await store.open_session("s1")
    assert await store.read_log("a1", LogName.CHAT, 0, 10) == b"hello"
    await store.close()


async def test_an_upgrade_that_fails_changes_nothing(path: str, tmp_path: Path) -> None:
    """The error says why, and the earlier Ollie can use the store."""
    await filled(path)
    with pytest.raises(StoreError, match=r"^the store cannot be used: .*/ollie.db: no such table: nope "):
        open_database(path, ("0001", "0002"), second(tmp_path, "op.execute('DELETE FROM nope')"))
    store = await Store.open(path)
    assert await store.sessions() == [SESSION]
    await store.close()


def test_a_later_schema_is_refused(path: str, tmp_path: Path) -> None:
    """And not touched."""
    open_database(path).dispose()
    open_database(path, ("0001", "0002"), second(tmp_path)).dispose()
    before = Path(path).read_bytes()
    with pytest.raises(StoreError, match=r"^the store is of a later Ollie: .* \(schema 0002, known up to 0001\)$"):
        open_database(path)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda data: b"x" * len(data), "file is not a database"),
        (lambda data: data[:100] + b"\xff" * 3996 + data[4096:], "malformed"),
    ],
)
async def test_a_damaged_file_is_said_to_be_so(path: str, damage: Change, error: str) -> None:
    """In one line, with what to do."""
    await filled(path)
    change(path, damage)
    with pytest.raises(StoreError, match=rf"^the store cannot be used: \S+/ollie\.db: .*{error}.* \(move it away, "):
        await Store.open(path)


def test_a_directory_that_cannot_be_written(path: str) -> None:
    """Is said to be so."""
    with pytest.raises(StoreError, match=r"^the store cannot be used: /proc/ollie.db: "):
        open_database("/proc/ollie.db")


@pytest.mark.parametrize(
    ("tear", "left"),
    [
        (lambda log: log[:-1], b"one"),
        (lambda log: log[:-4000], b"one"),
        (lambda log: log + b"\0" * 10_000, b"onetwo"),
        (lambda log: log + log[-4096:], b"onetwo"),
        (lambda log: log[:-100] + b"\0" * 100, b"one"),
    ],
)
async def test_a_torn_end_costs_what_was_not_answered(path: str, tmp_path: Path, tear: Change, left: bytes) -> None:
    """Agents and models 3: a write that was cut is as if it had not been; all before it is there."""
    store = await Store.open(path)
    store.put_session(SESSION)
    store.put_agent(agent("a1", 2))
    await store.stored(store.append_log("a1", LogName.CHAT, b"one"))
    await store.stored(store.append_log("a1", LogName.CHAT, b"two"))
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    change(f"{copy}-wal", tear)
    await store.close()
    torn = await Store.open(str(copy))
    await torn.open_session("s1")
    assert await torn.read_log("a1", LogName.CHAT, 0, 100) == left
    await torn.stored(torn.append_log("a1", LogName.CHAT, b"!"))
    assert await torn.read_log("a1", LogName.CHAT, 0, 100) == left + b"!"
    await torn.close()
