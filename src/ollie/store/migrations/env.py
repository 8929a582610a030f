"""Run by Alembic: applies migrations to the engine that `database.py` hands over, all of them or none."""

from alembic import context

from ollie.store.database import whole
from ollie.store.schema import metadata

with whole(context.config.attributes["engine"]) as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
    context.run_migrations()
