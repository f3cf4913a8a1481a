"""The store: append-only, one version once, durable, pruned behind its snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.store import IdempotentAnswer, LogEntry, Snapshot, Store, VersionTakenError
from service.store.engine import open_engine
from service.store.schema import metadata
from service.store.store import NotSkippableError
from tests.databases import KINDS, empty_database


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database."""
    with empty_database(request.param, tmp_path) as made:
        yield made


def entry(version: int, text: str = "{}") -> LogEntry:
    """Return a log entry."""
    return LogEntry(version, 1000 + version, text.encode())


def remembered(key: str, at_ms: int = 0) -> IdempotentAnswer:
    """Return an answer."""
    return IdempotentAnswer(key, b"hash", at_ms, 201, b'{"a":1}', {"ETag": '"1"'})


class TestLog:
    def test_keeps_entries_in_order(self, url: str) -> None:
        """The tail after a version is every later entry, in order, as written."""
        store = Store(url)
        store.append([entry(1), entry(2, "two")])
        store.append([entry(3)])

        assert store.tail(1) == [entry(2, "two"), entry(3)]

    def test_survives_reopening(self, url: str) -> None:
        """Another store on the same database reads what the first one appended."""
        Store(url).append([entry(1)], [remembered("k")])

        again = Store(url)

        assert again.tail(0) == [entry(1)]
        assert again.answer("k") == remembered("k")

    def test_takes_a_version_once(self, url: str) -> None:
        """Of two appends of one version the second fails and leaves nothing behind."""
        one, other = Store(url), Store(url)
        one.append([entry(1)])

        with pytest.raises(VersionTakenError):
            other.append([entry(1, "late"), entry(2)], [remembered("k")])

        assert other.tail(0) == [entry(1)]
        assert other.answer("k") is None

    def test_takes_a_key_once(self, url: str) -> None:
        """An append with a key that is taken fails with its commits."""
        store = Store(url)
        store.append([entry(1)], [remembered("k")])

        with pytest.raises(VersionTakenError):
            store.append([entry(2)], [remembered("k")])

        assert store.tail(0) == [entry(1)]

    def test_leaves_no_hole(self, url: str) -> None:
        """A version that does not follow the newest is refused."""
        store = Store(url)
        store.append([entry(1)])

        with pytest.raises(VersionTakenError):
            store.append([entry(3)])


class TestSnapshot:
    @pytest.fixture(autouse=True)
    def _prune_close_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("service.store.store.KEPT_BEHIND", 1)

    def test_prunes_what_it_replaces(self, url: str) -> None:
        """Behind a snapshot the log, older snapshots and old answers are gone, newer ones stay."""
        store = Store(url)
        store.append([entry(v) for v in range(1, 6)], [remembered("old", 5), remembered("new", 50)])
        store.save_snapshot(Snapshot(2, 0, b"two"), 0)
        store.save_snapshot(Snapshot(4, 0, b"four"), 10)

        assert store.snapshot() == Snapshot(4, 0, b"four")
        assert store.tail(1) is None
        assert store.tail(2) == [entry(3), entry(4), entry(5)]
        assert store.answer("old") is None
        assert store.answer("new") is not None

    def test_reports_a_pruned_tail(self, url: str) -> None:
        """Whoever is behind the pruned log is told to start from the snapshot."""
        store = Store(url)
        store.append([entry(v) for v in range(1, 6)])
        store.save_snapshot(Snapshot(5, 0, b"five"), 0)

        assert store.tail(2) is None
        assert store.tail(5) == []

    def test_keeps_the_lock_behind_the_pruning(self, url: str) -> None:
        """A process that lags behind the pruned log cannot append a version already made."""
        store = Store(url)
        store.append([entry(v) for v in range(1, 6)])
        store.save_snapshot(Snapshot(5, 0, b"five"), 0)

        with pytest.raises(VersionTakenError):
            store.append([entry(3)])

    def test_leaves_those_alone_who_are_a_bit_behind(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log is kept as far behind the snapshot as is stated, for those who follow it."""
        monkeypatch.setattr("service.store.store.KEPT_BEHIND", 3)
        store = Store(url)
        store.append([entry(v) for v in range(1, 11)])
        store.save_snapshot(Snapshot(10, 0, b"ten"), 0)

        assert store.tail(6) == [entry(v) for v in range(7, 11)]
        assert store.tail(5) is None

    def test_is_of_a_version_that_the_log_reaches(self, url: str) -> None:
        """A snapshot of what was never appended is not kept, and nothing is pruned for it."""
        store = Store(url)
        store.append([entry(v) for v in range(1, 6)])

        assert not store.save_snapshot(Snapshot(6, 0, b"six"), 0)
        assert store.snapshot() is None
        assert store.tail(0) == [entry(v) for v in range(1, 6)]

    def test_never_goes_back(self, url: str) -> None:
        """An older snapshot than the one there is not kept."""
        store = Store(url)
        store.append([entry(v) for v in range(1, 6)])

        assert store.save_snapshot(Snapshot(4, 0, b"four"), 0)
        assert not store.save_snapshot(Snapshot(3, 0, b"three"), 0)
        assert store.snapshot() == Snapshot(4, 0, b"four")


class TestDatabase:
    def test_first_setting_wins(self, url: str) -> None:
        """The first value of a setting is what every process reads."""
        assert Store(url).setting("origin", "a") == "a"
        assert Store(url).setting("origin", "b") == "a"

    def test_is_written_ahead_and_fully_synchronised(self, tmp_path: Path) -> None:
        """SQLite runs in WAL with full synchronisation on every connection."""
        url = f"sqlite:///{tmp_path / 'agenda.db'}"
        Store(url)
        with open_engine(url).connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2

    def test_an_empty_database_gets_the_declared_tables(self, url: str) -> None:
        """The database has exactly the columns that the code declares."""
        Store(url)
        engine = open_engine(url)
        found = sa.inspect(engine)

        for name, table in metadata.tables.items():
            columns = {c["name"]: c["nullable"] for c in found.get_columns(name)}
            assert columns == {c.name: c.nullable for c in table.columns}
        assert set(found.get_table_names()) == set(metadata.tables)


class TestSkippedRecords:
    def test_a_mark_is_seen_by_all_and_keeps_the_record(self, url: str) -> None:
        """Another store sees it, and the record is there after the log was pruned."""
        one, other = Store(url), Store(url)
        one.append([entry(1), entry(2, '{"poison": 1}'), entry(3)])

        assert one.skipped.mark(2, 5000)
        assert not other.skipped.mark(2, 6000)

        assert other.skipped.versions() == {2}
        other.save_snapshot(Snapshot(3, 7000, b"whole"), 0)
        assert one.skipped.mark(2, 8000) is False
        assert one.skipped.record(2) == b'{"poison": 1}'
        assert one.skipped.record(1) is None

    def test_only_what_replay_would_apply_can_be_marked(self, url: str) -> None:
        """A version past the log, and one that a snapshot holds, are refused with why."""
        store = Store(url)
        store.append([entry(1), entry(2)])
        store.save_snapshot(Snapshot(1, 7000, b"whole"), 0)

        with pytest.raises(NotSkippableError, match="no record 3 after version 1"):
            store.skipped.mark(3, 0)
        with pytest.raises(NotSkippableError, match="the snapshot of version 1 holds"):
            store.skipped.mark(1, 0)
        assert store.skipped.versions() == frozenset()
