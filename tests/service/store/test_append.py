"""An append with its audit, and connections that were lost, on both kinds of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.access.user import SERVER
from service.store import AuditRow, LogEntry, Store, VersionTakenError
from service.store import engine as engines
from service.store.engine import UnavailableError
from tests.databases import KINDS, empty_database

_COLUMNS = "SELECT at_ms, version, name, address, call, kind, tenant, about, detail FROM audit"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return a store on an empty database."""
    with empty_database(request.param, tmp_path) as url:
        made = Store(url)
        yield made
        made.close()


def _audit(version: int, about: str, detail: str = "") -> AuditRow:
    return AuditRow(SERVER, 5, "admit", about, "ads", detail, version)


def _told(store: Store) -> list[tuple[object, ...]]:
    with store._engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(f"{_COLUMNS} ORDER BY number")]


def test_an_entry_is_written_with_its_audit_in_order(store: Store) -> None:
    """Whatever a text holds; an entry without rows writes none."""
    rows = [_audit(1, "b", "{a,\"b\"}, 'c' \\ NULL"), _audit(1, "a", "é"), _audit(1, "NULL")]
    store.append([LogEntry(1, 7, b"{}")], rows)
    store.append([LogEntry(2, 8, b"[\x00\xff]")])
    assert store.tail(0) == [LogEntry(1, 7, b"{}"), LogEntry(2, 8, b"[\x00\xff]")]
    assert _told(store) == [tuple(row.values().values()) for row in rows]


def test_who_was_not_first_writes_neither_entry_nor_audit(store: Store) -> None:
    """The audit of a change that was not made is not told."""
    store.append([LogEntry(1, 7, b"{}")], [_audit(1, "mine")])
    with pytest.raises(VersionTakenError):
        store.append([LogEntry(1, 8, b"[]")], [_audit(1, "late")])
    with pytest.raises(VersionTakenError):
        store.append([LogEntry(3, 8, b"[]")], [_audit(3, "early")])
    assert store.tail(0) == [LogEntry(1, 7, b"{}")]
    assert [row[7] for row in _told(store)] == ["mine"]


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[Store]:
    """Return a store on an empty PostgreSQL database."""
    with empty_database("postgresql", tmp_path) as url:
        made = Store(url)
        yield made
        made.close()


def _lose_connections(store: Store) -> None:
    """Let the database end all sessions of the store's pool."""
    other = sa.create_engine(store._engine.url, isolation_level="AUTOCOMMIT")
    with other.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    other.dispose()


@pytest.mark.postgres
def test_a_lost_connection_that_was_silent_is_replaced(
    postgresql: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees that the database was unavailable meanwhile."""
    monkeypatch.setattr(engines, "FRESH_S", 0.0)
    postgresql.append([LogEntry(1, 7, b"{}")])
    _lose_connections(postgresql)
    postgresql.append([LogEntry(2, 8, b"{}")], [_audit(2, "a")])
    assert [entry.version for entry in postgresql.tail(0) or []] == [1, 2]


@pytest.mark.postgres
def test_a_lost_connection_just_used_costs_one_call(
    postgresql: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that meets it gets the error of the database, and the next one is served."""
    monkeypatch.setattr(engines, "FRESH_S", 3600.0)
    postgresql.append([LogEntry(1, 7, b"{}")])
    _lose_connections(postgresql)
    with pytest.raises(UnavailableError):
        postgresql.tail(0)
    assert [entry.version for entry in postgresql.tail(0) or []] == [1]
