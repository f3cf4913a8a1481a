"""Store: the durable state, which survives `kill -9`.

An append is one transaction: the commits of all requests that waited, and the answers remembered
for those that came with a key. It fails as a whole with VersionTakenError when another process
was faster; nothing of it is then in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import msgspec
import sqlalchemy as sa

from planner.reservations.state import State
from service.clock import SystemClock
from service.store.answers import IdempotentAnswer, answer_of
from service.store.applications import (
    DISPATCHER,
    ApplicationRow,
    ApplicationRows,
    IdTakenError,
    LeadershipLostError,
)
from service.store.archive import ArchivedRow, ArchiveRows
from service.store.audit import AuditRow, AuditRows
from service.store.engine import (
    Driver,
    OutdatedError,
    Statement,
    UnavailableError,
    hold_lock,
    open_engine,
    opening,
)
from service.store.host_clock import HostClock
from service.store.notifications import CHANNEL, LOG, Listener
from service.store.optimizations import OptimizationRows, UndoRow
from service.store.pipelines import PipelineRow, PipelineRows
from service.store.runs import RunRows
from service.store.schema import (
    HEAD,
    answers,
    applications,
    archive,
    audit,
    commits,
    create_or_check,
    database_facts,
    dispatching,
    head,
    optimizations,
    pipelines,
    recent_events,
    settings,
    snapshots,
    yarn_reservations,
)
from service.store.table import insert_or
from service.store.tokens import TokenRows
from service.store.turns import Turns
from service.store.webhooks import WebhookRows
from service.store.yarn_reservations import (
    CHANGED,
    YarnReservationRow,
    YarnReservationRows,
)

#: What is written in the transaction of a commit alongside it: what its caller gives, and all.
CompanionRow: TypeAlias = AuditRow | YarnReservationRow | ApplicationRow | PipelineRow
CommitRow: TypeAlias = IdempotentAnswer | UndoRow | CompanionRow

_AUDITED: Final = [column for column in audit.c if column.name != "number"]

#: State of what never held anything: under its id something else may stand.
_REFUSED: Final = State.REFUSED.value

#: How many versions before its newest snapshot the log still holds. A process that is behind by
#: less follows the log; one that is further behind starts again from the snapshot.
KEPT_BEHIND: Final = 1_000

#: Key of PostgreSQL's advisory lock under which one process at a time keeps a snapshot.
_SNAPSHOT_LOCK: Final = 0x534E4150

#: Settings of this name and a version hold a record that is left out.
_SKIPPED: Final = "skipped_record:"

#: Setting that an attempt to write writes, and takes away again; and its size, more than an append
#: of most groups.
_ATTEMPT: Final = "attempt"
_SIZE: Final = 65_536


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


class _Statements:
    """The statements of an append, compiled for one database."""

    def __init__(self, engine: sa.Engine) -> None:
        def made(expression: sa.Executable) -> Statement:
            return Statement(engine, expression)

        version: sa.BindParameter[int] = sa.bindparam("new_version")
        before: sa.BindParameter[int] = sa.bindparam("before")
        #: Moves the head to the version that an append ends with, from the one before its first.
        #: Another append waits here until this one is durable or undone, and then finds the head
        #: elsewhere. A condition on the log itself would not do: PostgreSQL reads it as it was when
        #: the statement began, however long ago that is.
        move = (sa.update(head).where(head.c.name == HEAD, head.c.version == before)).values(
            version=version
        )
        #: The newest row is never pruned, so that without rows nothing is new.
        newer = sa.select(commits).where(commits.c.version > sa.bindparam("after"))
        self.tail = made(newer.order_by(commits.c.version))
        self.format = made(sa.select(head.c.name))
        self.move = made(move)
        self.log = made(sa.insert(commits))
        self.answer = made(sa.insert(answers))
        self.audit = made(sa.insert(audit).values({c.name: sa.bindparam(c.name) for c in _AUDITED}))
        undone = sa.update(optimizations).where(optimizations.c.id == sa.bindparam("job"))
        self.undo = made(undone.values(undo=sa.bindparam("undo")))
        self.application = made(insert_or(engine.dialect.name, applications))
        self.pipeline = made(insert_or(engine.dialect.name, pipelines))
        self.yarn = made(insert_or(engine.dialect.name, yarn_reservations, CHANGED))
        gone = sa.delete(yarn_reservations).where(yarn_reservations.c.id == sa.bindparam("gone"))
        self.forget_yarn = made(gone)
        self.place = made(sa.select(sa.func.coalesce(sa.func.max(archive.c.place), 0)))
        self.archive = made(sa.insert(archive))
        tenure = sa.select(dispatching.c.tenure).where(dispatching.c.name == DISPATCHER)
        self.tenure = made(tenure.with_for_update())
        if engine.dialect.name == "sqlite":
            return
        # On PostgreSQL an append of one record is one statement, which finds a row where the head
        # was moved; with its rows of the audit, given column by column.
        moved = move.returning(head.c.version).cte("moved")
        entry = (
            moved.c.version,
            sa.cast(sa.bindparam("at_ms"), sa.BigInteger),
            sa.cast(sa.bindparam("record"), sa.LargeBinary),
        )
        names = [column.name for column in _AUDITED]
        added = sa.insert(commits).from_select(list(commits.c), sa.select(*entry)).cte("added")
        arrays = [
            sa.cast(
                sa.bindparam(f"{one.name}s"),
                sa.ARRAY(sa.BigInteger if isinstance(one.type, sa.BigInteger) else sa.Text),
            )
            for one in _AUDITED
        ]
        rows = sa.func.unnest(*arrays).table_valued(*names, with_ordinality="place")
        rows = rows.render_derived("rows")
        every = sa.select(*(rows.c[name] for name in names)).select_from(
            sa.join(moved, rows, sa.true())
        )
        audited = sa.insert(audit).from_select(names, every.order_by(rows.c.place)).cte("audited")
        told = sa.select(sa.func.pg_notify(CHANNEL, LOG)).select_from(moved)
        self.append_one = made(told.add_cte(added))
        self.append_audited = made(told.add_cte(added, audited))
        self.tell = made(sa.select(sa.func.pg_notify(CHANNEL, LOG)))


class Store:
    """One database, shared by any number of processes.

    Attributes
    ----------
    applications, pipelines
        The dispatched applications, the leader, and the stages that run in order.
    optimizations
        Better plans that are sought or found.
    archive
        Reservations that have ended and left the Plan.
    runs
        The runs of executors.
    skipped
        Records that replay leaves out.
    tokens, audit
        Tokens and the audit.
    webhooks
        Webhooks and pending events.
    writing
        Whether appends find free capacity.
    yarn
        Requests of YARN's clients.
    """

    def __init__(self, url: str) -> None:
        """Open `url` and bring its tables up to date.

        Raises
        ------
        ConfigError
            If the database cannot be reached or written, or does not belong to Agenda.
        """
        with opening(url):
            self._engine = open_engine(url)
            create_or_check(self._engine)
        self.optimizations = OptimizationRows(self._engine)
        self.archive = ArchiveRows(self._engine)
        self.runs = RunRows(self._engine)
        self.skipped = SkippedRecords(self._engine)
        self._driver = Driver(self._engine)
        self._statements = _Statements(self._engine)
        self.write_check = WriteCheck(self._engine, self._driver, self._statements.format)
        self.webhooks = WebhookRows(self._engine)
        self.applications = ApplicationRows(self._engine)
        self.pipelines = PipelineRows(self._engine)
        self.audit = AuditRows(self._engine)
        self.tokens = TokenRows(self._engine, self._driver)
        self.yarn = YarnReservationRows(self._engine)
        self._turns = Turns(self._engine)
        self._clock: HostClock | None = None

    def host_clock(self) -> HostClock:
        """Return the clock that all hosts of this database share; one for a process."""
        if self._clock is None:
            clock = HostClock(SystemClock(), None if self._driver.on_sqlite else self._engine)
            clock.measure()
            clock.begin_to_doubt(self)
            self._clock = clock
        return self._clock

    def listener(self, heard: Callable[[str], None], each: Callable[[], None]) -> Listener:
        """Return the listener for other processes' changes, not started yet."""
        return Listener(self._engine, heard, each)

    def facts(self) -> dict[str, Any]:
        """Return the numbers of rows of the database."""
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
            first = insert_or(self._engine.dialect.name, settings)
            connection.execute(first.values(name=name, value=value))
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
        """Store `value`, replacing any previous one."""
        with self._engine.begin() as connection:
            replace = insert_or(self._engine.dialect.name, settings, ["value"])
            connection.execute(replace.values(name=name, value=value))

    def tail(self, after: int) -> list[LogEntry] | None:
        """Return the entries with versions above `after`, in order.

        None when some of them were pruned: the caller must start from the snapshot.
        """
        found = self._driver.rows(self._statements.tail, after=after)
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
            Tenure of the leader that makes the change; None for a change of anybody.
        left
            Reservations and refusals that these entries archive.

        Raises
        ------
        VersionTakenError
            If a version or a key is already there.
        LeadershipLostError
            If another tenure has begun.
        OutdatedError
            If the log is in the format of another version of Agenda.
        IdTakenError
            If there is an application of the id of one of `remembered`.
        """
        driver = self._driver
        first, last = entries[0].version, entries[-1].version
        assert [entry.version for entry in entries] == list(range(first, last + 1))
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
                self._archive(cursor, left)
                self._keep(cursor, remembered)
        except driver.integrity_error as error:
            raise VersionTakenError(str(error)) from error

    def _append_one(self, entry: LogEntry, audited: Sequence[AuditRow]) -> None:
        """Make an entry and its audit durable in one statement, on PostgreSQL."""
        driver, known = self._driver, self._statements
        with self.write_check.noted():
            if audited:
                rows = [row.values() for row in audited]
                columns = {f"{name}s": [row[name] for row in rows] for name in rows[0]}
                changed = driver.changed(known.append_audited, **_moving(entry), **columns)
            else:
                changed = driver.changed(known.append_one, **_moving(entry))
            if changed == 1:
                return
            with driver.transaction() as cursor:
                _require_format(cursor, known.format)
            raise VersionTakenError(f"version {entry.version} does not come next")

    def _require_tenure(self, cursor: Any, tenure: int) -> None:
        """Raise where another process leads; none takes over before the transaction has ended."""
        self._statements.tenure.run(cursor)
        row = cursor.fetchone()
        if row is None or row[0] != tenure:
            raise LeadershipLostError(f"tenure {row and row[0]}, not {tenure}")

    def _move(self, cursor: Any, entries: Sequence[LogEntry]) -> None:
        """Move the head and add the entries to the log."""
        known, first, last = self._statements, entries[0], entries[-1]
        if self._driver.on_sqlite or len(entries) > 1:
            moving = {"new_version": last.version, "before": first.version - 1}
            moved = known.move.run(cursor, **moving) == 1
            if moved:
                known.log.run_each(cursor, [asdict(entry) for entry in entries])
                if not self._driver.on_sqlite:
                    known.tell.run(cursor)
        else:
            moved = known.append_one.run(cursor, **_moving(first)) == 1
        if not moved:
            _require_format(cursor, known.format)
            raise VersionTakenError(f"version {first.version} does not come next")

    def _archive(self, cursor: Any, left: Sequence[ArchivedRow]) -> None:
        """Write the rows of archived entries; delete their YARN rows."""
        if not left:
            return
        known = self._statements
        known.place.run(cursor)
        (place,) = cursor.fetchone()
        rows = [{**asdict(one), "place": number} for number, one in enumerate(left, place + 1)]
        known.archive.run_each(cursor, rows)
        known.forget_yarn.run_each(
            cursor, [{"gone": one.id} for one in left if one.state != _REFUSED]
        )

    def _keep(self, cursor: Any, remembered: Sequence[CommitRow]) -> None:
        """Write the rows that accompany a commit."""
        known = self._statements
        for statement, kind in (
            (known.answer, IdempotentAnswer),
            (known.audit, AuditRow),
            (known.yarn, YarnReservationRow),
        ):
            rows = [one.values() for one in remembered if isinstance(one, kind)]
            statement.run_each(cursor, rows)
        self._submit(cursor, remembered)
        undos = [one for one in remembered if isinstance(one, UndoRow)]
        known.undo.run_each(cursor, [{"job": one.id, "undo": one.undo} for one in undos])

    def _submit(self, cursor: Any, remembered: Sequence[CommitRow]) -> None:
        """Write the pipelines and applications that are submitted with a commit.

        Raises
        ------
        IdTakenError
            If there is one of the same id.
        """
        for row in remembered:
            if isinstance(row, PipelineRow):
                count = self._statements.pipeline.run(cursor, **self.pipelines.values(row))
            elif isinstance(row, ApplicationRow):
                count = self._statements.application.run(cursor, **self.applications.values(row))
            else:
                continue
            if count != 1:
                raise IdTakenError(row.id)

    def remember(self, answer: IdempotentAnswer) -> None:
        """Store the answer to a call without a change.

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
        """Return the answer stored under `key`."""
        with self._read_only() as connection:
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).one_or_none()
        return None if row is None else answer_of(tuple(row))

    def save_snapshot(self, snapshot: Snapshot, forget_before_ms: int) -> bool:
        """Store `snapshot` and delete the ones it replaces.

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


class NotSkippableError(ValueError):
    """A version that cannot be left out; the message says why."""


class SkippedRecords:
    """Marks that every process and every later start obeys.

    The record itself is kept with its mark, since the log is pruned below each snapshot.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def versions(self) -> frozenset[int]:
        """Return the versions of skipped records."""
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            names = connection.execute(
                sa.select(settings.c.name).where(
                    settings.c.name.startswith(_SKIPPED, autoescape=True)
                )
            ).scalars()
            return frozenset(int(name.removeprefix(_SKIPPED)) for name in names)

    def mark(self, version: int, now_ms: int) -> bool:
        """Leave the record of `version` out from now on; False if it is already.

        Raises
        ------
        NotSkippableError
            If there is no such record, or a snapshot includes its changes.
        """
        with self._engine.begin() as connection:
            name = f"{_SKIPPED}{version}"
            known = connection.execute(sa.select(settings.c.name).where(settings.c.name == name))
            if known.scalar_one_or_none() is not None:
                return False
            kept = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar() or 0
            if version <= kept:
                raise NotSkippableError(
                    f"the snapshot of version {kept} holds what record {version} made; "
                    f"only later records can be left out"
                )
            row = connection.execute(
                sa.select(commits.c.at_ms, commits.c.record).where(commits.c.version == version)
            ).one_or_none()
            if row is None:
                raise NotSkippableError(f"the log has no record {version} after version {kept}")
            value = {"at_ms": row[0], "skipped_ms": now_ms, "record": bytes(row[1]).decode()}
            text = msgspec.json.encode(value).decode()
            connection.execute(sa.insert(settings).values(name=name, value=text))
            return True

    def record(self, version: int) -> bytes | None:
        """Return the skipped record at `version` from the log, or None."""
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            value = connection.execute(
                sa.select(settings.c.value).where(settings.c.name == f"{_SKIPPED}{version}")
            ).scalar_one_or_none()
        return None if value is None else msgspec.json.decode(value)["record"].encode()


class WriteCheck:
    """Remembers the last failure to write, until something is written again.

    A process that has not written anything yet does not know: the first attempt is made then too.
    """

    def __init__(self, engine: sa.Engine, driver: Driver, log_format: Statement) -> None:
        self._driver = driver
        self._format = log_format
        self._unsure = True
        write = insert_or(engine.dialect.name, settings, ["value"])
        take_away = sa.delete(settings).where(settings.c.name == sa.bindparam("name"))
        self._write, self._take_away = driver.statement(write), driver.statement(take_away)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record whether the block, which writes, finds the database away or full."""
        try:
            yield
        except UnavailableError:
            self._unsure = True
            raise
        self._unsure = False

    def attempt(self) -> None:
        """Write something unless the last thing that was written succeeded.

        A log that has another format by now is refused too.

        Raises
        ------
        UnavailableError
            If it cannot be written.
        """
        if not self._unsure:
            return
        with self._driver.transaction() as cursor:
            _require_format(cursor, self._format)
        with self.noted():
            # One after the other: together they might need no space at all.
            with self._driver.transaction() as cursor:
                self._write.run(cursor, name=_ATTEMPT, value="x" * _SIZE)
            with self._driver.transaction() as cursor:
                self._take_away.run(cursor, name=_ATTEMPT)


def _moving(entry: LogEntry) -> dict[str, Any]:
    """Return the parameters of an append of one entry."""
    new, before = entry.version, entry.version - 1
    return {"new_version": new, "before": before, "at_ms": entry.at_ms, "record": entry.record}


def _require_format(cursor: Any, log_format: Statement) -> None:
    """Refuse to write to a log in another format.

    Raises
    ------
    OutdatedError
        With the action to take.
    """
    log_format.run(cursor)
    if (HEAD,) not in [tuple(row) for row in cursor.fetchall()]:
        raise OutdatedError(
            "the database was brought to another version of Agenda while this server ran; stop it "
            "and start that version"
        )
