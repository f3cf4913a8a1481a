"""Window averages in Rayon's MILP: rows (18)-(19) of docs/model.md, added after Rayon 5.2.

Such a policy limits the integral of a scope's use over every window of W steps. Written directly,
each of the T windows would have W columns of every atom; with the running total of the use each
window has three entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lp.model import LinearModel
from planner.agents.milp.columns import ModelColumns
from planner.agents.milp.rows import ConstraintRows, Floats, Ints
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """The cumulative use of one limit's scope.

    Attributes
    ----------
    limit
        Row of `PlanView.averages`.
    start, steps
        A_t exists for t in [start, start + steps): the steps at which atoms of the scope may run.
    unit
        Amount-steps per unit of A: the greatest common divisor of all amounts.
    at, columns, amounts
        Use: `amounts` times the x_jt in `columns` counts from step `start` + `at` on.
    first
        First column of A.
    """

    limit: int
    start: int
    steps: int
    unit: int
    at: Ints
    columns: Ints
    amounts: Ints
    first: int

    def values(self, values: Floats) -> Floats:
        """Return A_t for given values of x."""
        use = np.zeros(self.steps)
        np.add.at(use, self.at, self.amounts * values[self.columns])
        return np.cumsum(use)


def running_totals(model: LinearModel, columns: ModelColumns, view: PlanView) -> list[RunningTotal]:
    """Add the block ``total``: A_it of each limit that applies to an atom of the model."""
    limits = {limit for atom in columns.atoms if atom.steps for limit in atom.demand.averages}
    found = []
    first = model.column_count
    for limit in sorted(limits):
        uses = zip(*_use(columns, limit), strict=True)
        at, column, amount = (np.concatenate(part) for part in uses)
        start = int(at.min())
        unit = int(np.gcd.reduce(amount))
        steps = int(at.max()) + 1 - start
        total = RunningTotal(limit, start, steps, unit, at - start, column, amount // unit, first)
        found.append(total)
        first += steps
    model.add_block("total", first - model.column_count)
    return found


def _use(columns: ModelColumns, limit: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield arrays (step, column, amount) of the use under a limit, one triple per occurrence."""
    for atom in columns.atoms:
        amounts = dict(zip(atom.demand.averages, atom.demand.average_amounts, strict=True))
        if limit not in amounts or not atom.steps:
            continue
        own = np.arange(atom.steps, dtype=np.int64)
        taken = np.full(atom.steps, amounts[limit] * atom.multiple, dtype=np.int64)
        for shift in atom.shifts.tolist():
            yield atom.start + shift + own, atom.x + own, taken


def totals_18(model: LinearModel, totals: list[RunningTotal]) -> None:
    """(18): A_t = A_(t-1) + the sum of amounts x occurrences of x_jt at t."""
    rows = ConstraintRows()
    for total in totals:
        own = rows.open(total.steps, lower=0.0, upper=0.0)
        count = total.first + np.arange(total.steps)
        rows.put(own, count, 1.0)
        rows.put(own[1:], count[:-1], -1.0)
        rows.put_each(own[total.at], total.columns, -total.amounts.astype(np.float64))
    rows.add_to(model, "running total (18)")


def averages_19(model: LinearModel, totals: list[RunningTotal], view: PlanView) -> None:
    """(19): A_(tau+W-1) - A_(tau-1) is at most the remaining budget of the window at tau.

    Every window that overlaps a step of the scope has a row, even if it starts before the first
    step or ends past the last; if a limit is already exceeded, no further use is allowed.
    """
    rows = ConstraintRows()
    left = view.averages
    for total in totals:
        window = int(left.windows[total.limit])
        tau = np.arange(total.start - window + 1, total.start + total.steps)
        column = tau - view.first + left.offset
        inside = (column >= 0) & (column < left.slack.shape[1])
        tau, slack = tau[inside], left.slack[total.limit, column[inside]]
        own = rows.open(tau.size, upper=0.0)
        rows.shift(own, upper=(np.maximum(slack, 0) // total.unit).astype(np.float64))
        last = np.minimum(tau + window, total.start + total.steps) - 1 - total.start
        rows.put(own, total.first + last, 1.0)
        after = tau > total.start
        rows.put(own[after], total.first + tau[after] - 1 - total.start, -1.0)
    rows.add_to(model, "window average (19)")
