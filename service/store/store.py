"""Store: what survives `kill -9`.

An append is one transaction: the commits of all requests that waited, and the answers remembered
for those that came with a key. It fails as a whole with VersionTakenError when another process
was faster; nothing of it is then in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from planner.reservations.state import State
from service.clock import SystemClock
from service.store.database.driver import Driver
from service.store.database.engine import hold_lock, open_engine, opening
from service.store.database.facts import database_facts
from service.store.database.host_clock import HostClock
from service.store.database.migrate import migrate
from service.store.database.notifications import CHANNEL, LOG, Listener
from service.store.database.tables import answers, commits, head, recent_events, settings, snapshots
from service.store.database.turns import Turns
from service.store.log.archive import INSERT_ARCHIVED, NEWEST_PLACE, ArchivedRow, ArchiveRows
from service.store.log.archive import row_of as archived
from service.store.log.audit import INSERT_AUDIT, INSERT_AUDIT_COLUMNS, AuditRow, AuditRows
from service.store.log.format import HEAD, require_format
from service.store.log.idempotency import INSERT_ANSWER, IdempotentAnswer, answer_of, row_of
from service.store.log.skipped_records import SkippedRecords
from service.store.log.write_check import WriteCheck
from service.store.rows.applications import ApplicationRows, LeadershipLostError
from service.store.rows.optimizations import KEEP_UNDO, OptimizationRows, UndoRow
from service.store.rows.runs import RunRows
from service.store.rows.tokens import TokenRows
from service.store.rows.webhooks import WebhookRows
from service.store.rows.yarn_reservations import (
    FORGET_YARN_RESERVATION,
    KEEP_YARN_RESERVATION,
    YarnReservationRow,
    YarnReservationRows,
)

#: What is written in the transaction of a commit beside it.
CommitRow: TypeAlias = IdempotentAnswer | AuditRow | YarnReservationRow | UndoRow

#: The newest row is never pruned, so that without rows nothing is new.
_TAIL: Final = "SELECT version, at_ms, record FROM commits WHERE version > ? ORDER BY version"

#: Moves the head to the version that an append ends with, from the one before its first. Another
#: append waits here until this one is durable or undone, and then finds the head elsewhere. A
#: condition on the log itself would not do: PostgreSQL reads it as it was when the statement began,
#: however long ago that is.
_MOVE: Final = "UPDATE head SET version = ? WHERE name = ? AND version = ?"

#: An append of one record in one go, for PostgreSQL; finds a row where the head was moved.
_MOVED: Final = (
    "WITH moved AS (UPDATE head SET version = ? WHERE name = ? AND version = ? RETURNING version), "
    "added AS (INSERT INTO commits (version, at_ms, record) "
    "SELECT version, CAST(? AS bigint), CAST(? AS bytea) FROM moved)"
)
_NOTIFIED: Final = f"SELECT pg_notify('{CHANNEL}', '{LOG}') FROM moved"
_APPEND_TOLD: Final = f"{_MOVED} {_NOTIFIED}"

#: The same with its rows of the audit, given column by column; durable by itself.
_APPEND_AUDITED: Final = f"{_MOVED}, audited AS ({INSERT_AUDIT_COLUMNS}) {_NOTIFIED}"

_TELL: Final = f"SELECT pg_notify('{CHANNEL}', '{LOG}')"

_TENURE: Final = "SELECT tenure FROM dispatching WHERE name = 'dispatcher'"

_APPEND: Final = "INSERT INTO commits (version, at_ms, record) VALUES (?, ?, ?)"

#: State of what never held anything: under its id something else may stand.
_REFUSED: Final = State.REFUSED.value

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
    archive
        Reservations that have ended and left the Plan.
    runs
        What executors carry out.
    skipped
        Records that replay leaves out.
    tokens, audit
        Who may call, and who did what.
    webhooks
        Who is told of events, and what is still to be told.
    writing
        Whether appends find room.
    yarn
        What YARN's clients asked for.
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
        self.optimizations = OptimizationRows(self._engine)
        self.archive = ArchiveRows(self._engine)
        self.runs = RunRows(self._engine)
        self.skipped = SkippedRecords(self._engine)
        self._driver = Driver(self._engine)
        self.write_check = WriteCheck(self._driver)
        self.webhooks = WebhookRows(self._engine)
        self.applications = ApplicationRows(self._engine, self._driver)
        self.audit = AuditRows(self._engine)
        self.tokens = TokenRows(self._engine, self._driver)
        self.yarn = YarnReservationRows(self._engine)
        self._turns = Turns(self._engine)
        self._clock: HostClock | None = None

    def host_clock(self) -> HostClock:
        """Return the clock that all hosts of this database tell the time by; one for a process."""
        if self._clock is None:
            clock = HostClock(SystemClock(), None if self._driver.on_sqlite else self._engine)
            clock.measure()
            clock.begin_to_doubt(self)
            self._clock = clock
        return self._clock

    def listener(self, heard: Callable[[str], None], each: Callable[[], None]) -> Listener:
        """Return what hears of the other processes' changes; it is not started yet."""
        return Listener(self._engine, heard, each)

    def facts(self) -> dict[str, Any]:
        """Return what the database holds, in numbers."""
        return database_facts(self._engine)

    def close(self) -> None:
        """Give the connections back."""
        self._driver.close()
        self._engine.dispose()
        self._turns.close()

    def turn(self) -> AbstractContextManager[None]:
        """Return a context in which no other process appends; a courtesy, not a promise."""
        return self._turns.turn()

    def setting(self, name: str, value: str) -> str:
        """Return the stored setting; the first who asks stores `value`."""
        with self._engine.begin() as connection:
            connection.execute(_FIRST_SETTING, {"name": name, "value": value})
            query = sa.select(settings.c.value).where(settings.c.name == name)
            return str(connection.execute(query).scalar_one())

    def find_setting(self, name: str) -> str | None:
        """Return the stored setting, or None."""
        with self._read_only() as connection:
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
        with self._read_only() as connection:
            newest = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar()
        return int(newest or 0)

    def snapshot(self) -> Snapshot | None:
        """Return the newest snapshot."""
        with self._read_only() as connection:
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
        self,
        entries: Sequence[LogEntry],
        remembered: Sequence[CommitRow] = (),
        tenure: int | None = None,
        left: Sequence[ArchivedRow] = (),
    ) -> None:
        """Make `entries`, `remembered` and `left` durable, all or none.

        Parameters
        ----------
        tenure
            Of the leader whose change it is; None for a change of anybody.
        left
            What leaves the Plan by these entries.

        Raises
        ------
        VersionTakenError
            If a version or a key is already there.
        LeadershipLostError
            If another tenure has begun.
        OutdatedError
            If the log is in the format of another version of Agenda.
        """
        driver = self._driver
        before, after = entries[0].version - 1, entries[-1].version
        assert [entry.version for entry in entries] == list(range(before + 1, after + 1))
        audited = [row for row in remembered if isinstance(row, AuditRow)]
        special = tenure is not None or left or len(audited) < len(remembered)
        if not special and len(entries) == 1 and not driver.on_sqlite:
            self._append_one(entries[0], audited)
            return
        try:
            with self.write_check.noted(), driver.transaction() as cursor:
                if tenure is not None:
                    self._require_tenure(cursor, tenure)
                self._move(cursor, entries)
                if left:
                    self._archive(cursor, left)
                if remembered:
                    self._keep(cursor, remembered)
        except driver.integrity_error as error:
            raise VersionTakenError(str(error)) from error

    def _append_one(self, entry: LogEntry, audited: Sequence[AuditRow]) -> None:
        """Make an entry and its audit durable in one statement, on PostgreSQL."""
        driver = self._driver
        columns = [list(column) for column in zip(*(row.values() for row in audited), strict=True)]
        moving = (entry.version, HEAD, entry.version - 1, entry.at_ms, entry.record)
        statement = driver.statement(_APPEND_AUDITED if audited else _APPEND_TOLD)
        with self.write_check.noted():
            if driver.changed(statement, (*moving, *columns)) == 1:
                return
            with driver.transaction() as cursor:
                require_format(cursor)
            raise VersionTakenError(f"version {entry.version} does not come next")

    def _require_tenure(self, cursor: Any, tenure: int) -> None:
        """Raise where another process leads; none takes over before the transaction has ended."""
        cursor.execute(_TENURE if self._driver.on_sqlite else f"{_TENURE} FOR UPDATE")
        row = cursor.fetchone()
        if row is None or row[0] != tenure:
            raise LeadershipLostError(f"tenure {row and row[0]}, not {tenure}")

    def _move(self, cursor: Any, entries: Sequence[LogEntry]) -> None:
        """Move the head and add the entries to the log."""
        driver, entry, before = self._driver, entries[-1], entries[0].version - 1
        moving = (entry.version, HEAD, before)
        if driver.on_sqlite or len(entries) > 1:
            cursor.execute(driver.statement(_MOVE), moving)
            moved = cursor.rowcount == 1
            if moved:
                rows = [(one.version, one.at_ms, one.record) for one in entries]
                cursor.executemany(driver.statement(_APPEND), rows)
                if not driver.on_sqlite:
                    cursor.execute(_TELL)
        else:
            cursor.execute(driver.statement(_APPEND_TOLD), (*moving, entry.at_ms, entry.record))
            moved = cursor.rowcount == 1
        if not moved:
            require_format(cursor)
            raise VersionTakenError(f"version {before + 1} does not come next")

    def _archive(self, cursor: Any, left: Sequence[ArchivedRow]) -> None:
        """Write the rows of what leaves the Plan; what YARN's clients know of it goes."""
        driver = self._driver
        cursor.execute(NEWEST_PLACE)
        (place,) = cursor.fetchone()
        rows = [(number, *archived(one)) for number, one in enumerate(left, place + 1)]
        cursor.executemany(driver.statement(INSERT_ARCHIVED), rows)
        held = [(one.id,) for one in left if one.state != _REFUSED]
        if held:
            cursor.executemany(driver.statement(FORGET_YARN_RESERVATION), held)

    def _keep(self, cursor: Any, remembered: Sequence[CommitRow]) -> None:
        """Write the rows that stand beside a commit."""
        driver = self._driver
        answered = [row_of(one) for one in remembered if isinstance(one, IdempotentAnswer)]
        audited = [one.values() for one in remembered if isinstance(one, AuditRow)]
        asked = [one.values() for one in remembered if isinstance(one, YarnReservationRow)]
        undos = [one.values() for one in remembered if isinstance(one, UndoRow)]
        for statement, rows in (
            (INSERT_ANSWER, answered),
            (INSERT_AUDIT, audited),
            (KEEP_YARN_RESERVATION, asked),
            (KEEP_UNDO, undos),
        ):
            if rows:
                cursor.executemany(driver.statement(statement), rows)

    def remember(self, answer: IdempotentAnswer) -> None:
        """Store an answer to what changed nothing.

        Raises
        ------
        VersionTakenError
            If there is an answer under its key.
        """
        try:
            with self.write_check.noted(), self._driver.transaction() as cursor:
                self._keep(cursor, [answer])
        except self._driver.integrity_error as error:
            raise VersionTakenError("the key was answered meanwhile") from error

    def answer(self, key: str) -> IdempotentAnswer | None:
        """Return what was answered under `key`."""
        with self._read_only() as connection:
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

    def _read_only(self) -> sa.Connection:
        return self._engine.connect().execution_options(agenda_read_only=True)
