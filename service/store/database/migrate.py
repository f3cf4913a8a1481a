"""Schemas: which one a database has, and how it gets the newest.

A database that is empty gets the newest tables from whoever starts first. One that holds the tables
of another version is left as it is: `agenda upgrade` changes it, once, with a backup before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from service.config import ConfigError
from service.store.database.engine import hold_lock

# Alembic takes a third of a second to load: only what changes or compares schemas needs it.
if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

#: Key of PostgreSQL's advisory lock that lets one process migrate at a time.
_LOCK = 0x4147454E4441


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of the tables: its number, and what it does in a sentence."""

    revision: str
    summary: str


def migrate(engine: sa.Engine) -> None:
    """Make the newest tables in an empty database.

    The transaction holds the write lock from its start, so that of several processes one makes
    them and the others find the work done.

    Raises
    ------
    ConfigError
        If the database holds the tables of another version; the message says what to do.
    """
    with engine.begin() as connection:
        hold_lock(connection, _LOCK)
        present = revision_of(connection)
        if present is None:
            bring_to(connection, newest())
        elif present != newest():
            raise ConfigError(_advice(connection, present))


def upgrade(engine: sa.Engine) -> None:
    """Run the migrations that a database has not had yet, all or none.

    Raises
    ------
    ConfigError
        If the database is of a newer version of Agenda.
    """
    with engine.begin() as connection:
        hold_lock(connection, _LOCK)
        present = revision_of(connection)
        if present is not None and not is_known(present):
            raise ConfigError(_advice(connection, present))
        bring_to(connection, newest())


def bring_to(connection: sa.Connection, revision: str) -> None:
    """Run the migrations up to a revision, in the transaction of a connection."""
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def revision_of(connection: sa.Connection) -> str | None:
    """Return the number of the last migration that a database has had, or None."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def newest() -> str:
    """Return the number of the last migration there is: files are named by theirs, in order."""
    names = (one.name for one in (_folder() / "versions").iterdir() if one.name.endswith(".py"))
    return max(name.partition("_")[0] for name in names if name[0].isdigit())


def is_known(revision: str) -> bool:
    """Return whether a migration is one of this version's."""
    return any(one.revision == revision for one in _scripts().walk_revisions())


def migrations_after(revision: str | None) -> list[SchemaChange]:
    """Return the migrations that follow a revision, in order."""
    scripts = _scripts().iterate_revisions("head", revision or "base")
    found = [SchemaChange(str(one.revision), _first_line(one.doc)) for one in scripts]
    return [one for one in reversed(found) if one.revision != revision]


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""


def _advice(connection: sa.Connection, present: str) -> str:
    shown = connection.engine.url.render_as_string()
    if is_known(present):
        return (
            f"the database {shown} is of an older version of Agenda (its schema is {present}, this "
            f"one needs {newest()}): stop all its servers, then run 'agenda upgrade --database "
            "URL', which keeps a backup first"
        )
    return (
        f"the database {shown} was made by another, newer version of Agenda (its schema is "
        f"{present}, this one knows {newest()}): start that version"
    )


def _folder() -> Traversable:
    return files("service.store") / "migrations"


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_folder()))
    return config


@cache
def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())
