"""Requests of YARN clients: rows next to the log, written in the transaction of its commits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa

from service.store.schema import settings, yarn_reservations
from service.store.table import TableRows, insert_or

#: Settings: when the first id was made (Unix ms), and the number of ids.
_START: Final = "yarn_start_ms"
_COUNT: Final = "yarn_ids"

#: Columns that an update of a reservation changes: submitter, queue and time stay.
CHANGED: Final = ("arrival_ms", "deadline_ms", "period_ms", "definition")


@dataclass(frozen=True, slots=True)
class YarnReservationRow:
    """Request of a YARN client, and its reservation in the Plan.

    Attributes
    ----------
    id
        Id of the reservation in the Plan.
    name
        Id for the client.
    queue, submitter, accepted_ms
        Queue, submitter and time (Unix ms) of the submission.
    arrival_ms, deadline_ms, period_ms
        Times of the definition, Unix ms; a period of 0 means no recurrence.
    definition
        The definition as JSON, in the canonical form of `service.yarn.definition`.
    """

    id: str
    name: str
    queue: str
    submitter: str
    accepted_ms: int
    arrival_ms: int
    deadline_ms: int
    period_ms: int
    definition: bytes

    def values(self) -> dict[str, Any]:
        """Return the values of the table's columns."""
        return asdict(self)


class YarnReservationRows(TableRows[YarnReservationRow]):
    """The rows of one database."""

    table, kind = yarn_reservations, YarnReservationRow

    def next_id(self, now_ms: int) -> tuple[int, int]:
        """Return a start (Unix ms) and a counter that is unique in the database.

        Parameters
        ----------
        now_ms
            Now, Unix ms; the start is that of the first call ever.
        """
        with self._engine.begin() as connection:
            first = insert_or(connection.dialect.name, settings)
            connection.execute(first.values(name=_START, value=str(now_ms)))
            connection.execute(first.values(name=_COUNT, value="0"))
            present = sa.cast(settings.c.value, sa.BigInteger)
            count = sa.update(settings).where(settings.c.name == _COUNT)
            count = count.values(value=sa.cast(present + 1, sa.Text))
            counter = connection.execute(count.returning(settings.c.value)).scalar_one()
            query = sa.select(settings.c.value).where(settings.c.name == _START)
            return int(connection.execute(query).scalar_one()), int(counter)

    def rows_of_client_id(self, name: str) -> list[YarnReservationRow]:
        """Return the rows of a client's id, newest first."""
        table = yarn_reservations.c
        return self.select(table.name == name, order=(table.accepted_ms.desc(), table.id.desc()))

    def between(self, queue: str, start_ms: int, end_ms: int | None) -> list[YarnReservationRow]:
        """Return the rows of a queue whose time, or a recurrence of it, may overlap [start, end].

        Parameters
        ----------
        start_ms, end_ms
            Unix ms; an `end_ms` of None means no end.
        """
        columns = yarn_reservations.c
        begun = () if end_ms is None else (columns.arrival_ms <= end_ms,)
        return self.select(
            columns.queue == queue,
            sa.or_(columns.deadline_ms > start_ms, columns.period_ms > 0),
            *begun,
            order=(columns.accepted_ms, columns.name),
        )
