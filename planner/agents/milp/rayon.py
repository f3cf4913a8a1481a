"""Rayon's MILP (paper 4.1, 4.1.1), equation by equation, with the four repairs of planning.md.

One function per constraint family; docs/model.md uses the same numbers. Heights are in multiples of
an atom's `multiple`, so x_jt is an integer and (6) needs a binary only if the minimum is above one
multiple. The paper's model is repaired in four places: x is integer; (11) is the equality of (10)
including the overflow, so nothing is placed partly; (7) includes the borders of the window;
rejection outweighs everything else because value is solved first, then falls, then cost
(`stages.py`, `objectives.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lp.arrays import Sense
from lp.model import Entries, LinearModel
from planner.agent import total_requested_value
from planner.agents.milp.averages import RunningTotal, averages_19, running_totals, totals_18
from planner.agents.milp.columns import AtomColumns, ModelColumns, VertexColumns, lay_out
from planner.agents.milp.objectives import Kept, change_costs, falls_20, step_costs
from planner.agents.milp.precedence import order_12_15, order_16
from planner.agents.milp.rows import ConstraintRows, Floats
from planner.agents.milp.worth import worth
from planner.request import Request
from planner.value import options_of
from planner.view import PlanView
from rdl.work_graph import ANY, ATOM, KIND


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
    totals = running_totals(model, columns, view)
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
