"""Brings a database to the newest tables, once, whoever starts first."""

from __future__ import annotations

from importlib.resources import files

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from service.store.engine import hold_lock

#: Key of PostgreSQL's advisory lock that lets one process migrate at a time.
_LOCK = 0x4147454E4441


def migrate(engine: sa.Engine) -> None:
    """Run the migrations that `engine`'s database has not had yet.

    The transaction holds the write lock from its start, so that of several processes one migrates
    and the others find the work done.
    """
    config = Config()
    config.set_main_option("script_location", str(files("service.store") / "migrations"))
    newest = ScriptDirectory.from_config(config).get_current_head()
    with engine.begin() as connection:
        hold_lock(connection, _LOCK)
        if MigrationContext.configure(connection).get_current_revision() != newest:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
