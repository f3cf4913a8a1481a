"""Backup and restore: a whole database as one file, consistent while servers write to it.

The file is a SQLite database with the tables of the source's schema, whatever the source is. So a
backup of one kind can be restored into another: this migrates SQLite to PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from service.config import ConfigError
from service.maintenance.copying import copy_rows
from service.store.engine import open_engine, opening
from service.store.schema import is_known, newest, revision_of

#: Suffix of the name of an incomplete backup.
_PARTIAL: Final = ".partial"

_HEAD: Final = sa.text("SELECT max(version) FROM head")
_LOGGED: Final = sa.text("SELECT max(version) FROM commits")


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
                copy_rows(reading, target, found.schema)
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
            copy_rows(source, connection, revision)
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
