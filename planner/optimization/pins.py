"""Conflicting pins: find the smallest set of pins that does not fit.

Capacity is additive: any set of pinned rows that does not fit exceeds the limit of one resource at
one step (or in one window), and the smallest set that exceeds it there consists of the largest
rows. So the smallest conflicting set is found exactly, step by step, without a solver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.capacity.profile import FreeProfile, window_use
from planner.capacity.shortage import Taking, takings_of
from planner.explain import area_text, time_text
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import exceeds_machines
from planner.reservations.reservation import Holding
from rdl.resources import format_amount
from rdl.time_grid import duration_text


@dataclass(frozen=True, slots=True)
class PinConflict:
    """A set of pins that no plan can keep together.

    Attributes
    ----------
    pins
        Ids of a smallest set: without any one of them the others fit.
    detail
        The conflict, with the total need and the capacity.
    """

    pins: tuple[str, ...]
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"pins": list(self.pins), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class _Uses:
    """The use of one limit by each of some commitments, per column."""

    ids: Sequence[str]
    use: NDArray[np.int64]
    limit: NDArray[np.int64]

    def smallest(self) -> tuple[int, int] | None:
        """Return (size, column) of the smallest set that exceeds the limit, or None."""
        broken = np.flatnonzero(self.use.sum(axis=0) > self.limit)
        if not len(broken):
            return None
        largest = np.cumsum(-np.sort(-self.use[:, broken], axis=0), axis=0)
        counts = (largest <= self.limit[broken]).sum(axis=0) + 1
        best = int(np.argmin(counts))
        return int(counts[best]), int(broken[best])

    def members(self, count: int, column: int) -> tuple[str, ...]:
        """Return the ids of the `count` largest uses in a column."""
        order = np.argsort(-self.use[:, column], kind="stable")[:count]
        return tuple(sorted(self.ids[number] for number in order.tolist()))


def conflicting_pins(
    plan: Plan, empty: FreeProfile, pins: Sequence[tuple[Commitment, Holding]]
) -> PinConflict | None:
    """Return the smallest set of pins that cannot be kept together, or None.

    Parameters
    ----------
    empty
        The ledger of the machines and policies without any allocation.
    pins
        Commitments and their pinned holdings.
    """
    takings = [takings_of(held, empty, one.tenant, one.queue) for one, held in pins]
    for (commitment, _), mine in zip(pins, takings, strict=True):
        for taking in mine:
            if exceeds_machines(empty, [taking]):
                return PinConflict((commitment.id,), _unfit_text(plan, empty, taking))
    ids = [commitment.id for commitment, _ in pins]
    best: tuple[int, _Uses, int, str] | None = None
    for uses, describe in (
        *_rows(plan, empty, ids, takings),
        *_averages(plan, empty, ids, takings),
    ):
        found = uses.smallest()
        if found is not None and (best is None or found[0] < best[0]):
            best = found[0], uses, found[1], describe(uses, found[1])
    if best is None:
        return None
    return PinConflict(best[1].members(best[0], best[2]), best[3])


def _unfit_text(plan: Plan, ledger: FreeProfile, taking: Taking) -> str:
    caps = np.repeat(np.array(taking.demand.fit), np.diff(ledger.calendar.breaks))
    held = ledger.use_of(taking.rows)
    at = int(np.argmax(held > caps))
    when = time_text(at + ledger.first, plan.grid)
    return f"machines that are up at {when} hold {int(caps[at])} of its {int(held[at])} bundles"


def _rows(
    plan: Plan, ledger: FreeProfile, ids: Sequence[str], takings: Sequence[Sequence[Taking]]
) -> Iterator[tuple[_Uses, Any]]:
    """Yield the limits that apply at each step: machines, labels, quotas."""
    free = ledger.free
    for number, row in enumerate(ledger.book.rows):
        use = np.array([_use_of(ledger, mine, number) for mine in takings])
        use = use.reshape(-1, free.shape[1])

        def describe(uses: _Uses, column: int, row: Any = row) -> str:
            needed = format_amount(row.resource, int(uses.use[:, column].sum()))
            there = format_amount(row.resource, int(uses.limit[column]))
            limit = "" if row.policy is None else f" within policy {row.policy.name}"
            label = f" with {row.label}" if row.label else ""
            when = time_text(column + ledger.first, plan.grid)
            return f"at {when} all pins take {needed}{label}; there is {there}{limit}"

        yield _Uses(ids, use, free[number]), describe


def _use_of(ledger: FreeProfile, takings: Iterable[Taking], row: int) -> NDArray[np.int64]:
    total = np.zeros(ledger.free.shape[1], dtype=np.int64)
    for taking in takings:
        if row in taking.demand.rows:
            amount = taking.demand.amounts[taking.demand.rows.index(row)]
            total += ledger.use_of(taking.rows) * amount
    return total


def _averages(
    plan: Plan, ledger: FreeProfile, ids: Sequence[str], takings: Sequence[Sequence[Taking]]
) -> Iterator[tuple[_Uses, Any]]:
    """Yield the limits of window averages."""
    slack = ledger.averages.slack
    before = ledger.first - ledger.book.longest_window
    for number, row in enumerate(ledger.book.averages):
        use = np.zeros((len(takings), slack.shape[1]), dtype=np.int64)
        for line, mine in zip(use, takings, strict=True):
            for taking in mine:
                if number in taking.demand.averages and len(taking.rows):
                    amount = taking.demand.average_amounts[taking.demand.averages.index(number)]
                    start, held = window_use(taking.rows, row.window)
                    low, high = max(0, start - before), start - before + len(held)
                    high = min(high, len(line))
                    if low < high:
                        skipped = low - (start - before)
                        line[low:high] += held[skipped : skipped + high - low] * amount

        def describe(uses: _Uses, column: int, row: Any = row) -> str:
            step_ms = plan.grid.step_ms
            needed = area_text(row.resource, int(uses.use[:, column].sum()), step_ms)
            there = area_text(row.resource, int(uses.limit[column]), step_ms)
            length = duration_text(plan.grid.ms(row.window))
            when = time_text(column + before, plan.grid)
            return (
                f"in the {length} from {when} on all pins take {needed}; policy {row.policy} "
                f"allows {there}"
            )

        yield _Uses(ids, use, slack[number]), describe
