"""A set of requests as the flat arrays that the exact planner's compiled loops read.

Requests become one forest of vertices, numbered through all of them, with columns (steps from the
first one that anybody may use) instead of steps and multiples instead of bundles. Amounts are
kept twice: as whole numbers for plans, and as shares of a row's greatest capacity for prices, so
that prices of cores and of bytes are of one size. `planner.agents.exact.build.build_problem` makes
one.
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
V_SHIFT = 11  # first entry in `shifts`, and how many
V_SHIFTS = 12
V_CHILD = 13
V_CHILDREN = 14
V_LAST = 15  # EVERY: from the child's end to the end of its last occurrence
V_SOUND = 16  # 0 if no plan can satisfy it
V_PRED = 17  # first edge into it, and how many
V_PREDS = 18
V_SUCCS = 19  # edges out of it
V_INFLOW = 20  # nearest vertex from itself up that has edges into it, or -1
V_REQUEST = 21
V_BLOCKED = 22  # first entry of its own caps in `caps`, or -1 if its maximum always fits
V_RUN = 23  # length of the one block that it must be, or 0 if it may split or bend
V_SUCC = 24  # first entry in `succs`
V_COLUMNS = 25


class Forest(NamedTuple):
    """Requests as arrays; see the module.

    Attributes
    ----------
    vertices
        int64[vertex, V_COLUMNS], requests one after the other, each in post-order.
    first
        int64[request + 1].
    children, shifts
        Vertices below a group; offsets of occurrences.
    preds
        int64[edge, 4]: vertex before, least gap, largest gap (-1 = none), vertex after.
    program
        Vertices in an order in which all that precedes a vertex, and its children, stand before
        it; `first` cuts it too.
    caps
        Most multiples that fit on the idle profile at each column of an atom's window.
    inflow, flow
        float64[vertex]: its part of what flows into `V_INFLOW`; what each of its successors gets.
    worth
        float64[vertex]: most that the preferences below it can be worth.
    loss
        float64[vertex]: share of the worth that taking it as an option loses.
    value
        float64[request]: worth at preferences of 1.
    succs
        int64[edge]: rows of `preds` by the vertex before.
    keep
        float64[request]: above 0 if a request may not be lost, and what it counts for apart from
        its value in the search for plans and in the master programme (all that everything is
        worth, so that no plan without it looks better); 0 if it may be refused.
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
    """What is free, and what demands take from it.

    Attributes
    ----------
    free
        int64[row, column], never below 0.
    demand_first, demand_rows, demand_amounts
        As in the greedy planner's profile.
    fit
        int64[demand, column]: most bundles the machines hold.
    scale
        float64[row]: greatest capacity of the row.
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
    """Requests and capacity, and how to get back to them.

    Attributes
    ----------
    requests
        In the order of the forest; those that hold nothing (void) are left out.
    base
        Step of column 0.
    rows
        Which rows of the view those of the capacity are: no other one can bind.

    Notes
    -----
    Requests that may not be lost (`forest.keep` above 0) are a constraint: the bound counts their
    worth less their cost even where that is below 0, every plan that is offered holds them.
    """

    requests: tuple[Request, ...]
    forest: Forest
    room: FreeRoom
    base: int
    rows: tuple[int, ...] = ()

    @property
    def total(self) -> float:
        """Most that all requests together can be worth."""
        roots = self.forest.first[1:] - 1
        return float((self.forest.value * self.forest.worth[roots]).sum())


def fitting_starts(forest: Forest, row: I64) -> NDArray[np.bool_]:
    """Return at which starts of its window an atom that is one block fits the idle profile.

    Parameters
    ----------
    row
        Its row of `forest.vertices`, `V_RUN` above 0.
    """
    width, length = int(row[V_END] - row[V_START]), int(row[V_RUN])
    if row[V_BLOCKED] < 0:
        return np.ones(max(0, width - length + 1), dtype=np.bool_)
    caps = forest.caps[row[V_BLOCKED] : row[V_BLOCKED] + width]
    bad = np.concatenate([[0], np.cumsum(caps < row[V_MOST])])
    return np.asarray(bad[length:] == bad[: width - length + 1])
