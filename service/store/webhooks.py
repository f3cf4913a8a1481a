"""Webhooks in the database, and their pending deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from service.access.rate_limit import share_of
from service.store.audit import AuditRow, write_audit
from service.store.engine import hold_lock
from service.store.schema import webhook_deliveries, webhooks
from service.store.table import TableRows, insert_or

#: States of a delivery.
WAITING: Final = "waiting"
DELIVERED: Final = "delivered"
DEAD: Final = "dead"

#: Most failures shown for one webhook.
_SHOWN: Final = 20

#: Key of PostgreSQL's advisory lock under which webhooks are counted.
_LOCK: Final = 0x57454248


class TooManyWebhooksError(Exception):
    """The largest number of webhooks exists already."""


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """One webhook.

    Attributes
    ----------
    kinds
        Kinds of events, separated by commas.
    lead_ms
        Time between the report and the start of a reservation.
    version, number
        The last event that was processed for it.
    maker
        Key of its creator's token in a `TokenBook`; empty if none was required.
    form
        Format of events; one of `service.webhooks.messages.FORMATS`.
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
    """One event for one webhook.

    Attributes
    ----------
    event
        Its id: the same for all attempts.
    body
        Body of the message.
    due_ms
        Time of the next attempt, or of the end of the delivery. Unix ms.
    error
        Why the last attempt failed.
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
        """Store a webhook with its audit row.

        Raises
        ------
        TooManyWebhooksError
            If there are already `most`, or the row's tenant has used its share.
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
        """Return all webhooks, oldest first."""
        return self.select(order=(webhooks.c.created_ms, webhooks.c.id))

    def get(self, id_: str) -> WebhookRow | None:
        """Return a webhook, or None."""
        return next(iter(self.select(webhooks.c.id == id_)), None)

    def delete(self, id_: str, audited: AuditRow | None = None) -> None:
        """Delete a webhook with its pending deliveries."""
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
        """Store deliveries, each event once, and the progress of webhooks, atomically.

        Parameters
        ----------
        looked_at
            (webhook, version, number) of the last processed event.
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
        """Return the due deliveries, round-robin over webhooks.

        Deliveries of one webhook are in order of their due time. A webhook with a long queue does
        not delay the others.
        """
        table = webhook_deliveries.c
        first = (table.due_ms, table.event)
        turn = sa.func.row_number().over(partition_by=table.webhook, order_by=first)
        return self._deliveries.select(
            table.state == WAITING, table.due_ms <= now_ms, order=(turn, *first), limit=most
        )

    def settle(self, row: DeliveryRow) -> None:
        """Record the outcome of an attempt."""
        table = webhook_deliveries.c
        values = {name: getattr(row, name) for name in ("state", "attempts", "due_ms", "error")}
        mine = (table.webhook == row.webhook, table.event == row.event)
        self.change(sa.update(webhook_deliveries).where(*mine).values(values))

    def give_up(self, id_: str, error: str, at_ms: int) -> None:
        """Record that the waiting deliveries of a webhook are dropped, and why."""
        table = webhook_deliveries.c
        waiting = sa.update(webhook_deliveries).where(table.webhook == id_, table.state == WAITING)
        self.change(waiting.values(state=DEAD, error=error, due_ms=at_ms))

    def counts(self, id_: str) -> dict[str, int]:
        """Return the number of deliveries of a webhook in each state."""
        table = webhook_deliveries.c
        query = sa.select(table.state, sa.func.count()).where(table.webhook == id_)
        with self.reading() as connection:
            found = {str(state): int(n) for state, n in connection.execute(query.group_by("state"))}
        return {state: found.get(state, 0) for state in (WAITING, DELIVERED, DEAD)}

    def failures(self, id_: str) -> list[DeliveryRow]:
        """Return the newest failed deliveries: dropped, or to be retried."""
        table = webhook_deliveries.c
        failed = (table.webhook == id_, table.error != "", table.state != DELIVERED)
        newest = (table.due_ms.desc(), table.event)
        return self._deliveries.select(*failed, order=newest, limit=_SHOWN)

    def forget(self, before_ms: int) -> None:
        """Delete deliveries that ended before a time."""
        table = webhook_deliveries.c
        old = (table.state != WAITING, table.due_ms < before_ms)
        self.change(sa.delete(webhook_deliveries).where(*old))
