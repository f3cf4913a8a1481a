"""The archive: reservations that have ended, and refusals, after they left the Plan.

They are written in the transaction of the record by which they leave the Plan, so that each is in
the Plan or here. They are read one by one or in pages, and deleted after a configured time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.store.schema import archive


@dataclass(frozen=True, slots=True)
class ArchivedRow:
    """One reservation or refusal.

    Attributes
    ----------
    id, tenant, queue, state
        Its fields when it left.
    begin_ms, end_ms
        Start and end of its allocation, ms from the Plan's origin; for a refusal, its submission.
    left_ms
        Time of archiving, Unix ms.
    body
        Its form for clients, with its history; JSON.
    place
        Its position in the archive, assigned when it is written.
    """

    id: str
    tenant: str
    queue: str
    state: str
    begin_ms: int
    end_ms: int
    left_ms: int
    body: bytes
    place: int = 0


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """Filter of rows; None does not filter. Times are ms from the origin.

    Rows that left before `left_since_ms`, Unix ms, are excluded.
    """

    after: int
    limit: int
    tenant: str | None = None
    queue: str | None = None
    state: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    tenants: frozenset[str] | None = None
    left_since_ms: int | None = None


class ArchiveRows:
    """The rows of one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, id_: str) -> ArchivedRow | None:
        """Return the newest row of an id, or None."""
        query = sa.select(archive).where(archive.c.id == id_).order_by(archive.c.place.desc())
        found = self._select(query.limit(1))
        return found[0] if found else None

    def page(self, wanted: ArchivePage) -> list[ArchivedRow]:
        """Return rows in the order in which they left."""
        table = archive.c
        query = sa.select(archive).where(table.place > wanted.after).order_by(table.place)
        for name in ("tenant", "queue", "state"):
            value = getattr(wanted, name)
            if value is not None:
                query = query.where(table[name] == value)
        if wanted.tenants is not None:
            query = query.where(table.tenant.in_(sorted(wanted.tenants)))
        if wanted.start_ms is not None:
            query = query.where(table.end_ms > wanted.start_ms)
        if wanted.end_ms is not None:
            query = query.where(table.begin_ms < wanted.end_ms)
        if wanted.left_since_ms is not None:
            query = query.where(table.left_ms >= wanted.left_since_ms)
        return self._select(query.limit(wanted.limit))

    def delete_before(self, left_ms: int) -> int:
        """Delete the rows that left before an instant, Unix ms; return their number."""
        oldest = self._select(sa.select(archive).order_by(archive.c.place).limit(1))
        if not oldest or oldest[0].left_ms >= left_ms:  # usually: then no write lock is taken
            return 0
        with self._engine.begin() as connection:
            old = sa.delete(archive).where(archive.c.left_ms < left_ms)
            return connection.execute(old).rowcount

    def _select(self, query: sa.Select[Any]) -> list[ArchivedRow]:
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            rows: Sequence[Any] = connection.execute(query).mappings().all()
        return [ArchivedRow(**{str(name): row[name] for name in row}) for row in rows]
