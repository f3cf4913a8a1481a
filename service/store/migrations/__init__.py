"""Alembic's scripts, run by `service.store.database.migrate` when a store opens."""
