"""Rayon's MILP (paper 4.1, 4.1.1), equation by equation, with the four repairs of planning.md.

One function per constraint family; docs/model.md uses the same numbers. Heights are in multiples of
an atom's `multiple`, so x_jt is an integer and (6) needs a binary only if the minimum is above one
multiple. The paper's model is repaired in four places: x is integer; (11) is the equality of (10)
including the overflow, so nothing is placed partly; (7) includes the borders of the window;
rejection outweighs everything else because value is solved first, then falls, then cost
(`agent.py`, `objectives.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lp.arrays import Sense
from lp.model import Entries, LinearModel
from planner.agent import total_requested_value
from planner.agents.milp.columns import (
    AtomColumns,
    ConstraintRows,
    Floats,
    Ints,
    ModelColumns,
    VertexColumns,
    lay_out,
)
from planner.agents.milp.objectives import Kept, change_costs, falls_20, step_costs
from planner.request import Request
from planner.value import options_of, preference_losses, value_asked
from planner.view import PlanView
from rdl.work_graph import ANY, ATOM, EVERY, KIND, LAST_SHIFT, WorkGraph

#: Fraction of the kept value that the solver's rounding may lose.
_VALUE_LOST = 1e-7


@dataclass(frozen=True, slots=True)
class RayonModel:
    """A built model and the data to decode its solution."""

    model: LinearModel
    columns: ModelColumns
    view: PlanView
    totals: list[RunningTotal]
    scale: float
    #: float64[vertex] of each request: `planner.value.preference_losses`.
    losses: list[NDArray[np.float64]]


#: Total value of all requests after scaling for the solver, which treats tiny coefficients as zero:
#: unscaled, HiGHS 1.14's presolve proved a plan of value 0.003 optimal although one of 0.0075
#: existed.
TOTAL_VALUE = 1000.0


def build(
    requests: list[Request],
    view: PlanView,
    *,
    kept: Kept | None = None,
    must_keep: Collection[int] = (),
) -> RayonModel:
    """Build the model that maximises value, or minimises falls or cost at that value.

    Parameters
    ----------
    requests
        Compiled on the view's grid.
    view
        Free capacity; over-committed capacity counts as zero.
    kept
        None to maximise value. Else the value to keep while falls are minimised (half of all
        changes y_jt, which then exist for every atom); or, if it includes falls, both while cost is
        minimised: x_jt weighted by c_jt, the price factor of its step.
    must_keep
        Indexes of requests that every plan must place.

    Returns
    -------
    RayonModel
        With blocks ``x busy change rise overflow started unfinished total worth``; its objective is
        `scale` times the accepted value, or minus the scaled falls or cost.
    """
    model = LinearModel("rayon", Sense.MAXIMISE)
    columns = lay_out(requests, view)
    _add_variables(model, columns, view, kept, must_keep)
    totals = _running_totals(model, columns, view)
    capacity_1(model, columns, view)
    demand_3_10_11(model, columns)
    gangs_6(model, columns)
    changes_7_8_9(model, columns)
    leases_7(model, columns)
    choices_10_11(model, columns)
    order_12_15(model, columns)
    order_16(model, columns)
    totals_18(model, totals)
    averages_19(model, totals, view)
    asked = total_requested_value(requests, view.reference)
    scale = TOTAL_VALUE / asked if asked > 0 else 1.0
    losses = worth(model, columns, view, scale, kept)
    if kept is not None and kept.falls is not None:
        falls_20(model, columns, kept.falls)
    return RayonModel(model, columns, view, totals, scale, losses)


def _add_variables(
    model: LinearModel,
    columns: ModelColumns,
    view: PlanView,
    kept: Kept | None,
    must_keep: Collection[int],
) -> None:
    """Add the blocks: (2), (4), (5) and (17) are bounds and integrality of variables."""
    upper = [np.minimum(atom.maximum, fit_heights(atom, view)) for atom in columns.atoms]
    heights = np.concatenate([np.zeros(0), *upper])
    cost = _cost_objective(columns, view) if kept is not None and kept.falls is not None else 0.0
    block = model.add_block("x", heights.size, cost=cost, upper=heights, integer=True)
    _number(columns.atoms, "x", block.start, lambda atom: atom.steps)
    gangs = [atom for atom in columns.atoms if atom.gang]
    count = sum(atom.steps for atom in gangs)
    block = model.add_block("busy", count, upper=1, integer=True)
    _number(gangs, "busy", block.start, lambda atom: atom.steps)
    changing = [atom for atom in columns.atoms if kept or (atom.rigid and atom.lease > 1)]
    cost = change_costs(changing, kept)
    block = model.add_block("change", cost.size, cost=cost)
    _number(changing, "change", block.start, lambda atom: atom.steps + 1)
    leased = [atom for atom in columns.atoms if atom.lease > 1 and not atom.rigid]
    block = model.add_block("rise", sum(atom.steps for atom in leased))
    _number(leased, "rise", block.start, lambda atom: atom.steps)
    every = _add_overflow(model, columns, must_keep)
    ordered = [v for v in every if v.vertex in columns.ordered[v.request] and v.alive]
    for name in ("started", "unfinished"):
        count = sum(vertex.end - vertex.start for vertex in ordered)
        block = model.add_block(name, count, upper=1, integer=True)
        _number(ordered, name, block.start, lambda vertex: vertex.end - vertex.start)


def _add_overflow(
    model: LinearModel, columns: ModelColumns, must_keep: Collection[int]
) -> list[VertexColumns]:
    """Add (5): 1 if a vertex is left out or cannot be satisfied; return all vertices."""
    every = [vertex for own in columns.vertices for vertex in own]
    dead = np.array([not vertex.alive for vertex in every], dtype=float)
    kept_roots = {id(columns.vertices[request][-1]) for request in must_keep}
    free = np.array([id(vertex) not in kept_roots for vertex in every], dtype=float)
    upper = np.maximum(free, dead)
    block = model.add_block("overflow", len(every), lower=dead, upper=upper, integer=True)
    for offset, vertex in enumerate(every):
        vertex.overflow = block.start + offset
    for atom in columns.atoms:
        atom.overflow = columns.vertices[atom.request][atom.vertex].overflow
    return every


def _cost_objective(columns: ModelColumns, view: PlanView) -> Floats:
    """Return the objective of x_jt: minus its cost, scaled so that the maximum is 1."""
    costs = step_costs(columns, view)
    return -costs / (float(costs.max(initial=0.0)) or 1.0)


Owner = TypeVar("Owner", AtomColumns, VertexColumns)


def _number(owners: Iterable[Owner], name: str, first: int, count: Callable[[Owner], int]) -> None:
    for owner in owners:
        setattr(owner, name, first)
        first += count(owner)


def fit_heights(atom: AtomColumns, view: PlanView) -> Floats:
    """Return the fit cap in multiples at each step of the window, minimum over occurrences."""
    steps = np.arange(atom.start, atom.end)
    caps = np.asarray(atom.demand.fit, dtype=np.int64)
    least = np.full(steps.size, np.iinfo(np.int64).max)
    for shift in atom.shifts.tolist():
        segment = np.searchsorted(view.segments, steps + shift, side="right") - 1
        np.minimum(least, caps[np.clip(segment, 0, caps.size - 1)], out=least)
    return np.asarray(least // atom.multiple, dtype=np.float64)


def capacity_1(model: LinearModel, columns: ModelColumns, view: PlanView) -> None:
    """(1): at every step and in every row of the profile, use is at most the free capacity.

    Resources, labels and instant policies are all rows of the profile.
    """
    width = view.free.shape[1]
    at, column, amount = [], [], []
    for atom in columns.atoms:
        own = atom.x + np.arange(atom.steps)
        for row, taken in zip(atom.demand.rows, atom.demand.amounts, strict=True):
            for shift in atom.shifts.tolist():
                at.append(row * width + np.arange(atom.start, atom.end) + shift - view.first)
                column.append(own)
                amount.append(np.full(atom.steps, float(taken * atom.multiple)))
    if not at:
        return
    used, inverse = np.unique(np.concatenate(at), return_inverse=True)
    free = np.maximum(view.free.reshape(-1)[used], 0).astype(float)
    entries = Entries(inverse, np.concatenate(column), np.concatenate(amount))
    model.add_rows("capacity (1)", used.size, entries, upper=free)


def demand_3_10_11(model: LinearModel, columns: ModelColumns) -> None:
    """(3) as (10) with (11) an equality: sum_t x_jt + w_j o_j = w_j."""
    rows = ConstraintRows()
    for atom in columns.atoms:
        row = rows.open(1, lower=atom.work, upper=atom.work)
        rows.put(row, atom.x + np.arange(atom.steps), 1.0)
        rows.put(row, atom.overflow, float(atom.work))
    rows.add_to(model, "demand (3, 10, 11)")


def gangs_6(model: LinearModel, columns: ModelColumns) -> None:
    """(6): x_jt is 0 or between g and h, with one binary per step."""
    least, most = ConstraintRows(), ConstraintRows()
    for atom in columns.atoms:
        if atom.busy < 0:
            continue
        own = np.arange(atom.steps)
        rows = least.open(atom.steps, lower=0.0)
        least.put(rows, atom.x + own, 1.0)
        least.put(rows, atom.busy + own, -float(atom.minimum))
        rows = most.open(atom.steps, upper=0.0)
        most.put(rows, atom.x + own, 1.0)
        most.put(rows, atom.busy + own, -float(atom.maximum))
    least.add_to(model, "gang minimum (6)")
    most.add_to(model, "gang maximum (6)")


def changes_7_8_9(model: LinearModel, columns: ModelColumns) -> None:
    """(8) and (9): y_jt >= |x_jt - x_j(t-1)| for t in [s, f], zero outside the window.

    (7): the changes of a rigid atom sum to at most twice its height, so it runs once, without a
    break.
    """
    up, down, whole = ConstraintRows(), ConstraintRows(), ConstraintRows()
    for atom in columns.atoms:
        if atom.change < 0:
            continue
        own = np.arange(atom.steps)
        for family, sign in ((up, 1.0), (down, -1.0)):
            rows = family.open(atom.steps + 1, lower=0.0)
            family.put(rows, atom.change + np.arange(atom.steps + 1), 1.0)
            family.put(rows[:-1], atom.x + own, -sign)
            family.put(rows[1:], atom.x + own, sign)
        if atom.rigid:
            row = whole.open(1, upper=2.0 * atom.maximum)
            whole.put(row, atom.change + np.arange(atom.steps + 1), 1.0)
    up.add_to(model, "rises (8)")
    down.add_to(model, "falls (9)")
    whole.add_to(model, "rigid lease (7)")


def leases_7(model: LinearModel, columns: ModelColumns) -> None:
    """Leases of atoms that are not rigid, from the bundles acquired at each step.

    u_t >= x_t - x_(t-1), and bundles acquired in the last l steps are still allocated: x_t >= the
    sum of u over (t - l, t]. Together these rows put the n-th release at least l steps after the
    n-th acquisition, which is the first-in-first-out test of rdl.md. Past the window x = 0, so
    nothing is acquired in its last l - 1 steps.
    """
    taken, held = ConstraintRows(), ConstraintRows()
    for atom in columns.atoms:
        if atom.rise < 0:
            continue
        own = np.arange(atom.steps)
        rows = taken.open(atom.steps, lower=0.0)
        taken.put(rows, atom.rise + own, 1.0)
        taken.put(rows, atom.x + own, -1.0)
        taken.put(rows[1:], atom.x + own[:-1], 1.0)
        count = atom.steps + atom.lease - 1
        rows = held.open(count, lower=0.0)
        held.put(rows[: atom.steps], atom.x + own, 1.0)
        for back in range(atom.lease):
            held.put(rows[back : back + atom.steps], atom.rise + own, -1.0)
    taken.add_to(model, "bundles taken (7)")
    held.add_to(model, "bundles held (7)")


def choices_10_11(model: LinearModel, columns: ModelColumns) -> None:
    """An accepted `any` has all options but one in overflow, an accepted `all` none."""
    rows = ConstraintRows()
    for own, request in zip(columns.vertices, columns.requests, strict=True):
        graph = request.graph
        for vertex in own:
            if graph.vertices[vertex.vertex, KIND] == ATOM:
                continue
            children = [own[child] for child in options_of(graph, vertex.vertex)]
            if graph.vertices[vertex.vertex, KIND] == ANY:
                side = float(len(children) - 1)
                row = rows.open(1, lower=side, upper=side)
                rows.put(row, vertex.overflow, -1.0)
                for child in children:
                    rows.put(row, child.overflow, 1.0)
                continue
            for child in children:
                row = rows.open(1, lower=0.0, upper=0.0)
                rows.put(row, vertex.overflow, -1.0)
                rows.put(row, child.overflow, 1.0)
    rows.add_to(model, "any and all (10, 11)")


# Such a policy limits the integral of a scope's use over every window of W steps. Written directly,
# each of the T windows would have W columns of every atom; with the running total of the use each
# window has three entries.


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


def _running_totals(
    model: LinearModel, columns: ModelColumns, view: PlanView
) -> list[RunningTotal]:
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


@dataclass(frozen=True, slots=True)
class _Indicator:
    """s or f of a vertex as a function of the step: variables inside its window, else constant.

    Before the window s is 0 and f is 1 - o; past it s is 1 - o and f is 0.
    """

    vertex: VertexColumns
    first: int
    rising: bool

    def put(self, rows: ConstraintRows, numbers: Ints, steps: Ints, value: float) -> None:
        """Add `value` times the indicator at `steps` to the rows with `numbers`."""
        start, end = self.vertex.start, self.vertex.end
        inside = (steps >= start) & (steps < end)
        rows.put(numbers[inside], self.first + steps[inside] - start, value)
        whole = steps >= end if self.rising else steps < start
        rows.put(numbers[whole], self.vertex.overflow, -value)

    def constant(self, steps: Ints) -> Floats:
        """Return the constant part of the indicator at `steps` (1 if it is 1 - o)."""
        edge = steps >= self.vertex.end if self.rising else steps < self.vertex.start
        return edge.astype(float)


def _start_indicator(vertex: VertexColumns) -> _Indicator:
    return _Indicator(vertex, vertex.started, rising=True)


def _finish_indicator(vertex: VertexColumns) -> _Indicator:
    return _Indicator(vertex, vertex.unfinished, rising=False)


def order_12_15(model: LinearModel, columns: ModelColumns) -> None:
    """(12)-(15): s rises at the first allocation, f falls after the last, exactly.

    Groups take the union of their children. The paper bounds s and f from below only; gaps with a
    maximum need them from above too: s_t <= s_(t-1) + x_t and f_t <= f_(t+1) + x_t.
    """
    rows = ConstraintRows()
    atoms = {(atom.request, atom.vertex): atom for atom in columns.atoms}
    for own, request, ordered in zip(
        columns.vertices, columns.requests, columns.ordered, strict=True
    ):
        for number in sorted(ordered):
            if not own[number].alive:
                continue
            _add_monotone_rows(rows, own[number])
            if request.graph.vertices[number, KIND] == ATOM:
                _span_of_atom(rows, own[number], atoms[own[number].request, number])
            else:
                _span_of_group(rows, own, number, request.graph)
    rows.add_to(model, "starts and finishes (12-15)")


def _add_monotone_rows(rows: ConstraintRows, vertex: VertexColumns) -> None:
    """(12) s_t >= s_(t-1) and (14) f_t >= f_(t+1); both are 0 if the vertex is not placed."""
    count = vertex.end - vertex.start
    own = np.arange(count)
    for first, sign in ((vertex.started, 1.0), (vertex.unfinished, -1.0)):
        numbers = rows.open(count - 1, lower=0.0)
        rows.put(numbers, first + own[1:], sign)
        rows.put(numbers, first + own[:-1], -sign)
        numbers = rows.open(count, upper=1.0)
        rows.put(numbers, first + own, 1.0)
        rows.put(numbers, vertex.overflow, 1.0)


def _span_of_atom(rows: ConstraintRows, vertex: VertexColumns, atom: AtomColumns) -> None:
    """(13) and (15) s, f >= x / h; upper bounds: each changes only at steps with x > 0."""
    own = np.arange(atom.steps)
    for first, towards in ((vertex.started, -1), (vertex.unfinished, 1)):
        numbers = rows.open(atom.steps, lower=0.0)
        rows.put(numbers, first + own, float(atom.maximum))
        rows.put(numbers, atom.x + own, -1.0)
        numbers = rows.open(atom.steps, upper=0.0)
        rows.put(numbers, first + own, 1.0)
        rows.put(numbers, atom.x + own, -1.0)
        inside = (own + towards >= 0) & (own + towards < atom.steps)
        rows.put(numbers[inside], first + own[inside] + towards, -1.0)


def _span_of_group(
    rows: ConstraintRows, own: list[VertexColumns], number: int, graph: WorkGraph
) -> None:
    vertex = own[number]
    children = [own[child] for child in options_of(graph, number) if own[child].alive]
    last = int(graph.vertices[number, LAST_SHIFT]) if graph.vertices[number, KIND] == EVERY else 0
    steps = np.arange(vertex.start, vertex.end)
    for indicator, shift in ((_start_indicator, 0), (_finish_indicator, last)):
        mine = indicator(vertex)
        above = rows.open(steps.size, upper=0.0)
        mine.put(rows, above, steps, 1.0)
        constant = np.zeros(steps.size)
        for child in children:
            theirs = indicator(child)
            theirs.put(rows, above, steps - shift, -1.0)
            constant += theirs.constant(steps - shift)
            below = rows.open(steps.size, lower=0.0)
            rows.shift(below, lower=theirs.constant(steps - shift))
            mine.put(rows, below, steps, 1.0)
            theirs.put(rows, below, steps - shift, -1.0)
        rows.shift(above, upper=constant)


def order_16(model: LinearModel, columns: ModelColumns) -> None:
    """(16): j'' starts at least the minimum gap and at most the maximum gap after j' ends.

    Minimum gap a: s''_t + f'_(t-a) <= 1. Maximum gap b: f'_t + s''_(t+b) >= 1 - o.
    """
    rows = ConstraintRows()
    for own, request in zip(columns.vertices, columns.requests, strict=True):
        for before, after, least, most in request.graph.edges.tolist():
            if not (own[before].alive and own[after].alive):
                continue
            finish, start = _finish_indicator(own[before]), _start_indicator(own[after])
            steps = np.arange(own[after].start, own[after].end)
            numbers = rows.open(steps.size, upper=1.0)
            rows.shift(numbers, upper=-finish.constant(steps - least))
            start.put(rows, numbers, steps, 1.0)
            finish.put(rows, numbers, steps - least, 1.0)
            if most < 0:
                continue
            steps = np.arange(own[before].start, own[before].end + 1)
            numbers = rows.open(steps.size, lower=1.0)
            rows.shift(numbers, lower=-start.constant(steps + most))
            finish.put(rows, numbers, steps, 1.0)
            start.put(rows, numbers, steps + most, 1.0)
            rows.put(numbers, own[before].overflow, 1.0)
    rows.add_to(model, "precedence (16)")


def worth(
    model: LinearModel, columns: ModelColumns, view: PlanView, scale: float, kept: Kept | None
) -> list[NDArray[np.float64]]:
    """Add the objective, accepted value minus preference losses; return the losses.

    One column per request is its worth: at most 1 - its overflow, minus the loss of each option
    that does not overflow (`planner.value.preference_losses`).
    """
    cost = [scale * value_asked(request, view.reference) for request in columns.requests]
    rows = ConstraintRows()
    losses = [preference_losses(request.graph, view.reference) for request in columns.requests]
    first = model.column_count
    model.add_block("worth", len(cost), cost=cost if kept is None else 0.0, upper=1.0)
    if kept is not None:
        row = rows.open(1, lower=scale * kept.value * (1.0 - _VALUE_LOST))
        rows.put_each(row, first + np.arange(len(cost)), np.array(cost))
    for number, (own, lost) in enumerate(zip(columns.vertices, losses, strict=True)):
        row = rows.open(1, upper=1.0 - float(lost.sum()))
        rows.put(row, first + number, 1.0)
        rows.put(row, own[-1].overflow, 1.0)
        for option in np.flatnonzero(lost).tolist():
            rows.put(row, own[option].overflow, -float(lost[option]))
    rows.add_to(model, "worth")
    return losses
