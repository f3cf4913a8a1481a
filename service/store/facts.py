"""Size and version numbers of a database for support, without its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from service.config import ConfigError
from service.store.engine import open_engine, opening
from service.store.schema import commits, head, metadata, newest, revision_of, snapshots

_READ_ONLY: Final = {"agenda_read_only": True}

#: Name of a fact -> the required table, and its query.
_QUERIES: Final = {
    "log_version": (head, sa.select(head.c.version)),
    "log_begins": (commits, sa.select(sa.func.min(commits.c.version))),
    "snapshot_version": (snapshots, sa.select(sa.func.max(snapshots.c.version))),
    "snapshot_bytes": (snapshots, sa.select(sa.func.max(sa.func.length(snapshots.c.body)))),
}


def database_facts(engine: sa.Engine) -> dict[str, Any]:
    """Return the revision of the tables, the version of the log, and the number of rows per table.

    The count of a missing table, as in a database of another version, is None.
    """
    with engine.connect().execution_options(**_READ_ONLY) as connection:
        there = set(sa.inspect(connection).get_table_names())
        rows = {
            name: _one(connection, sa.select(sa.func.count()).select_from(table))
            if name in there
            else None
            for name, table in sorted(metadata.tables.items())
        }
        facts = {
            "kind": engine.dialect.name,
            "revision": revision_of(connection),
            "newest_revision": newest(),
        }
        facts |= {
            name: _one(connection, query) if table.name in there else None
            for name, (table, query) in _QUERIES.items()
        }
        return {**facts, "rows": rows}


def facts_of_url(url: str) -> dict[str, Any]:
    """Return the facts of a database without changing it.

    Raises
    ------
    ConfigError
        If it cannot be read; the message has no password.
    """
    _require_file(url)
    with opening(url):
        engine = open_engine(url)
        try:
            return database_facts(engine)
        finally:
            engine.dispose()


def _require_file(url: str) -> None:
    """Refuse a missing file, because SQLite would create it."""
    with opening(url):
        made = sa.make_url(url)
    if made.get_backend_name() == "sqlite" and not Path(made.database or "").is_file():
        shown = made.render_as_string()
        raise ConfigError(f"the database {shown} cannot be opened: there is no such file")


def _one(connection: sa.Connection, query: sa.Select[Any]) -> Any:
    return connection.execute(query).scalar()
