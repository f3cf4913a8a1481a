"""A set of requests as flat arrays for the exact planner's compiled loops.

Requests become one forest of vertices with consecutive numbers, with columns (steps counted from
the first one that any request may use) instead of steps and multiples instead of bundles. Amounts
are stored twice: as integers for plans, and as shares of a row's maximum capacity for prices, so
that prices of cores and of bytes have the same magnitude.
`planner.agents.exact.build.build_problem` builds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.request import Request

I64: TypeAlias = NDArray[np.int64]
F64: TypeAlias = NDArray[np.float64]

# Columns of `Forest.vertices`.
V_KIND = 0
V_PARENT = 1
V_START = 2  # first column of the window
V_END = 3
V_SHORTEST = 4
V_LEAST = 5  # g, h, w in multiples
V_MOST = 6
V_MULTIPLE = 7
V_LEASE = 8
V_WORK = 9
V_DEMAND = 10
V_SHIFT = 11  # first entry in `shifts`, and their number
V_SHIFTS = 12
V_CHILD = 13
V_CHILDREN = 14
V_LAST = 15  # EVERY: from the child's end to the end of its last occurrence
V_SOUND = 16  # 0 if no plan can satisfy it
V_PRED = 17  # first edge into it, and their number
V_PREDS = 18
V_SUCCS = 19  # number of edges out of it
V_INFLOW = 20  # nearest vertex, itself or an ancestor, with edges into it, or -1
V_REQUEST = 21
V_BLOCKED = 22  # first entry of its own caps in `caps`, or -1 if its maximum always fits
V_RUN = 23  # length of the block if the atom must be one block, else 0
V_SUCC = 24  # first entry in `succs`
V_COLUMNS = 25


class Forest(NamedTuple):
    """Requests as arrays; see the module's docstring.

    Attributes
    ----------
    vertices
        int64[vertex, V_COLUMNS], request by request, each in post-order.
    first
        int64[request + 1].
    children, shifts
        Children of groups; offsets of occurrences.
    preds
        int64[edge, 4]: predecessor, minimum gap, maximum gap (-1 = none), successor.
    program
        Vertices ordered so that the predecessors and children of a vertex precede it; `first`
        delimits requests here too.
    caps
        Maximum multiples that fit on the idle profile at each column of an atom's window.
    inflow, flow
        float64[vertex]: its share of the flow into `V_INFLOW`; the share that each successor gets.
    worth
        float64[vertex]: maximum worth of the preferences below it.
    loss
        float64[vertex]: fraction of the worth lost by choosing it as an option.
    value
        float64[request]: worth at preferences of 1.
    succs
        int64[edge]: rows of `preds`, grouped by predecessor.
    keep
        float64[request]: bonus for a required request in the search for plans and in the master
        program (the total value of all requests, so that no plan without it looks better); 0 if it
        may be refused.
    """

    vertices: I64
    first: I64
    children: I64
    shifts: I64
    preds: I64
    program: I64
    caps: I64
    inflow: F64
    flow: F64
    worth: F64
    loss: F64
    value: F64
    succs: I64
    keep: F64


class FreeRoom(NamedTuple):
    """Free capacity and demands.

    Attributes
    ----------
    free
        int64[row, column], never below 0.
    demand_first, demand_rows, demand_amounts
        As in the greedy planner's profile.
    fit
        int64[demand, column]: maximum number of bundles that fit on the machines.
    scale
        float64[row]: maximum capacity of the row.
    capacity, shares
        `free` and `demand_amounts` as shares of it.
    """

    free: I64
    demand_first: I64
    demand_rows: I64
    demand_amounts: I64
    fit: I64
    scale: F64
    capacity: F64
    shares: F64


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """Requests and capacity, with the mapping back to requests and view.

    Attributes
    ----------
    requests
        In the order of the forest, without void requests.
    base
        Step of column 0.
    rows
        Rows of the view that the rows of `room` represent; no other row can bind.

    Notes
    -----
    Required requests (`forest.keep` above 0) are a constraint: the bound counts their worth minus
    their cost even if negative, and every plan that is offered places them.
    """

    requests: tuple[Request, ...]
    forest: Forest
    room: FreeRoom
    base: int
    rows: tuple[int, ...] = ()

    @property
    def total(self) -> float:
        """Maximum total worth of all requests."""
        roots = self.forest.first[1:] - 1
        return float((self.forest.value * self.forest.worth[roots]).sum())


def fitting_starts(forest: Forest, row: I64) -> NDArray[np.bool_]:
    """Return for each start in its window whether an atom of one block fits the idle profile.

    Parameters
    ----------
    row
        The atom's row of `forest.vertices`, `V_RUN` above 0.
    """
    width, length = int(row[V_END] - row[V_START]), int(row[V_RUN])
    if row[V_BLOCKED] < 0:
        return np.ones(max(0, width - length + 1), dtype=np.bool_)
    caps = forest.caps[row[V_BLOCKED] : row[V_BLOCKED] + width]
    bad = np.concatenate([[0], np.cumsum(caps < row[V_MOST])])
    return np.asarray(bad[length:] == bad[: width - length + 1])
