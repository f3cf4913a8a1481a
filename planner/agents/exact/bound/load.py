"""A bound that costs next to nothing: what fits into intervals of the horizon by amount alone.

Requests whose windows lie inside an interval share what is free there. Of one row of the profile
they can hold no more than a fractional knapsack of them (Dantzig), each with the least that it
takes of the row. What the knapsack leaves out is lost to every plan. Losses of intervals that do
not overlap add up, so the best set of them is found by dynamic programming over their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import (
    ANY,
    ATOM,
    BUNDLE,
    CHILD_COUNT,
    CHILD_FIRST,
    END,
    KIND,
    LABEL,
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
    book: dict[int, int] = {}
    demands: list[Demand] = []
    pairs = zip(
        atoms.owner.tolist(),
        atoms.rows[:, BUNDLE].tolist(),
        atoms.rows[:, LABEL].tolist(),
        strict=True,
    )
    # Demands first: they may add rows to the view.
    number = np.array([_number(requests[o], b, n, view, book, demands) for o, b, n in pairs])
    work = (atoms.rows[:, WORK] * atoms.rows[:, SHIFT_COUNT]).astype(np.float64)
    use = np.zeros((len(requests), len(view.row_names)))
    for index, demand in enumerate(demands):
        own = number == index
        taken = np.bincount(atoms.owner[own], work[own], len(requests))
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            use[:, row] += amount * taken
    kinds = np.concatenate([one.graph.vertices[:, KIND] for one in requests]) == ANY
    lengths = np.cumsum([0, *(len(one.graph.vertices) for one in requests)])
    for place in np.unique(np.searchsorted(lengths, np.flatnonzero(kinds), side="right") - 1):
        request = requests[place]
        use[place] = _least_of_options(request.graph, _demands(request, view), use.shape[1])
    return use


def _number(
    request: Request,
    bundle: int,
    label: int,
    view: PlanView,
    book: dict[int, int],
    demands: list[Demand],
) -> int:
    """Return the number of an atom's demand, a new one for a demand not met before."""
    graph = request.graph
    name = graph.labels[label] if label >= 0 else None
    demand = view.demand(graph.bundles[bundle], name, request.tenant, request.queue)
    found = book.get(id(demand))
    if found is None:
        found = book[id(demand)] = len(demands)
        demands.append(demand)
    return found


def _demands(request: Request, view: PlanView) -> dict[tuple[int, int], Demand]:
    """Return the demand of each (bundle, label) of a request."""
    graph = request.graph
    pairs = {(int(a[BUNDLE]), int(a[LABEL])) for a in graph.vertices[graph.atoms]}
    labels: dict[int, str | None] = {-1: None, **dict(enumerate(graph.labels))}
    return {
        (bundle, label): view.demand(
            graph.bundles[bundle], labels[label], request.tenant, request.queue
        )
        for bundle, label in pairs
    }


def _least_of_options(graph: WorkGraph, of_atom: dict[tuple[int, int], Demand], rows: int) -> F64:
    """Return float64[row]: groups take the sum of their children, an `any` the least."""
    use = np.zeros((len(graph.vertices), rows))
    for vertex, row in enumerate(graph.vertices):
        if row[KIND] == ATOM:
            demand = of_atom[int(row[BUNDLE]), int(row[LABEL])]
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
        # The first that does not fit whole: a part of it does, by as much as room is left.
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
