"""Optimisations and comparisons in the database: request, progress and result of each.

The first two characters of an id distinguish them; each kind has its own limit of concurrent jobs.
The optimising process writes its own row with regular heartbeats; any server process accepts
requests, answers reads and requests a stop. A running row whose process has been silent for too
long is continued; if no server does that, it is lost, and the next reader records this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from service.store.audit import AuditRow, write_audit
from service.store.engine import hold_lock
from service.store.schema import optimizations
from service.store.table import TableRows

#: States of an optimisation whose changes were applied, and of one whose changes were undone.
APPLIED: Final = "applied"
UNDONE: Final = "undone"

#: State in which a process is at work.
RUNNING: Final = "running"

#: State after its server ended: its result so far is stored, and the next server continues it.
INTERRUPTED: Final = "interrupted"

#: State after it was stopped on request with the best result so far.
STOPPED: Final = "stopped"

#: Milliseconds of silence after which a server continues a running optimisation, and after which it
#: is lost because none did.
SILENCE_MS: Final = 20_000
LOST_MS: Final = 30_000

#: Most stored optimisations; the oldest ended ones are deleted first.
MOST_KEPT: Final = 100

#: Key of PostgreSQL's advisory lock under which one process at a time counts and adds.
_LOCK: Final = 0x4F505449


class TooManyError(Exception):
    """The largest number of optimisations that may run is running."""


@dataclass(frozen=True, slots=True)
class OptimizationRow:
    """One optimisation.

    Attributes
    ----------
    id, created_ms, ended_ms
        Its id; when it was requested and when it ended, Unix ms (0: not yet).
    state, reason
        Its state, and the reason for it if not obvious.
    document, progress, result
        Request, progress and result; JSON. While it runs, the result is a state from which another
        process can continue.
    unwanted
        Whether a stop was requested.
    alive_ms
        Last heartbeat of its process, Unix ms.
    undo
        Its inverse changes once it is applied; JSON, empty before.
    """

    id: str
    created_ms: int
    document: bytes
    alive_ms: int
    state: str = RUNNING
    reason: str = ""
    progress: bytes = b"{}"
    result: bytes = b""
    unwanted: bool = False
    ended_ms: int = 0
    undo: bytes = b""

    @property
    def has_result(self) -> bool:
        """Whether the result is final, not a state to continue from."""
        return bool(self.result) and self.state not in (RUNNING, "lost")


@dataclass(frozen=True, slots=True)
class UndoRow:
    """Inverse changes of an optimisation, written in the transaction that applies it."""

    id: str
    undo: bytes


_LONG: Final = ("result", "undo")
_SHORT: Final = tuple(column for column in optimizations.c if column.name not in _LONG)


class OptimizationRows(TableRows[OptimizationRow]):
    """The rows of one database."""

    table, kind = optimizations, OptimizationRow

    def add(
        self, row: OptimizationRow, most: int, prefix: str = "", audited: AuditRow | None = None
    ) -> None:
        """Store a request with its audit row, and delete the oldest ended ones.

        Parameters
        ----------
        most
            Most concurrent jobs with ids that begin with `prefix`.

        Raises
        ------
        TooManyError
            If that many already run.
        """
        table = optimizations.c
        alive = sa.and_(
            table.state == RUNNING,
            table.alive_ms > row.alive_ms - SILENCE_MS,
            table.id.startswith(prefix),
        )
        with self._engine.begin() as connection:
            hold_lock(connection, _LOCK)
            running = connection.execute(
                sa.select(sa.func.count()).select_from(optimizations).where(alive)
            ).scalar_one()
            if running >= most:
                raise TooManyError(str(running))
            connection.execute(sa.insert(optimizations).values(self.values(row)))
            if audited is not None:
                write_audit(connection, audited)
            over = sa.select(table.id).where(table.state != RUNNING)
            newest = over.order_by(table.created_ms.desc(), table.id).offset(MOST_KEPT - 1)
            old = list(connection.execute(newest).scalars())
            if old:
                connection.execute(sa.delete(optimizations).where(table.id.in_(old)))

    def get(self, id_: str) -> OptimizationRow | None:
        """Return one optimisation, or None."""
        return next(iter(self.select(optimizations.c.id == id_)), None)

    def page(self, prefix: str = "") -> list[OptimizationRow]:
        """Return all with ids that begin with `prefix`, newest first, without results."""
        table = optimizations.c
        alike = table.id.startswith(prefix)
        query = sa.select(*_SHORT).where(alike).order_by(table.created_ms.desc(), table.id)
        with self.reading() as connection:
            return self.rows(connection, query)

    def stop(self, id_: str, audited: AuditRow | None = None) -> None:
        """Request that it ends with the best result so far; idempotent."""
        table = optimizations.c
        waits = table.state == INTERRUPTED
        open_ = sa.or_(waits, sa.and_(table.state == RUNNING, sa.not_(table.unwanted)))
        state = sa.case((waits, STOPPED), else_=table.state)
        # One statement: between two, a server could take over the row.
        change = sa.update(optimizations).where(table.id == id_, open_)
        self.change(change.values(unwanted=True, state=state), audited)

    def take_over(self, prefix: str, now_ms: int) -> OptimizationRow | None:
        """Take over and return the newest interrupted or silent row for the caller to continue.

        None while another job with the `prefix` runs, or if there is none. The decision is atomic
        across servers. The previous row is returned. Silent rows with a requested stop are
        included: they end with their stored state.
        """
        table = optimizations.c
        alike, running = table.id.startswith(prefix), table.state == RUNNING
        heard = table.alive_ms > now_ms - SILENCE_MS
        waits = sa.and_(table.state == INTERRUPTED, table.unwanted.is_(False))
        left = sa.and_(alike, sa.or_(waits, sa.and_(running, sa.not_(heard))))
        with self.reading() as connection:  # usually there is none: then no write lock is taken
            if connection.execute(sa.select(table.id).where(left)).first() is None:
                return None
        newest = sa.select(optimizations).where(left).order_by(table.created_ms.desc()).limit(1)
        alive = sa.select(table.id).where(alike, running, heard)
        values = {"state": RUNNING, "reason": "", "ended_ms": 0, "alive_ms": now_ms}
        with self._engine.begin() as connection:
            hold_lock(connection, _LOCK)
            found = next(iter(self.rows(connection, newest)), None)
            if found is None or connection.execute(alive).first() is not None:
                return None
            # It may have been stopped or deleted since it was read.
            change = sa.update(optimizations).where(table.id == found.id, left).values(values)
            if not connection.execute(change).rowcount:
                return None
        return found

    def beat(
        self, id_: str, at_ms: int, progress: bytes | None = None, kept: bytes | None = None
    ) -> bool:
        """Record a heartbeat and progress of its process; return whether it is still wanted.

        A row that was deleted or recorded as lost is not wanted.

        Parameters
        ----------
        kept
            State from which another process can continue; None for no change.
        """
        values: dict[str, object] = {"alive_ms": at_ms}
        if progress is not None:
            values["progress"] = progress
        if kept is not None:
            values["result"] = kept
        self._write(id_, values)
        return self.is_wanted(id_)

    def is_wanted(self, id_: str) -> bool:
        """Return whether it should continue."""
        table = optimizations.c
        query = sa.select(table.state, table.unwanted).where(table.id == id_)
        with self.reading() as connection:
            found = connection.execute(query).one_or_none()
        return found is not None and found.state == RUNNING and not found.unwanted

    def end(self, row: OptimizationRow) -> bool:
        """Record the end of a running job; False if it is no longer running.

        A job with a requested stop whose server ends is stopped, not continued.
        """
        names = ("state", "reason", "progress", "result", "ended_ms", "alive_ms")
        values = {name: getattr(row, name) for name in names}
        if row.state == INTERRUPTED:
            values["state"] = sa.case((optimizations.c.unwanted, STOPPED), else_=INTERRUPTED)
        return self._write(row.id, values)

    def lose(self, id_: str, at_ms: int, reason: str) -> None:
        """Record that its process ended without a report."""
        values = {"state": "lost", "reason": reason, "ended_ms": at_ms}
        self._write(id_, values)

    def note_outcome(
        self, id_: str, state: str, reason: str, audited: AuditRow | None = None
    ) -> None:
        """Record that its changes were applied or undone."""
        mine = sa.update(optimizations).where(optimizations.c.id == id_)
        self.change(mine.values(state=state, reason=reason), audited)

    def note(self, id_: str, reason: str) -> None:
        """Record the reason of an ended job's state."""
        mine = sa.update(optimizations).where(optimizations.c.id == id_)
        self.change(mine.values(reason=reason))

    def delete(self, id_: str, audited: AuditRow | None = None) -> None:
        """Delete it; a process that still works on it notices and ends."""
        self.change(sa.delete(optimizations).where(optimizations.c.id == id_), audited)

    def note_lost(self, now_ms: int, plan_now_ms: int) -> None:
        """Record as lost the jobs without a heartbeat for `LOST_MS`.

        Parameters
        ----------
        now_ms
            Unix ms by the clock of machines, as in `alive_ms`.
        plan_now_ms
            Unix ms by the Plan's clock, as in `created_ms` and `ended_ms`.
        """
        table = optimizations.c
        silent = sa.and_(table.state == RUNNING, table.alive_ms <= now_ms - LOST_MS)
        with self.reading() as connection:  # usually there is none: then no write lock is taken
            ids = list(connection.execute(sa.select(table.id).where(silent)).scalars())
        for id_ in ids:
            lost = sa.update(optimizations).where(table.id == id_, silent)
            self.change(lost.values(state="lost", ended_ms=plan_now_ms, reason=LOST))

    def _write(self, id_: str, values: dict[str, Any]) -> bool:
        """Change a running row; return whether it was running."""
        table = optimizations.c
        mine = (table.id == id_, table.state == RUNNING)
        return self.change(sa.update(optimizations).where(*mine).values(values)) > 0


#: Reason of a lost row.
LOST: Final = "its process ended with the server or the machine, without a report; start it again"
