"""Run by Alembic: applies migrations to the engine that `database.py` hands over."""

from alembic import context

from ollie.store.schema import metadata

with context.config.attributes["engine"].begin() as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
