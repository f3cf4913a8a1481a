"""Engines: what cannot be opened says why."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.config import ConfigError
from service.store import Store
from service.store.engine import open_engine


@pytest.mark.skipif(importlib.util.find_spec("cx_Oracle") is not None, reason="driver is there")
def test_a_missing_driver_is_named() -> None:
    """A database whose driver is not installed is a message, not a traceback."""
    with pytest.raises(ConfigError, match="the package cx_Oracle"):
        open_engine("oracle+cx_oracle://x@127.0.0.1/x")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nosuch://x", "nosuch://... is not a database URL"),
        ("sqlite://host/x.db", "sqlite://... is not a database URL"),
        ("sqlite:////nonexistent/folder/a.db", "unable to open database file; its folder must"),
        ("postgresql+psycopg://u:secret@127.0.0.1:1/x", "u:***@127.0.0.1:1/x cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_reported(url: str, told: str) -> None:
    """A URL of no known kind, a folder that is not there and a silent server are messages."""
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(ConfigError) as caught:
        Store(url)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_of_something_else_is_reported_and_left_alone(tmp_path: Path) -> None:
    """A file that is no database is named, and not a byte of it is changed."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database at all, but notes\n")
    with pytest.raises(ConfigError, match="file is not a database; the file is something else"):
        Store(f"sqlite:///{file}")
    assert file.read_text() == "not a database at all, but notes\n"


def test_a_database_in_memory_is_refused() -> None:
    """A Plan that would be gone with the process is not begun."""
    with pytest.raises(ConfigError, match="must be on a disk"):
        Store("sqlite:///file:shared?mode=memory&cache=shared&uri=true")


def test_a_database_of_a_newer_version_is_reported(tmp_path: Path) -> None:
    """Tables that this version does not know yet are not touched."""
    url = f"sqlite:///{tmp_path / 'agenda.db'}"
    Store(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE settings SET value = '9999' WHERE name = 'schema'")
    engine.dispose()
    with pytest.raises(ConfigError, match="newer version of Agenda"):
        Store(url)


def test_a_database_from_before_the_first_release_is_refused(tmp_path: Path) -> None:
    """Without a schema version nothing is known of its tables: nothing is made or changed."""
    url = f"sqlite:///{tmp_path / 'agenda.db'}"
    Store(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM settings WHERE name = 'schema'")
    engine.dispose()
    with pytest.raises(ConfigError, match="before its first release"):
        Store(url)
