"""Store: what survives `kill -9`.

An append is one transaction: the commits of all requests that waited, and the answers remembered
for those that came with a key. It fails as a whole with VersionTakenError when another process
was faster; nothing of it is then in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from service.store.applications import ApplicationRows
from service.store.calendar_feeds import FeedRows
from service.store.driver import Driver
from service.store.engine import hold_lock, open_engine, opening
from service.store.idempotency import INSERT_ANSWER, IdempotentAnswer, answer_of, row_of
from service.store.migrate import migrate
from service.store.optimizations import OptimizationRows
from service.store.skipped_records import SkippedRecords
from service.store.tables import answers, commits, head, recent_events, settings, snapshots
from service.store.turns import Turns
from service.store.webhooks import WebhookRows
from service.store.write_check import WriteCheck

#: The newest row is never pruned, so that without rows nothing is new.
_TAIL: Final = "SELECT version, at_ms, record FROM commits WHERE version > ? ORDER BY version"

#: Moves the head to the version that an append ends with, from the one before its first. Another
#: append waits here until this one is durable or undone, and then finds the head elsewhere. A
#: condition on the log itself would not do: PostgreSQL reads it as it was when the statement began,
#: however long ago that is.
_MOVE: Final = "UPDATE head SET version = ? WHERE name = 'log' AND version = ?"

_APPEND: Final = "INSERT INTO commits (version, at_ms, record) VALUES (?, ?, ?)"

#: How many versions before its newest snapshot the log still holds. A process that is behind by
#: less follows the log; one that is further behind starts again from the snapshot.
KEPT_BEHIND: Final = 1_000

#: Key of PostgreSQL's advisory lock under which one process at a time keeps a snapshot.
_SNAPSHOT_LOCK: Final = 0x534E4150

_FIRST_SETTING: Final = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING"
)
_REPLACE_SETTING: Final = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class VersionTakenError(Exception):
    """Another process appended this version, or remembered this key, first."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One row of the log.

    Attributes
    ----------
    version
        The version of the Plan that this entry made; consecutive.
    at_ms
        Unix time of the append.
    record
        The commit record, as JSON.
    """

    version: int
    at_ms: int
    record: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The Plan at `version`, as JSON, and the events of the last versions up to it."""

    version: int
    at_ms: int
    body: bytes
    events: bytes = b"[]"


class Store:
    """One database, shared by any number of processes.

    Attributes
    ----------
    applications
        What is dispatched, and by whom.
    optimizations
        Better plans that are sought or found.
    skipped
        Records that replay leaves out.
    webhooks
        Who is told of events, and what is still to be told.
    calendar_feeds
        Under which secrets calendars are read.
    writing
        Whether appends find room.
    """

    def __init__(self, url: str) -> None:
        """Open `url` and bring its tables up to date.

        Raises
        ------
        ConfigError
            If the database cannot be reached or written, or is none of Agenda's.
        """
        with opening(url):
            self._engine = open_engine(url)
            migrate(self._engine)
        on_sqlite = self._engine.dialect.name == "sqlite"
        self.optimizations = OptimizationRows(self._engine)
        self.skipped = SkippedRecords(self._engine)
        self._driver = Driver(self._engine)
        self.write_check = WriteCheck(self._driver)
        self.webhooks = WebhookRows(self._engine)
        self.calendar_feeds = FeedRows(self._engine)
        self.applications = ApplicationRows(self._engine, self._driver)
        self._turns = Turns(self._engine.url.database if on_sqlite else None)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()
        self._turns.close()

    def turn(self) -> AbstractContextManager[None]:
        """Return a context in which no other process of this host appends, where that helps."""
        return self._turns.turn()

    def setting(self, name: str, value: str) -> str:
        """Return the stored setting; the first who asks stores `value`."""
        with self._engine.begin() as connection:
            connection.execute(_FIRST_SETTING, {"name": name, "value": value})
            query = sa.select(settings.c.value).where(settings.c.name == name)
            return str(connection.execute(query).scalar_one())

    def find_setting(self, name: str) -> str | None:
        """Return the stored setting, or None."""
        with self._reading() as connection:
            found = connection.execute(
                sa.select(settings.c.value).where(settings.c.name == name)
            ).scalar_one_or_none()
        return None if found is None else str(found)

    def replace_setting(self, name: str, value: str) -> None:
        """Store `value`, whatever was there."""
        with self._engine.begin() as connection:
            connection.execute(_REPLACE_SETTING, {"name": name, "value": value})

    def tail(self, after: int) -> list[LogEntry] | None:
        """Return the entries with versions above `after`, in order.

        None when some of them were pruned: the caller must start from the snapshot.
        """
        found = self._driver.rows(self._driver.statement(_TAIL), (after,))
        entries = [LogEntry(version, at_ms, bytes(record)) for version, at_ms, record in found]
        # The newest row is never pruned, so no rows at all means: nothing new.
        return entries if not entries or entries[0].version == after + 1 else None

    def snapshot_version(self) -> int:
        """Return the version of the newest snapshot, 0 without any."""
        with self._reading() as connection:
            newest = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar()
        return int(newest or 0)

    def snapshot(self) -> Snapshot | None:
        """Return the newest snapshot."""
        with self._reading() as connection:
            with_events = snapshots.outerjoin(
                recent_events, recent_events.c.version == snapshots.c.version
            )
            no_events = sa.func.coalesce(recent_events.c.body, b"[]")
            row = connection.execute(
                sa.select(snapshots.c.version, snapshots.c.at_ms, snapshots.c.body, no_events)
                .select_from(with_events)
                .order_by(snapshots.c.version.desc())
                .limit(1)
            ).one_or_none()
        return None if row is None else Snapshot(*row)

    def append(
        self, entries: Sequence[LogEntry], remembered: Sequence[IdempotentAnswer] = ()
    ) -> None:
        """Make `entries` and `remembered` durable, all or none.

        Raises
        ------
        VersionTakenError
            If a version or a key is already there.
        """
        driver = self._driver
        before, after = entries[0].version - 1, entries[-1].version
        assert [entry.version for entry in entries] == list(range(before + 1, after + 1))
        try:
            with self.write_check.noted(), driver.transaction() as cursor:
                cursor.execute(driver.statement(_MOVE), (after, before))
                if cursor.rowcount != 1:
                    raise VersionTakenError(f"version {before + 1} does not come next")
                for entry in entries:
                    row = (entry.version, entry.at_ms, entry.record)
                    cursor.execute(driver.statement(_APPEND), row)
                if remembered:
                    kept = [row_of(answer) for answer in remembered]
                    cursor.executemany(driver.statement(INSERT_ANSWER), kept)
        except driver.integrity_error as error:
            raise VersionTakenError(str(error)) from error

    def answer(self, key: str) -> IdempotentAnswer | None:
        """Return what was answered under `key`."""
        with self._reading() as connection:
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).one_or_none()
        return None if row is None else answer_of(tuple(row))

    def save_snapshot(self, snapshot: Snapshot, forget_before_ms: int) -> bool:
        """Keep `snapshot` and drop what it replaces.

        Gone afterwards: older snapshots, the log up to `KEPT_BEHIND` versions before the snapshot,
        and answers remembered before `forget_before_ms`.

        Returns
        -------
        bool
            False when nothing was done: this snapshot or a newer one is there already, or the log
            does not reach its version.
        """
        with self._engine.begin() as connection:
            hold_lock(connection, _SNAPSHOT_LOCK)
            newest = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar()
            reached = connection.execute(sa.select(head.c.version)).scalar_one()
            if not (newest or 0) < snapshot.version <= reached:
                return False
            connection.execute(
                sa.insert(snapshots).values(
                    version=snapshot.version, at_ms=snapshot.at_ms, body=snapshot.body
                )
            )
            connection.execute(sa.delete(snapshots).where(snapshots.c.version < snapshot.version))
            connection.execute(sa.delete(recent_events))
            connection.execute(
                sa.insert(recent_events).values(version=snapshot.version, body=snapshot.events)
            )
            oldest = snapshot.version - KEPT_BEHIND
            connection.execute(sa.delete(commits).where(commits.c.version < oldest))
            connection.execute(sa.delete(answers).where(answers.c.at_ms < forget_before_ms))
        return True

    def _reading(self) -> sa.Connection:
        return self._engine.connect().execution_options(agenda_read_only=True)
