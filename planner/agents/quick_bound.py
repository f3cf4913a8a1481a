"""The bound reported with a greedy plan: as good as a twentieth of a second can make it.

By load: requests whose windows lie inside an interval share what is free there. Of one row of the
profile they can take no more than a fractional knapsack of them (Dantzig), each with the least that
it takes of the row; what the knapsack leaves out is lost to every plan. Losses of intervals that do
not overlap add up, so the best set of them is found by dynamic programming over their ends. Then by
some rounds of column generation. The work is chosen by what it is predicted to cost, never by the
clock: equal sets get equal bounds.
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

#: Parts of the horizon at whose ends intervals begin and end.
PARTS: Final = 24


class _Atoms(NamedTuple):
    """The atoms of all requests, one after the other.

    Attributes
    ----------
    owner
        int64[atom]: its request.
    rows
        int64[atom, COLUMNS]: its vertex.
    end
        int64[atom]: step past the window of its last occurrence.
    """

    owner: I64
    rows: I64
    end: I64


def load_bound(requests: Sequence[Request], values: F64, view: PlanView) -> float:
    """Return the most that any plan can be worth by amounts alone, at most all values.

    Parameters
    ----------
    requests
        Compiled on the view's grid; void ones take nothing.
    values
        float64[request]: what each is worth at most.
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
        own = np.flatnonzero(use[:, row])  # of the row of a tenant mostly few
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
    """Return float64[request, row]: the least amount-steps that each takes of a row."""
    atoms = _atoms_of(requests) if atoms is None else atoms
    demands = DemandNumbers(view)
    # Demands first: they may add rows to the view.
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
    """Return float64[row]: groups take the sum of their children, an `any` the least."""
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
    """Return int64[request, 2]: columns outside which each holds nothing; none for a void one."""
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
        float64[request]: what each takes of the row, above 0.
    paid
        float64[mark]: what the row has free before each mark.
    """
    order = np.argsort(-values / use, kind="stable")
    value, amount, begin, end = values[order], use[order], spans[order, 0], spans[order, 1]
    lost = np.zeros((len(marks), len(marks)))
    full = asked_between(amount, spans[order], marks) > paid[None, :] - paid[:, None]
    for first, last in np.argwhere(np.triu(full, 1)).tolist():
        inside = (begin >= marks[first]) & (end <= marks[last])
        taken = np.cumsum(amount * inside)
        room = paid[last] - paid[first]
        if taken[-1] <= room:  # by rounding, where amounts are beyond what floats count
            continue
        # The first that does not fit whole: a part of it does, by as much as capacity is left.
        cut = int(np.searchsorted(taken, room, side="right"))
        part = (taken[cut] - room) / amount[cut]
        lost[first, last] = part * value[cut] + (value * inside)[cut + 1 :].sum()
    return lost


def asked_between(amount: F64, spans: I64, marks: I64) -> F64:
    """Return float64[mark, mark]: what requests whose windows lie between two marks take."""
    asked = np.zeros((len(marks), len(marks)))
    first = np.searchsorted(marks, spans[:, 0], side="right") - 1
    last = np.searchsorted(marks, spans[:, 1], side="left")
    np.add.at(asked, (first, last), amount)
    return np.asarray(asked[::-1].cumsum(axis=0)[::-1].cumsum(axis=1))


def _best_sum(lost: F64) -> float:
    """Return the most that intervals which do not overlap lose together."""
    most = np.zeros(len(lost))
    for last in range(1, len(lost)):
        most[last] = max(most[last - 1], (most[:last] + lost[:last, last]).max())
    return float(most[-1])


#: Seconds that prices may take.
BUDGET_S: Final = 0.05

#: Rounds of column generation: fewer do not come below the load, more gain little.
LEAST_ROUNDS: Final = 4
MOST_ROUNDS: Final = 12

#: Buckets of the master programme, as a part of the horizon.
_PARTS = 30

#: Seconds about, of the processor: to build a request; to solve the master, for each request.
_BUILD_S = 1.2e-4
_MASTER_S = 3e-5

#: A master that can gain less than this part of everything ends the rounds.
_SMALL_GAIN = 3e-4


class QuickBound(NamedTuple):
    """A bound and what proves it.

    Attributes
    ----------
    value
        The most that any plan of the requests can be worth.
    proof
        ``all`` (everything is held), ``load`` (amounts) or ``columns`` (prices).
    """

    value: float
    proof: str


def quick_bound(requests: Sequence[Request], view: PlanView, reached: float = 0.0) -> QuickBound:
    """Return a bound on the value of any plan of the requests on a view.

    Parameters
    ----------
    requests
        Compiled on the view's grid; void ones hold nothing.
    reached
        Value of a plan in hand: where it is all that is asked, nothing is looked for.
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
    """Return the bound of some rounds of prices; infinity where they would take too long."""
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
    """Return about the seconds of building and of the least rounds, before anything is built."""
    if not requests:
        return 0.0
    vertices = np.concatenate([one.graph.vertices for one in requests])
    steps = int((vertices[:, END] - vertices[:, START]).clip(0).sum())
    return _BUILD_S * len(requests) + LEAST_ROUNDS * (1.9e-7 * steps + _MASTER_S * len(requests))
