"""Optimisations and comparisons on disk: what was asked, how far each is, and what it found.

The first two characters of an id tell them apart; each kind has its own bound of how many run.

The process that optimises writes its own row and says now and then that it lives; any server
process takes requests, answers reads and asks it to stop. A row that says it runs and whose process
has been silent for too long is lost: whoever looks next writes that down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from service.store.database.engine import hold_lock
from service.store.database.tables import optimizations

#: States in which a process is at work.
RUNNING: Final = "running"

#: Milliseconds of silence after which a running optimisation is lost.
SILENCE_MS: Final = 20_000

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
        What it is called; when it was asked for and when it was over, Unix ms (0: not yet).
    state, reason
        Where it is, and why it is there where that is not plain.
    document, progress, result
        What was asked, how far it is, what it found; JSON.
    unwanted
        Whether somebody asked it to stop.
    alive_ms
        When its process was last heard of, Unix ms.
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


_SHORT: Final = tuple(column for column in optimizations.c if column.name not in ("result",))


class OptimizationRows:
    """The rows of one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, row: OptimizationRow, most: int, prefix: str = "") -> None:
        """Make a request durable, and forget the oldest that are over.

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
        values = {name: getattr(row, name) for name in OptimizationRow.__slots__}
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
            connection.execute(sa.insert(optimizations).values(values))
            over = sa.select(table.id).where(table.state != RUNNING)
            newest = over.order_by(table.created_ms.desc(), table.id).offset(MOST_KEPT - 1)
            old = list(connection.execute(newest).scalars())
            if old:
                connection.execute(sa.delete(optimizations).where(table.id.in_(old)))

    def get(self, id_: str, now_ms: int) -> OptimizationRow | None:
        """Return one optimisation as it is at `now_ms`, or None."""
        self._note_lost(now_ms)
        query = sa.select(optimizations).where(optimizations.c.id == id_)
        with self._reading() as connection:
            found = connection.execute(query).mappings().one_or_none()
        return None if found is None else OptimizationRow(**{str(k): found[k] for k in found})

    def page(self, now_ms: int, prefix: str = "") -> list[OptimizationRow]:
        """Return all whose ids begin so, newest first, without what they found."""
        self._note_lost(now_ms)
        table = optimizations.c
        alike = table.id.startswith(prefix)
        query = sa.select(*_SHORT).where(alike).order_by(table.created_ms.desc(), table.id)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [OptimizationRow(**{str(name): row[name] for name in row}) for row in rows]

    def stop(self, id_: str) -> None:
        """Note that somebody wants it to end with the best so far."""
        self._write(id_, {"unwanted": True}, running=True)

    def beat(self, id_: str, at_ms: int, progress: bytes | None = None) -> bool:
        """Say that its process lives, and how far it is; return whether it is still wanted.

        A row that somebody has deleted, or given up as lost, is not wanted.
        """
        values: dict[str, object] = {"alive_ms": at_ms}
        if progress is not None:
            values["progress"] = progress
        self._write(id_, values, running=True)
        return self.wanted(id_)

    def wanted(self, id_: str) -> bool:
        """Return whether it is to go on."""
        table = optimizations.c
        query = sa.select(table.state, table.unwanted).where(table.id == id_)
        with self._reading() as connection:
            found = connection.execute(query).one_or_none()
        return found is not None and found.state == RUNNING and not found.unwanted

    def end(self, row: OptimizationRow) -> bool:
        """Write down how one that runs ended; False where it is not running any more."""
        names = ("state", "reason", "progress", "result", "ended_ms", "alive_ms")
        return self._write(row.id, {name: getattr(row, name) for name in names}, running=True)

    def lose(self, id_: str, at_ms: int, reason: str) -> None:
        """Note that its process is gone without a word."""
        values = {"state": "lost", "reason": reason, "ended_ms": at_ms}
        self._write(id_, values, running=True)

    def note_applied(self, id_: str, reason: str) -> None:
        """Note that the Plan holds what it found."""
        self._write(id_, {"state": "applied", "reason": reason}, running=False)

    def delete(self, id_: str) -> None:
        """Forget it; a process that still works on it notices and ends."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(optimizations).where(optimizations.c.id == id_))

    def _note_lost(self, now_ms: int) -> None:
        table = optimizations.c
        silent = sa.and_(table.state == RUNNING, table.alive_ms <= now_ms - SILENCE_MS)
        with self._reading() as connection:  # most of the time there is none: no write lock then
            ids = list(connection.execute(sa.select(table.id).where(silent)).scalars())
        for id_ in ids:
            with self._engine.begin() as connection:
                connection.execute(
                    sa.update(optimizations)
                    .where(table.id == id_, silent)
                    .values(state="lost", ended_ms=now_ms, reason=LOST)
                )

    def _write(self, id_: str, values: dict[str, object], *, running: bool) -> bool:
        table = optimizations.c
        known = table.id == id_
        if running:
            known = sa.and_(known, table.state == RUNNING)
        with self._engine.begin() as connection:
            done = connection.execute(sa.update(optimizations).where(known).values(values))
        return bool(done.rowcount)

    def _reading(self) -> sa.Connection:
        return self._engine.connect().execution_options(agenda_read_only=True)


#: Why a row whose process was not heard of any more is lost.
LOST: Final = "its process ended without a word, with the server or the machine; ask again"
