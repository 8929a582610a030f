"""The database file: made when missing, brought to the present schema, refused when it is of a later one.

`VERSIONS` names the schemas in their order; the last one is that of `schema.py`. A file of an earlier version is copied
first and then migrated by Alembic, which is loaded for that alone. Both are whole or have not happened: a file is
never left between two versions.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from ollie.protocol.words import reason
from ollie.store.rows import StoreError
from ollie.store.schema import metadata

VERSIONS: Final = ("0001",)
MIGRATIONS: Final = "ollie.store:migrations"
_VERSION_TABLE: Final = "alembic_version"


def open_database(path: str, versions: Sequence[str] = VERSIONS, migrations: str = MIGRATIONS) -> Engine:
    """The database at a path, ready for use.

    Args:
        path: the file; its directory exists.
        versions: the schemas that are known, in their order.
        migrations: where Alembic finds the ways from one to the next.

    Raises:
        StoreError: it cannot be opened, is damaged, is of a later version, or cannot be upgraded.
    """
    with _explained(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _sync_directory(path)
        engine = connect(path)
        version = _version(engine)
        if version is None:
            _create(engine, versions[-1])
        elif version not in versions:
            raise StoreError(f"the store is of a later Ollie: {path} (schema {version}, known up to {versions[-1]})")
        elif version != versions[-1]:
            engine.dispose()
            _upgrade(path, version, versions[-1], migrations)
    return engine


def connect(path: str, *, foreign_keys: bool = True) -> Engine:
    """An engine whose connections have the settings that the store's promises rest on.

    Args:
        path: the file.
        foreign_keys: whether rows go with the rows they refer to; not while tables are made anew by a migration.
    """
    settings = ("journal_mode=WAL", "synchronous=FULL", f"foreign_keys={foreign_keys}", "busy_timeout=10000")

    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")

    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", prepare)
    return engine


@contextlib.contextmanager
def whole(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction that changes tables as well: the driver begins none for that by itself."""
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection
        connection.commit()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(
            f"the store cannot be used: {path}: {reason(cause)} (move it away, or put a backup there)"
        ) from None


def _version(engine: Engine) -> str | None:
    """The version of the schema, None for an empty file."""
    if not inspect(engine).has_table(_VERSION_TABLE):
        return None
    with engine.connect() as connection:
        version: str | None = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))  # noqa: S608  constant
    return version


def _create(engine: Engine, version: str) -> None:
    with whole(engine) as connection:
        metadata.create_all(connection)
        connection.execute(text(f"CREATE TABLE {_VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {_VERSION_TABLE} VALUES (:version)"), {"version": version})  # noqa: S608  ours


def _upgrade(path: str, version: str, to: str, migrations: str) -> None:
    from alembic import command  # noqa: PLC0415  an upgrade is rare, and Alembic is large
    from alembic.config import Config  # noqa: PLC0415  as above

    backup(path, f"{path}.{version}")
    engine = connect(path, foreign_keys=False)
    config = Config()
    config.set_main_option("script_location", migrations)
    config.attributes["engine"] = engine
    try:
        command.upgrade(config, to)
    finally:
        engine.dispose()


def backup(path: str, to: str) -> None:
    """Copy a database that may be in use; the copy is whole or does not exist."""
    part = f"{to}.part"
    Path(part).unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(part)) as target:
        source.backup(target)
    Path(part).replace(to)
    _sync_directory(to)


def _sync_directory(path: str) -> None:
    """Have the name of a file survive power loss as its content does: fsync(2), notes."""
    fd = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
