"""The archive: reservations that have ended, and refusals, after they left the Plan.

They are written in the transaction of the record by which they leave, so each is in the Plan or
here. They are read one by one or in pages, and deleted after a stated time.
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
        As it left.
    begin_ms, end_ms
        When it held something, ms from the Plan's origin; of a refusal, when it was submitted.
    left_ms
        When it left, Unix ms.
    body
        As clients are shown it, with its history; JSON.
    place
        Its place in the archive; given when it is written.
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
    """Which rows are wanted; None does not narrow. Times are ms from the origin.

    Those that left before `left_since_ms`, Unix ms, are not.
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
        """Return what left last under an id, or None."""
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
        """Delete what left before an instant, Unix ms; return how many that were."""
        oldest = self._select(sa.select(archive).order_by(archive.c.place).limit(1))
        if not oldest or oldest[0].left_ms >= left_ms:  # most of the time: no write lock then
            return 0
        with self._engine.begin() as connection:
            old = sa.delete(archive).where(archive.c.left_ms < left_ms)
            return connection.execute(old).rowcount

    def _select(self, query: sa.Select[Any]) -> list[ArchivedRow]:
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            rows: Sequence[Any] = connection.execute(query).mappings().all()
        return [ArchivedRow(**{str(name): row[name] for name in row}) for row in rows]
