"""Store: what survives `kill -9`.

An append is one transaction: the commits of all requests that waited, and the answers remembered
for those that came with a key. It fails as a whole with VersionTakenError when another process
was faster; nothing of it is then in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from service.store.applications import ApplicationRows
from service.store.engine import open_engine
from service.store.migrate import migrate
from service.store.optimizations import OptimizationRows
from service.store.tables import answers, commits, settings, snapshots
from service.store.turns import Turns


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
    """The Plan at `version`, as JSON."""

    version: int
    at_ms: int
    body: bytes


@dataclass(frozen=True, slots=True)
class RememberedAnswer:
    """The answer given under an Idempotency-Key, and a hash of the request it was given to."""

    key: str
    request_hash: bytes
    at_ms: int
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Store:
    """One database, shared by any number of processes.

    Attributes
    ----------
    applications
        What is dispatched, and by whom.
    optimizations
        Better plans that are sought or found.
    """

    def __init__(self, url: str) -> None:
        """Open `url` and bring its tables up to date.

        Raises
        ------
        sqlalchemy.exc.OperationalError
            If the database cannot be reached or written.
        """
        self._engine = open_engine(url)
        migrate(self._engine)
        on_sqlite = self._engine.dialect.name == "sqlite"
        self.applications = ApplicationRows(self._engine)
        self.optimizations = OptimizationRows(self._engine)
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
            found = connection.execute(
                sa.select(settings.c.value).where(settings.c.name == name)
            ).scalar_one_or_none()
            if found is not None:
                return str(found)
            connection.execute(sa.insert(settings).values(name=name, value=value))
            return value

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
            connection.execute(sa.delete(settings).where(settings.c.name == name))
            connection.execute(sa.insert(settings).values(name=name, value=value))

    def version(self) -> int:
        """Return the newest version of the log, 0 when it is empty."""
        # Asked before every read and every commit, so it goes to the driver without ceremony.
        connection = self._engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT max(version) FROM commits")
            row = cursor.fetchone()
            cursor.close()
        finally:
            connection.close()
        return int(row[0] or 0) if row is not None else 0

    def tail(self, after: int) -> list[LogEntry] | None:
        """Return the entries with versions above `after`, in order.

        None when some of them were pruned: the caller must start from the snapshot.
        """
        with self._reading() as connection:
            rows = connection.execute(
                sa.select(commits.c.version, commits.c.at_ms, commits.c.record)
                .where(commits.c.version > after)
                .order_by(commits.c.version)
            ).all()
        entries = [LogEntry(*row) for row in rows]
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
            row = connection.execute(
                sa.select(snapshots.c.version, snapshots.c.at_ms, snapshots.c.body)
                .order_by(snapshots.c.version.desc())
                .limit(1)
            ).one_or_none()
        return None if row is None else Snapshot(*row)

    def append(
        self, entries: Sequence[LogEntry], remembered: Sequence[RememberedAnswer] = ()
    ) -> None:
        """Make `entries` and `remembered` durable, all or none.

        Raises
        ------
        VersionTakenError
            If a version or a key is already there.
        """
        try:
            with self._engine.begin() as connection:
                if entries:
                    _require_next(self._version(connection), entries[0].version)
                    connection.execute(sa.insert(commits), [_entry_row(e) for e in entries])
                if remembered:
                    connection.execute(sa.insert(answers), [_answer_row(a) for a in remembered])
        except IntegrityError as error:
            raise VersionTakenError(str(error.orig)) from error

    def answer(self, key: str) -> RememberedAnswer | None:
        """Return what was answered under `key`."""
        with self._reading() as connection:
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).one_or_none()
        if row is None:
            return None
        return RememberedAnswer(
            row.key, row.request_hash, row.at_ms, row.status, row.body, json.loads(row.headers)
        )

    def save_snapshot(self, snapshot: Snapshot, forget_before_ms: int) -> bool:
        """Keep `snapshot` and drop what it replaces; False when a newer one is there already.

        Gone afterwards: the log before the snapshot, older snapshots, and answers remembered
        before `forget_before_ms`.
        """
        with self._engine.begin() as connection:
            newest = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar()
            if newest is not None and newest >= snapshot.version:
                return False
            connection.execute(
                sa.insert(snapshots).values(
                    version=snapshot.version, at_ms=snapshot.at_ms, body=snapshot.body
                )
            )
            connection.execute(sa.delete(snapshots).where(snapshots.c.version < snapshot.version))
            # The newest row stays: it tells everyone which version comes next.
            connection.execute(sa.delete(commits).where(commits.c.version < snapshot.version))
            connection.execute(sa.delete(answers).where(answers.c.at_ms < forget_before_ms))
        return True

    def _reading(self) -> sa.Connection:
        return self._engine.connect().execution_options(agenda_read_only=True)

    @staticmethod
    def _version(connection: sa.Connection) -> int:
        return int(connection.execute(sa.select(sa.func.max(commits.c.version))).scalar() or 0)


def _require_next(newest: int, version: int) -> None:
    """Refuse a version below the newest: where the log was pruned, the key alone would not."""
    if version != newest + 1:
        raise VersionTakenError(f"version {version} does not follow {newest}")


def _entry_row(entry: LogEntry) -> dict[str, object]:
    return {
        "version": entry.version,
        "at_ms": entry.at_ms,
        "record": entry.record,
    }


def _answer_row(answer: RememberedAnswer) -> dict[str, object]:
    return {
        "key": answer.key,
        "request_hash": answer.request_hash,
        "at_ms": answer.at_ms,
        "status": answer.status,
        "headers": json.dumps(dict(answer.headers)),
        "body": answer.body,
    }
