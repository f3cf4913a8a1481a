"""Calendar feeds on disk: each shows a tenant's reservations to who has its token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from service.access.tenant_shares import share_of
from service.store.database.engine import hold_lock
from service.store.database.tables import calendar_feeds
from service.store.log.audit import AuditRow, write_audit

#: Key of PostgreSQL's advisory lock under which feeds are counted.
_LOCK: Final = 0x4943414C


class TooManyFeedsError(Exception):
    """There are as many as may be."""


@dataclass(frozen=True, slots=True)
class FeedRow:
    """One feed: of `tenant`, read with the token whose SHA-256 is `token_hash`.

    `maker` is under what a `TokenBook` finds the token of who made it; empty where none was asked
    for.
    """

    id: str
    token_hash: bytes
    tenant: str
    created_ms: int
    maker: str = ""


class FeedRows:
    """The rows of one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, row: FeedRow, most: int, audited: AuditRow | None = None) -> None:
        """Make one durable, with its row of the audit.

        Raises
        ------
        TooManyFeedsError
            If there are `most` already, or the row's tenant has its share of them.
        """
        count = sa.select(sa.func.count()).select_from(calendar_feeds)
        with self._engine.begin() as connection:
            hold_lock(connection, _LOCK)
            mine = count.where(calendar_feeds.c.tenant == row.tenant)
            if connection.execute(count).scalar_one() >= most:
                raise TooManyFeedsError(f"there are {most}")
            if row.tenant and connection.execute(mine).scalar_one() >= share_of(most):
                raise TooManyFeedsError(f"tenant {row.tenant!r} has {share_of(most)} of them")
            values = {name: getattr(row, name) for name in FeedRow.__slots__}
            connection.execute(sa.insert(calendar_feeds).values(values))
            if audited is not None:
                write_audit(connection, audited)

    def page(self) -> list[FeedRow]:
        """Return all, oldest first."""
        order = (calendar_feeds.c.created_ms, calendar_feeds.c.id)
        return self._select(sa.select(calendar_feeds).order_by(*order))

    def find(self, token_hash: bytes) -> FeedRow | None:
        """Return the feed of a token, or None."""
        mine = calendar_feeds.c.token_hash == token_hash
        found = self._select(sa.select(calendar_feeds).where(mine))
        return found[0] if found else None

    def delete(self, id_: str, audited: AuditRow | None = None) -> None:
        """Let nobody read it any more."""
        mine = sa.delete(calendar_feeds).where(calendar_feeds.c.id == id_)
        with self._engine.begin() as connection:
            if connection.execute(mine).rowcount and audited is not None:
                write_audit(connection, audited)

    def _select(self, query: sa.Select[tuple[object, ...]]) -> list[FeedRow]:
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            rows = connection.execute(query).mappings().all()
        return [FeedRow(**{str(name): row[name] for name in row}) for row in rows]
