"""Which of many bars a picture is sent: the first of an order, or as many spread over all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.plan.table.column_reading import ids_of, scope_column
from planner.plan.table.table import ReservationTable

#: What bars may be put in order by.
ORDERS: Final = ("admission", "tenant", "begin", "finish")

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BarChoice:
    """What is sent where there are more bars than a picture needs.

    Attributes
    ----------
    most
        How many at most; None: all, or none where they are too many for one answer.
    order
        One of `ORDERS`.
    spread
        Whether those are sent that lie evenly over all in that order, rather than its first.
    find
        Part of the id; empty: all.
    """

    most: int | None = None
    order: str = "admission"
    spread: bool = False
    find: str = ""

    def found(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        """Return those whose id has the words that are looked for."""
        if not self.find:
            return numbers
        text = self.find.lower()
        has = [text in id_.lower() for id_ in ids_of(table, numbers)]
        return numbers[np.array(has, dtype=np.bool_)] if len(numbers) else numbers

    def part(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        """Return at most `most` of them, by admission as they came."""
        if self.most is None or len(numbers) <= self.most:
            return numbers
        order = self._order(table, numbers)
        places = np.arange(self.most)
        if self.spread:
            places = places * len(numbers) // self.most
        chosen: _Ints = np.sort(numbers[order[places]])
        return chosen

    def _order(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        if self.order == "admission":
            return np.arange(len(numbers))
        meta = table.meta[numbers]
        if self.order == "tenant":
            tenant = scope_column(table, numbers, "tenant").place
            return np.lexsort((meta["begin"], tenant))
        return np.argsort(meta[self.order], kind="stable")


#: All of them.
EVERY_BAR: Final = BarChoice()
