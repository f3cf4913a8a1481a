"""Runs the migrations on the connection that `service.store.database.migrate` hands over."""

from __future__ import annotations

from alembic import context

from service.store.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
