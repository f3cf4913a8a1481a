"""Webhooks on disk: who wants to be notified, and what is still to be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from service.access.tenant_shares import share_of
from service.store.audit import AuditRow, write_audit
from service.store.engine import hold_lock
from service.store.schema import webhook_deliveries, webhooks
from service.store.table import TableRows, insert_or

#: States of a delivery.
WAITING: Final = "waiting"
DELIVERED: Final = "delivered"
DEAD: Final = "dead"

#: Most failures that are shown of one webhook.
_SHOWN: Final = 20

#: Key of PostgreSQL's advisory lock under which webhooks are counted.
_LOCK: Final = 0x57454248


class TooManyWebhooksError(Exception):
    """There are as many as may be."""


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """One webhook.

    Attributes
    ----------
    kinds
        Of events, with commas between them.
    lead_ms
        How long before a reservation begins that is reported.
    version, number
        The last event that was looked at for it.
    maker
        Under which a `TokenBook` finds the token of who made it; empty if none was requested.
    form
        How events are sent; one of `service.webhooks.messages.FORMATS`.
    """

    id: str
    url: str
    secret: str
    kinds: str
    tenant: str | None
    reservation: str | None
    lead_ms: int
    created_ms: int
    version: int
    number: int
    maker: str = ""
    form: str = "event"


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One event that one webhook is notified.

    Attributes
    ----------
    event
        Its id: the same however often it is tried.
    body
        What is sent.
    due_ms
        When it is tried next; of one that is over, when that was. Unix ms.
    error
        Why it was not taken the last time.
    """

    webhook: str
    event: str
    body: bytes
    due_ms: int
    state: str = WAITING
    attempts: int = 0
    error: str = ""


class _DeliveryRows(TableRows[DeliveryRow]):
    table, kind = webhook_deliveries, DeliveryRow


class WebhookRows(TableRows[WebhookRow]):
    """The rows of one database."""

    table, kind = webhooks, WebhookRow

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._deliveries = _DeliveryRows(engine)

    def add(self, row: WebhookRow, most: int, audited: AuditRow | None = None) -> None:
        """Make one durable, with its row of the audit.

        Raises
        ------
        TooManyWebhooksError
            If there are `most` already, or the row's tenant has its share of them.
        """
        count = sa.select(sa.func.count()).select_from(webhooks)
        with self._engine.begin() as connection:
            hold_lock(connection, _LOCK)
            mine = count.where(webhooks.c.tenant == row.tenant)
            if connection.execute(count).scalar_one() >= most:
                raise TooManyWebhooksError(f"there are {most}")
            if row.tenant and connection.execute(mine).scalar_one() >= share_of(most):
                raise TooManyWebhooksError(f"tenant {row.tenant!r} has {share_of(most)} of them")
            connection.execute(sa.insert(webhooks).values(self.values(row)))
            if audited is not None:
                write_audit(connection, audited)

    def page(self) -> list[WebhookRow]:
        """Return all, oldest first."""
        return self.select(order=(webhooks.c.created_ms, webhooks.c.id))

    def get(self, id_: str) -> WebhookRow | None:
        """Return one, or None."""
        return next(iter(self.select(webhooks.c.id == id_)), None)

    def delete(self, id_: str, audited: AuditRow | None = None) -> None:
        """Forget one, and what it was still to be sent."""
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(webhooks).where(webhooks.c.id == id_)).rowcount
            if gone and audited is not None:
                write_audit(connection, audited)
            mine = webhook_deliveries.c.webhook == id_
            connection.execute(sa.delete(webhook_deliveries).where(mine))

    def note(
        self,
        deliveries: Sequence[DeliveryRow],
        looked_at: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        """Note what is to be delivered, each event once, and how far was looked, all or nothing.

        Parameters
        ----------
        looked_at
            (webhook, version, number) of the last event that was looked at.
        """
        note = insert_or(self._engine.dialect.name, webhook_deliveries)
        with self._engine.begin() as connection:
            known = set(connection.execute(sa.select(webhooks.c.id)).scalars())
            for one in deliveries:
                if one.webhook in known:  # not deleted meanwhile
                    connection.execute(note.values(self._deliveries.values(one)))
            for id_, version, number in looked_at:
                connection.execute(
                    sa.update(webhooks)
                    .where(webhooks.c.id == id_)
                    .values(version=version, number=number)
                )

    def due(self, now_ms: int, most: int) -> list[DeliveryRow]:
        """Return what is to be tried now: of each webhook one, then of each a second, and so on.

        Of one webhook what is due first comes first. One for which much waits takes no places from
        the others.
        """
        table = webhook_deliveries.c
        first = (table.due_ms, table.event)
        turn = sa.func.row_number().over(partition_by=table.webhook, order_by=first)
        return self._deliveries.select(
            table.state == WAITING, table.due_ms <= now_ms, order=(turn, *first), limit=most
        )

    def settle(self, row: DeliveryRow) -> None:
        """Record what came of an attempt."""
        table = webhook_deliveries.c
        values = {name: getattr(row, name) for name in ("state", "attempts", "due_ms", "error")}
        mine = (table.webhook == row.webhook, table.event == row.event)
        self.change(sa.update(webhook_deliveries).where(*mine).values(values))

    def give_up(self, id_: str, error: str, at_ms: int) -> None:
        """Record that what waits for one webhook is not told to it, and why."""
        table = webhook_deliveries.c
        waiting = sa.update(webhook_deliveries).where(table.webhook == id_, table.state == WAITING)
        self.change(waiting.values(state=DEAD, error=error, due_ms=at_ms))

    def counts(self, id_: str) -> dict[str, int]:
        """Return how many deliveries of one webhook are in each state."""
        table = webhook_deliveries.c
        query = sa.select(table.state, sa.func.count()).where(table.webhook == id_)
        with self.reading() as connection:
            found = {str(state): int(n) for state, n in connection.execute(query.group_by("state"))}
        return {state: found.get(state, 0) for state in (WAITING, DELIVERED, DEAD)}

    def failures(self, id_: str) -> list[DeliveryRow]:
        """Return the newest that were not taken: given up, or to be tried again."""
        table = webhook_deliveries.c
        failed = (table.webhook == id_, table.error != "", table.state != DELIVERED)
        newest = (table.due_ms.desc(), table.event)
        return self._deliveries.select(*failed, order=newest, limit=_SHOWN)

    def forget(self, before_ms: int) -> None:
        """Forget what was over before a time."""
        table = webhook_deliveries.c
        old = (table.state != WAITING, table.due_ms < before_ms)
        self.change(sa.delete(webhook_deliveries).where(*old))
