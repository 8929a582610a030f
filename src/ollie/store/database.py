"""The database file: made when missing, brought to the present schema, refused when it is of a later one.

`VERSIONS` names the schemas in their order; the last one is that of `schema.py`. A file of an earlier version is copied
first and then migrated by Alembic, which is loaded for that alone.
"""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DatabaseError

from ollie.store.interface import StoreError
from ollie.store.schema import metadata

VERSIONS: Final = ("0001",)
_VERSION_TABLE: Final = "alembic_version"


def open_database(path: str) -> Engine:
    """The database at a path, ready for use.

    Raises:
        StoreError: it cannot be opened, is damaged, or is of a later version.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    engine = connect(path)
    try:
        version = _version(engine)
        if version is None:
            _create(engine)
        elif version not in VERSIONS:
            raise StoreError(f"store is of a later Ollie: {path} (schema {version}, known up to {VERSIONS[-1]})")
        elif version != VERSIONS[-1]:
            _upgrade(engine, path, version)
    except DatabaseError as error:
        raise StoreError(f"store cannot be used: {path}: {error.orig}") from None
    return engine


def connect(path: str) -> Engine:
    """An engine whose connections have the settings that the store's promises rest on."""
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {setting}")


def _version(engine: Engine) -> str | None:
    """The version of the schema, None for an empty file."""
    if not inspect(engine).has_table(_VERSION_TABLE):
        return None
    with engine.connect() as connection:
        version: str | None = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))  # noqa: S608  constant
    return version


def _create(engine: Engine) -> None:
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(text(f"CREATE TABLE {_VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {_VERSION_TABLE} VALUES (:version)"), {"version": VERSIONS[-1]})  # noqa: S608


def _upgrade(engine: Engine, path: str, version: str) -> None:
    from alembic import command  # noqa: PLC0415  an upgrade is rare, and Alembic is large
    from alembic.config import Config  # noqa: PLC0415

    backup(path, f"{path}.{version}")
    config = Config()
    config.set_main_option("script_location", "ollie.store:migrations")
    config.attributes["engine"] = engine
    command.upgrade(config, VERSIONS[-1])


def backup(path: str, to: str) -> None:
    """Copy a database that may be in use; the copy is whole or does not exist."""
    part = f"{to}.part"
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(part)) as target:
        source.backup(target)
    Path(part).replace(to)
