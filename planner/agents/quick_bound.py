"""The bound reported with a greedy plan, computed within about a twentieth of a second.

First by load: requests whose windows lie inside an interval share the free capacity there. For one
row of the profile, a fractional knapsack over them (Dantzig), each with its least use of the row,
is an upper limit; the value that the knapsack leaves out is lost in every plan. Losses of disjoint
intervals add up, so dynamic programming over interval ends finds the best set. Then by some rounds
of column generation. The effort depends on the predicted cost, never on the clock: equal sets of
requests get equal bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.agents.exact.build import DemandNumbers, build_problem
from planner.agents.exact.lagrangian import evaluation_s
from planner.agents.exact.prices import ROUNDING, ColumnGeneration, mean_prices
from planner.request import Request
from planner.value import value_asked
from planner.view import Demand, PlanView
from rdl.work_graph import (
    ANY,
    ATOM,
    CHILD_COUNT,
    CHILD_FIRST,
    END,
    KIND,
    SHIFT_COUNT,
    SHIFT_FIRST,
    START,
    WORK,
    WorkGraph,
)

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]

#: Number of parts of the horizon; intervals start and end at their boundaries.
PARTS: Final = 24


class _Atoms(NamedTuple):
    """The atoms of all requests, request by request.

    Attributes
    ----------
    owner
        int64[atom]: index of its request.
    rows
        int64[atom, COLUMNS]: its row of vertex data.
    end
        int64[atom]: step past the window of its last occurrence.
    """

    owner: I64
    rows: I64
    end: I64


def load_bound(requests: Sequence[Request], values: F64, view: PlanView) -> float:
    """Return an upper bound on the value of any plan from amounts only, at most the sum of values.

    Parameters
    ----------
    requests
        Compiled on the view's grid; void requests use nothing.
    values
        float64[request]: maximum value of each.
    """
    if not requests:
        return 0.0
    atoms = _atoms_of(requests)
    use = least_use(requests, view, atoms)
    spans = _spans(atoms, len(requests), view)
    free = np.maximum(view.free, 0)
    steps = free.shape[1]
    marks = np.unique(np.linspace(0, steps, PARTS + 1).astype(np.int64))
    paid = np.concatenate([np.zeros((len(free), 1)), np.cumsum(free, axis=1)], axis=1)[:, marks]
    lost = np.zeros((len(marks), len(marks)))
    for row in range(use.shape[1]):
        own = np.flatnonzero(use[:, row])  # usually few for the row of a tenant
        if len(own):
            found = _losses(values[own], use[own, row], spans[own], marks, paid[row])
            np.maximum(lost, found, out=lost)
    return float(values.sum()) - _best_sum(lost)


def _atoms_of(requests: Sequence[Request]) -> _Atoms:
    rows = np.concatenate([one.graph.vertices for one in requests])
    owner = np.repeat(np.arange(len(requests)), [len(one.graph.vertices) for one in requests])
    shifts = np.concatenate([one.graph.shifts for one in requests])
    counts = [len(one.graph.shifts) for one in requests]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    chosen = rows[:, KIND] == ATOM
    rows, owner = rows[chosen], owner[chosen]
    last = shifts[first[owner] + rows[:, SHIFT_FIRST] + rows[:, SHIFT_COUNT] - 1]
    return _Atoms(owner, rows, rows[:, END] + last)


def least_use(requests: Sequence[Request], view: PlanView, atoms: _Atoms | None = None) -> F64:
    """Return float64[request, row]: minimum amount-steps that each uses of a row."""
    atoms = _atoms_of(requests) if atoms is None else atoms
    demands = DemandNumbers(view)
    # Get the demands first: this may add rows to the view.
    numbers = [demands.of(request) for request in requests]
    number = np.array([index for own in numbers for index in own.values()], dtype=np.int64)
    work = (atoms.rows[:, WORK] * atoms.rows[:, SHIFT_COUNT]).astype(np.float64)
    use = np.zeros((len(requests), len(view.row_names)))
    for index, demand in enumerate(demands.found):
        mine = number == index
        taken = np.bincount(atoms.owner[mine], work[mine], len(requests))
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            use[:, row] += amount * taken
    kinds = np.concatenate([one.graph.vertices[:, KIND] for one in requests]) == ANY
    lengths = np.cumsum([0, *(len(one.graph.vertices) for one in requests)])
    for place in np.unique(np.searchsorted(lengths, np.flatnonzero(kinds), side="right") - 1):
        of_atom = {atom: demands.found[index] for atom, index in numbers[place].items()}
        use[place] = _least_of_options(requests[place].graph, of_atom, use.shape[1])
    return use


def _least_of_options(graph: WorkGraph, of_atom: dict[int, Demand], rows: int) -> F64:
    """Return float64[row]: sum over a group's children, minimum over an `any`."""
    use = np.zeros((len(graph.vertices), rows))
    for vertex, row in enumerate(graph.vertices):
        if row[KIND] == ATOM:
            demand = of_atom[vertex]
            work = int(row[WORK]) * int(row[SHIFT_COUNT])
            use[vertex, list(demand.rows)] = np.array(demand.amounts, dtype=np.float64) * work
            continue
        first = int(row[CHILD_FIRST])
        below = use[graph.children[first : first + int(row[CHILD_COUNT])]]
        use[vertex] = below.min(axis=0) if row[KIND] == ANY else below.sum(axis=0)
    return np.asarray(use[-1])


def _spans(atoms: _Atoms, requests: int, view: PlanView) -> I64:
    """Return int64[request, 2]: columns that each may use; an empty range if it is void."""
    steps = view.free.shape[1]
    begin, end = np.full(requests, steps), np.zeros(requests, dtype=np.int64)
    np.minimum.at(begin, atoms.owner, atoms.rows[:, START] - view.first)
    np.maximum.at(end, atoms.owner, atoms.end - view.first)
    return np.stack([begin.clip(0, steps), end.clip(0, steps)], axis=1)


def _losses(values: F64, use: F64, spans: I64, marks: I64, paid: F64) -> F64:
    """Return float64[mark, mark]: value that does not fit into a row between two marks.

    Parameters
    ----------
    use
        float64[request]: use of the row, above 0.
    paid
        float64[mark]: the row's free amount-steps before each mark.
    """
    order = np.argsort(-values / use, kind="stable")
    value, amount, begin, end = values[order], use[order], spans[order, 0], spans[order, 1]
    lost = np.zeros((len(marks), len(marks)))
    full = asked_between(amount, spans[order], marks) > paid[None, :] - paid[:, None]
    for first, last in np.argwhere(np.triu(full, 1)).tolist():
        inside = (begin >= marks[first]) & (end <= marks[last])
        taken = np.cumsum(amount * inside)
        room = paid[last] - paid[first]
        if taken[-1] <= room:  # by rounding, if amounts exceed the range of exact floats
            continue
        # The first request that does not fit entirely fits in part: as much as capacity is left.
        cut = int(np.searchsorted(taken, room, side="right"))
        part = (taken[cut] - room) / amount[cut]
        lost[first, last] = part * value[cut] + (value * inside)[cut + 1 :].sum()
    return lost


def asked_between(amount: F64, spans: I64, marks: I64) -> F64:
    """Return float64[mark, mark]: total use by requests whose windows lie between two marks."""
    asked = np.zeros((len(marks), len(marks)))
    first = np.searchsorted(marks, spans[:, 0], side="right") - 1
    last = np.searchsorted(marks, spans[:, 1], side="left")
    np.add.at(asked, (first, last), amount)
    return np.asarray(asked[::-1].cumsum(axis=0)[::-1].cumsum(axis=1))


def _best_sum(lost: F64) -> float:
    """Return the maximum total loss of disjoint intervals."""
    most = np.zeros(len(lost))
    for last in range(1, len(lost)):
        most[last] = max(most[last - 1], (most[:last] + lost[:last, last]).max())
    return float(most[-1])


#: Time limit for the priced bound, in seconds.
BUDGET_S: Final = 0.05

#: Rounds of column generation: fewer do not improve on the load bound, more gain little.
LEAST_ROUNDS: Final = 4
MOST_ROUNDS: Final = 12

#: Number of buckets of the master program over the horizon.
_PARTS = 30

#: Approximate processor seconds per request: to build it; to solve the master.
_BUILD_S = 1.2e-4
_MASTER_S = 3e-5

#: Stop the rounds when the master can gain less than this fraction of the total value.
_SMALL_GAIN = 3e-4


class QuickBound(NamedTuple):
    """A bound and its proof.

    Attributes
    ----------
    value
        Upper bound on the value of any plan of the requests.
    proof
        ``all`` (every request is placed), ``load`` (amounts) or ``columns`` (prices).
    """

    value: float
    proof: str


def quick_bound(requests: Sequence[Request], view: PlanView, reached: float = 0.0) -> QuickBound:
    """Return an upper bound on the value of any plan of the requests on a view.

    Parameters
    ----------
    requests
        Compiled on the view's grid; void requests use nothing.
    reached
        Value of a known plan; if it equals the sum of all values, no bound is searched.
    """
    worth = np.array([value_asked(one, view.reference) for one in requests], dtype=np.float64)
    total = float(worth.sum())
    if total <= reached * (1 + ROUNDING):
        return QuickBound(total, "all")
    load = load_bound(requests, worth, view) * (1 + ROUNDING)
    found = QuickBound(load, "load") if load < total else QuickBound(total, "all")
    priced = _priced_bound(requests, worth, view)
    return QuickBound(priced, "columns") if priced < found.value else found


def _priced_bound(requests: Sequence[Request], values: F64, view: PlanView) -> float:
    """Return the bound by column generation; infinity if it would take too long."""
    asked = [place for place, one in enumerate(requests) if len(one.graph.vertices)]
    if _least_s([requests[place] for place in asked]) > BUDGET_S:
        return float("inf")
    problem = build_problem([requests[place] for place in asked], view)
    round_s = evaluation_s(problem) + _MASTER_S * len(asked)
    rounds = min(MOST_ROUNDS, int((BUDGET_S - _BUILD_S * len(asked)) / round_s))
    if rounds < LEAST_ROUNDS:
        return float("inf")
    columns = problem.room.free.shape[1]
    prices = 0.7 * mean_prices(problem)[:, None] + np.zeros(problem.room.free.shape)
    search = ColumnGeneration(problem, prices, max(1, columns // _PARTS))
    for _ in range(rounds):
        search.round(_SMALL_GAIN * problem.total)
    others = float(values.sum()) - float(values[asked].sum())
    return search.bound + others


def _least_s(requests: Sequence[Request]) -> float:
    """Estimate the seconds for building the model and for the minimum number of rounds."""
    if not requests:
        return 0.0
    vertices = np.concatenate([one.graph.vertices for one in requests])
    steps = int((vertices[:, END] - vertices[:, START]).clip(0).sum())
    return _BUILD_S * len(requests) + LEAST_ROUNDS * (1.9e-7 * steps + _MASTER_S * len(requests))
