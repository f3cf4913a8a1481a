"""Tuples of arrays passed to kernels, and the parameters for placing one atom."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.kernels.compiled import kernel

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

# Compiled code has one integer type, int64; in Python it is an int or a NumPy scalar.
Int: TypeAlias = Any
Ints: TypeAlias = Any


class Profile(NamedTuple):
    """Free capacity and the demands of atoms.

    Attributes
    ----------
    free
        int64[row, span[0] + column].
    span
        int64[2]: position of column 0 in `free`, and the number of columns.
    segments
        int64[s + 1]: columns at which the set of machines changes, covering all columns.
    demand_first, demand_rows, demand_amounts
        Demand i takes `demand_amounts[j]` per bundle from row `demand_rows[j]` for j in
        `demand_first[i] : demand_first[i + 1]`.
    fit
        int64[demand, segment]: maximum number of bundles that fit on the machines.
    low
        int64[row, block]: minimum of each block of `free`, or no blocks
        (`planner.capacity.block_index`).
    """

    free: I64
    span: I64
    segments: I64
    demand_first: I64
    demand_rows: I64
    demand_amounts: I64
    fit: I64
    low: I64


class Averages(NamedTuple):
    """Remaining budgets of window averages, and the amounts of demands (greedy.md section 4).

    Attributes
    ----------
    windows
        int64[row]: window lengths in steps.
    slack
        int64[row, offset + column]: remaining amount of the window that starts at a column.
    first, rows, amounts
        Demand i counts `amounts[j]` per bundle-step against row `rows[j]` for j in `first[i] :
        first[i + 1]`.
    offset
        int64[2]: position of column 0 in `slack`, and the number of columns of the profile.
    low
        int64[row, block]: as in `Profile`, of `slack`.
    """

    windows: I64
    slack: I64
    first: I64
    rows: I64
    amounts: I64
    offset: I64
    low: I64


class Tables(NamedTuple):
    """Concatenated work graphs; request i has the slices `first[i] : first[i + 1]` of each.

    Attributes
    ----------
    vertices, children, edges, shifts, effort
        As in `WorkGraph`; their indices are local to the request. Requests of one vertex have no
        children, edges or efforts.
    vertex_first, child_first, edge_first, shift_first, effort_first
        int64[n + 1].
    demand_of, demand_first, labels
        Demand of bundle b with label i (-1 = none) of request r is
        `demand_of[demand_first[r] + b * (labels[r] + 1) + i + 1]`.
    """

    vertices: I64
    children: I64
    edges: I64
    shifts: I64
    effort: F64
    vertex_first: I64
    child_first: I64
    edge_first: I64
    shift_first: I64
    effort_first: I64
    demand_of: I64
    demand_first: I64
    labels: I64


class GraphSlices(NamedTuple):
    """One request's slices of `Tables`."""

    vertices: I64
    children: I64
    edges: I64
    shifts: I64
    effort: F64
    demand_of: I64
    labels: int


class Traversal(NamedTuple):
    """Traversal of a request: step of column 0, number of columns, whether mirrored, strategy."""

    base: int
    columns: int
    early: int
    strategy: int


class PlaceOrder(NamedTuple):
    """Requests to place, their order and strategies.

    Attributes
    ----------
    order
        int64[n]: requests, placed in this order.
    passes
        int64[k]: strategies tried on each request.
    base
        Step of column 0.
    early
        Whether time is mirrored, 0 or 1.
    """

    order: I64
    passes: I64
    base: int
    early: int


class Scratch(NamedTuple):
    """Scratch arrays owned and reused by the caller, so that no call allocates."""

    steps: I64
    vertex: I64
    edge: I64
    effort: F64
    rows: I64
    state: I64


class Output(NamedTuple):
    """Output arrays; the caller grows them when they are full."""

    vertices: I64
    first: I64
    rows: I64
    choices: I64
    extents: I64
    status: I64
    used: I64


class AtomToPlace(NamedTuple):
    """Parameters for placing one atom; heights and work in multiples, times in columns."""

    least: int
    most: int
    lease: int
    work: int
    multiple: int
    demand: int
    shift_first: int
    shift_end: int
    early: int
    lo: int
    hi: int


@kernel
def within(atom: AtomToPlace, lo: int, hi: int) -> AtomToPlace:
    """Return the atom with another window."""
    return AtomToPlace(
        atom.least,
        atom.most,
        atom.lease,
        atom.work,
        atom.multiple,
        atom.demand,
        atom.shift_first,
        atom.shift_end,
        atom.early,
        lo,
        hi,
    )


@kernel
def no_taller(atom: AtomToPlace, most: int) -> AtomToPlace:
    """Return the atom with another maximum height."""
    return AtomToPlace(
        atom.least,
        most,
        atom.lease,
        atom.work,
        atom.multiple,
        atom.demand,
        atom.shift_first,
        atom.shift_end,
        atom.early,
        atom.lo,
        atom.hi,
    )


@kernel
def as_block(atom: AtomToPlace, work: int) -> AtomToPlace:
    """Return the atom with other work, its maximum height limited to a block of one lease."""
    return AtomToPlace(
        atom.least,
        min(atom.most, work // atom.lease),
        atom.lease,
        work,
        atom.multiple,
        atom.demand,
        atom.shift_first,
        atom.shift_end,
        atom.early,
        atom.lo,
        atom.hi,
    )
