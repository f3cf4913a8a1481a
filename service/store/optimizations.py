"""Optimisations and comparisons on disk: what was asked, how far each is, and what it found.

The first two characters of an id distinguishes them; each kind has its own bound of how many run.

The process that optimises writes its own row and says now and then that it lives; any server
process takes requests, answers reads and asks it to stop. A row that says it runs and whose process
has been silent for too long is continued; where no server does that it is lost: anyone who looks
next writes that down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from service.store.audit import AuditRow, write_audit
from service.store.engine import hold_lock
from service.store.schema import optimizations
from service.store.table import TableRows

#: States of one whose changes the Plan holds, and of one whose changes were taken back.
APPLIED: Final = "applied"
UNDONE: Final = "undone"

#: States in which a process is at work.
RUNNING: Final = "running"

#: State of one whose server ended: what it has is kept, and the next server continues with it.
INTERRUPTED: Final = "interrupted"

#: State of one that ended with the best so far on request.
STOPPED: Final = "stopped"

#: Milliseconds of silence after which a server continues with a running optimisation, and after
#: which it is lost because none did.
SILENCE_MS: Final = 20_000
LOST_MS: Final = 30_000

#: Most optimisations that are remembered; the oldest that are over are forgotten first.
MOST_KEPT: Final = 100

#: Key of PostgreSQL's advisory lock under which one process at a time counts and adds.
_LOCK: Final = 0x4F505449


class TooManyError(Exception):
    """The most optimisations that may run are running."""


@dataclass(frozen=True, slots=True)
class OptimizationRow:
    """One optimisation.

    Attributes
    ----------
    id, created_ms, ended_ms
        What it is called; when it was requested and when it was over, Unix ms (0: not yet).
    state, reason
        Where it is, and why it is there where that is not plain.
    document, progress, result
        What was asked, how far it is, what it found; JSON. While it runs the result is what another
        process could continue with.
    unwanted
        Whether it was asked to stop.
    alive_ms
        When its process was last heard of, Unix ms.
    undo
        What takes it back once it is applied; JSON, empty before.
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
        """Whether the result is one to show, and not what another process could continue with."""
        return bool(self.result) and self.state not in (RUNNING, "lost")


@dataclass(frozen=True, slots=True)
class UndoRow:
    """What takes an optimisation back, written in the transaction that applies it."""

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
        """Make a request durable with its row of the audit, and forget the oldest that are over.

        Parameters
        ----------
        most
            Most that may run of those whose ids begin with `prefix`.

        Raises
        ------
        TooManyError
            If that many run already.
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
        """Return all whose ids begin so, newest first, without what they found."""
        table = optimizations.c
        alike = table.id.startswith(prefix)
        query = sa.select(*_SHORT).where(alike).order_by(table.created_ms.desc(), table.id)
        with self.reading() as connection:
            return self.rows(connection, query)

    def stop(self, id_: str, audited: AuditRow | None = None) -> None:
        """Note that someone wants it to end with the best so far; again, or later, is nothing."""
        table = optimizations.c
        waits = table.state == INTERRUPTED
        open_ = sa.or_(waits, sa.and_(table.state == RUNNING, sa.not_(table.unwanted)))
        state = sa.case((waits, STOPPED), else_=table.state)
        # One statement: between two a server could take over what it was that the first looked for.
        change = sa.update(optimizations).where(table.id == id_, open_)
        self.change(change.values(unwanted=True, state=state), audited)

    def take_over(self, prefix: str, now_ms: int) -> OptimizationRow | None:
        """Return the newest that was interrupted or fell silent, for the caller to continue with.

        None while another whose id begins with `prefix` runs, or if there is none. That is
        decided for all servers at once. The row returned is as it was before. One that fell silent
        when it was to stop is among them: it ends with what it has kept.
        """
        table = optimizations.c
        alike, running = table.id.startswith(prefix), table.state == RUNNING
        heard = table.alive_ms > now_ms - SILENCE_MS
        waits = sa.and_(table.state == INTERRUPTED, table.unwanted.is_(False))
        left = sa.and_(alike, sa.or_(waits, sa.and_(running, sa.not_(heard))))
        with self.reading() as connection:  # most of the time there is none: no write lock then
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
            # Someone may have stopped or forgotten it since it was read.
            change = sa.update(optimizations).where(table.id == found.id, left).values(values)
            if not connection.execute(change).rowcount:
                return None
        return found

    def beat(
        self, id_: str, at_ms: int, progress: bytes | None = None, kept: bytes | None = None
    ) -> bool:
        """Say that its process lives, and how far it is; return whether it is still wanted.

        A row that someone has deleted, or given up as lost, is not wanted.

        Parameters
        ----------
        kept
            What another process could continue with; None: as it was.
        """
        values: dict[str, object] = {"alive_ms": at_ms}
        if progress is not None:
            values["progress"] = progress
        if kept is not None:
            values["result"] = kept
        self._write(id_, values)
        return self.is_wanted(id_)

    def is_wanted(self, id_: str) -> bool:
        """Return whether it is to continue."""
        table = optimizations.c
        query = sa.select(table.state, table.unwanted).where(table.id == id_)
        with self.reading() as connection:
            found = connection.execute(query).one_or_none()
        return found is not None and found.state == RUNNING and not found.unwanted

    def end(self, row: OptimizationRow) -> bool:
        """Record how one that runs ended; False if it is not running any more.

        One that was to stop anyway when its server ended is not continued: it is stopped.
        """
        names = ("state", "reason", "progress", "result", "ended_ms", "alive_ms")
        values = {name: getattr(row, name) for name in names}
        if row.state == INTERRUPTED:
            values["state"] = sa.case((optimizations.c.unwanted, STOPPED), else_=INTERRUPTED)
        return self._write(row.id, values)

    def lose(self, id_: str, at_ms: int, reason: str) -> None:
        """Note that its process is gone without a word."""
        values = {"state": "lost", "reason": reason, "ended_ms": at_ms}
        self._write(id_, values)

    def note_outcome(
        self, id_: str, state: str, reason: str, audited: AuditRow | None = None
    ) -> None:
        """Note that the Plan holds what it found, or does no more."""
        mine = sa.update(optimizations).where(optimizations.c.id == id_)
        self.change(mine.values(state=state, reason=reason), audited)

    def note(self, id_: str, reason: str) -> None:
        """Record the outcome of one that is over."""
        mine = sa.update(optimizations).where(optimizations.c.id == id_)
        self.change(mine.values(reason=reason))

    def delete(self, id_: str, audited: AuditRow | None = None) -> None:
        """Forget it; a process that still works on it notices and ends."""
        self.change(sa.delete(optimizations).where(optimizations.c.id == id_), audited)

    def note_lost(self, now_ms: int, plan_now_ms: int) -> None:
        """Note which have not been heard of for `LOST_MS`.

        Parameters
        ----------
        now_ms
            Unix ms by the clock of machines, as in `alive_ms`.
        plan_now_ms
            Unix ms by the Plan's clock, as in `created_ms` and `ended_ms`.
        """
        table = optimizations.c
        silent = sa.and_(table.state == RUNNING, table.alive_ms <= now_ms - LOST_MS)
        with self.reading() as connection:  # most of the time there is none: no write lock then
            ids = list(connection.execute(sa.select(table.id).where(silent)).scalars())
        for id_ in ids:
            lost = sa.update(optimizations).where(table.id == id_, silent)
            self.change(lost.values(state="lost", ended_ms=plan_now_ms, reason=LOST))

    def _write(self, id_: str, values: dict[str, Any]) -> bool:
        """Change one that runs; return whether it did."""
        table = optimizations.c
        mine = (table.id == id_, table.state == RUNNING)
        return self.change(sa.update(optimizations).where(*mine).values(values)) > 0


#: Why a row whose process was not heard of any more is lost.
LOST: Final = "its process ended without a word, with the server or the machine; ask again"
