"""Backup, restore and upgrade of a whole database, consistent while servers write to it.

The file is a SQLite database with the tables of the source's schema, whatever the source is. So a
backup of one kind can be restored into another: this migrates SQLite to PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from service.config import ConfigError
from service.store.engine import open_engine, opening
from service.store.schema import (
    SchemaChange,
    bring_to,
    changes_after,
    is_known,
    newest,
    revision_of,
    upgrade,
)

#: Suffix of the name of an incomplete backup.
_PARTIAL: Final = ".partial"

_HEAD: Final = sa.text("SELECT max(version) FROM head")
_LOGGED: Final = sa.text("SELECT max(version) FROM commits")

#: Rows read and written at a time.
_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a backup.

    Attributes
    ----------
    schema
        Number of the last schema change in its database.
    version
        Version of the Plan.
    rows
        Rows by table.
    """

    schema: str
    version: int
    rows: Mapping[str, int]


def back_up(url: str, file: Path) -> Contents:
    """Write a snapshot of the database of `url` into `file`; servers continue meanwhile.

    Raises
    ------
    ConfigError
        If there is no such database, or `file` exists.
    """
    if file.exists():
        raise ConfigError(f"{file} already exists; name another file")
    partial = file.with_name(file.name + _PARTIAL)
    partial.unlink(missing_ok=True)
    # It contains what clients submitted, so only its creator may read it.
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with _reading(url) as source:
            if source.dialect.name == "sqlite":
                _copy_file(Path(str(source.engine.url.database)), partial)
            else:
                _export(source, partial)
        found = contents_of(partial)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)
    return found


def restore(file: Path, url: str) -> Contents:
    """Fill the empty database of `url` from a backup, all or nothing, with the backup's schema.

    Raises
    ------
    ConfigError
        If `file` is not a backup, or of a newer version, or the database is not empty.
    """
    found = contents_of(file)
    if not is_known(found.schema):
        raise ConfigError(
            f"{file} is a backup of a newer version of Agenda (its schema is {found.schema}, this "
            f"version has {newest()}): restore it with that version"
        )
    with opening(url):
        engine = open_engine(url)
        source = _backup_engine(file)
        try:
            with engine.begin() as target, source.connect() as reading:
                _require_empty(target)
                _copy_rows(reading, target, found.schema)
        finally:
            engine.dispose()
            source.dispose()
    return found


def contents_of(file: Path) -> Contents:
    """Return the contents of a backup, after a check of its integrity.

    Raises
    ------
    ConfigError
        If it is damaged, or not a backup.
    """
    engine = _backup_engine(file)
    try:
        with engine.connect() as connection:
            fault = connection.exec_driver_sql("PRAGMA integrity_check").scalar_one()
            schema = revision_of(connection)
            if fault != "ok" or schema is None:
                raise ConfigError(
                    f"{file} is not a backup of Agenda: {fault if schema else 'empty'}"
                )
            names = set(sa.inspect(connection).get_table_names())
            rows = {
                name: int(connection.execute(sa.select(sa.func.count()).select_from(
                    sa.table(name))).scalar_one())
                for name in sorted(names)
            }  # fmt: skip
            version = connection.execute(_HEAD if "head" in names else _LOGGED).scalar_one() or 0
            return Contents(schema, int(version), rows)
    except sa.exc.DatabaseError as error:
        raise ConfigError(f"{file} is not a backup of Agenda: {error.orig}") from error
    finally:
        engine.dispose()


def require_file(url: str) -> None:
    """Refuse a missing SQLite database: opening it would create it.

    Raises
    ------
    ConfigError
        With the file's name.
    """
    with opening(url):
        made = sa.make_url(url)
    if made.get_backend_name() == "sqlite" and not Path(made.database or "").is_file():
        raise ConfigError(f"there is no database {made.database}")


@contextmanager
def _reading(url: str) -> Iterator[sa.Connection]:
    """Yield a connection with a consistent snapshot of the database.

    Raises
    ------
    ConfigError
        If it is not a database of Agenda.
    """
    require_file(url)
    with opening(url):
        engine = open_engine(url)
        try:
            with engine.connect() as connection:
                if engine.dialect.name != "sqlite":
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                    connection.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
                else:
                    connection = connection.execution_options(agenda_read_only=True)
                if revision_of(connection) is None:
                    shown = engine.url.render_as_string()
                    raise ConfigError(f"the database {shown} has no tables of Agenda")
                yield connection
        finally:
            engine.dispose()


def _copy_file(database: Path, target: Path) -> None:
    """Copy a SQLite database page by page, consistently and without blocking writers."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log next to it


def _export(source: sa.Connection, target: Path) -> None:
    revision = revision_of(source)
    assert revision is not None
    engine = _backup_engine(target)
    try:
        with engine.begin() as connection:
            _copy_rows(source, connection, revision)
    finally:
        engine.dispose()


def _backup_engine(file: Path) -> sa.Engine:
    """Return an engine for a backup: a plain SQLite file used by one process."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    return sa.create_engine(sa.URL.create("sqlite", database=str(file)))


def _require_empty(target: sa.Connection) -> None:
    tables = sa.inspect(target).get_table_names()
    if tables:
        shown = target.engine.url.render_as_string()
        raise ConfigError(
            f"the database {shown} is not empty: it holds {', '.join(sorted(tables)[:3])}; "
            "restore into an empty one"
        )


def _copy_rows(source: sa.Connection, target: sa.Connection, revision: str) -> dict[str, int]:
    """Create the tables of a revision in an empty database and fill them; return rows by table.

    Both transactions belong to the caller: reads are consistent, writes are all or nothing.
    """
    bring_to(target, revision)
    counts: dict[str, int] = {}
    there, wanted = _tables(source), _tables(target)
    for name, table in wanted.items():
        target.execute(sa.delete(table))  # creating the tables may have inserted a row
        counts[name] = 0
        for rows in _parts(source, there[name]):
            target.execute(sa.insert(table), rows)
            counts[name] += len(rows)
        _go_on_counting(target, table)
    return counts


def _tables(connection: sa.Connection) -> dict[str, sa.Table]:
    """Return the existing tables, referenced ones first."""
    found = sa.MetaData()
    found.reflect(connection)
    return {one.name: one for one in found.sorted_tables}


def _parts(source: sa.Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in batches."""
    streamed = source.execution_options(stream_results=True, yield_per=_ROWS)
    for part in streamed.execute(sa.select(table)).mappings().partitions(_ROWS):
        yield [dict(row) for row in part]


def _go_on_counting(target: sa.Connection, table: sa.Table) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    if target.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        sequence = target.execute(
            sa.text("SELECT pg_get_serial_sequence(:table, :column)"),
            {"table": table.name, "column": column.name},
        ).scalar_one()
        last = sequence and target.execute(sa.select(sa.func.max(column))).scalar_one()
        if last:
            target.execute(
                sa.text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last}
            )


@dataclass(frozen=True, slots=True)
class Outlook:
    """Preview of an upgrade.

    Attributes
    ----------
    schema, newest
        Number of the last schema change in the database, and of the newest one.
    steps
        The schema changes between them.
    """

    schema: str
    newest: str
    steps: Sequence[SchemaChange]


def outlook(url: str) -> Outlook:
    """Return the steps of an upgrade of a database, without a change.

    Raises
    ------
    ConfigError
        If it is not a database of Agenda, or of a newer version.
    """
    require_file(url)
    with opening(url):
        engine = open_engine(url)
        try:
            with engine.connect().execution_options(agenda_read_only=True) as connection:
                present = revision_of(connection)
        finally:
            engine.dispose()
    shown = sa.make_url(url).render_as_string()
    if present is None:
        raise ConfigError(f"the database {shown} has no tables of Agenda; there is nothing to do")
    if not is_known(present):
        raise ConfigError(
            f"the database {shown} is of a newer version of Agenda (its schema is {present}, this "
            f"version has {newest()}): start that version"
        )
    return Outlook(present, newest(), changes_after(present))


def bring_up_to_date(url: str, backup: Path) -> Contents:
    """Make a backup, then apply the changes, all or none; return the backup's contents.

    Raises
    ------
    ConfigError
        As `outlook` and `back_up`.
    """
    kept = back_up(url, backup)
    upgrade_in_place(url)
    return kept


def upgrade_in_place(url: str) -> None:
    """Apply the missing schema changes to a database, without a backup."""
    with opening(url):
        engine = open_engine(url)
        try:
            upgrade(engine)
        finally:
            engine.dispose()
