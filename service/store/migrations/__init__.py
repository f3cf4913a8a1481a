"""Alembic's scripts, run by `service.store.migrate` when a store opens."""
