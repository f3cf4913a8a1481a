"""Arrays that kernels are handed, as tuples, and one atom as its placement sees it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.kernels.compiled import kernel

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

# Compiled code has one integer, int64; in Python it is now an int, now a NumPy scalar.
Int: TypeAlias = Any
Ints: TypeAlias = Any


class Profile(NamedTuple):
    """Free capacity and what atoms take from it.

    Attributes
    ----------
    free
        int64[row, span[0] + column].
    span
        int64[2]: place of column 0 in `free`, and the number of columns.
    segments
        int64[s + 1]: columns at which machines come or go, covering all columns.
    demand_first, demand_rows, demand_amounts
        Demand i takes `demand_amounts[j]` a bundle from row `demand_rows[j]` for j in
        `demand_first[i] : demand_first[i + 1]`.
    fit
        int64[demand, segment]: most bundles the machines hold.
    low
        int64[row, block]: least of each block of `free`, or no blocks
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
    """What window averages leave, and what atoms count against them (greedy.md section 4).

    Attributes
    ----------
    windows
        int64[row]: window lengths in steps.
    slack
        int64[row, offset + column]: what may still be used in the window that starts at a column.
    first, rows, amounts
        Demand i counts `amounts[j]` a bundle-step against row `rows[j]` for j in
        `first[i] : first[i + 1]`.
    offset
        int64[2]: place of column 0 in `slack`, and the number of columns of the profile.
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
        As in `WorkGraph`; indices inside are local to the request. Requests of one vertex carry
        no children, edges or efforts.
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
    """How a request is traversed: step of column 0, number of columns, mirrored, strategy."""

    base: int
    columns: int
    early: int
    strategy: int


class PlaceOrder(NamedTuple):
    """Requests to be placed, and how.

    Attributes
    ----------
    order
        int64[n]: requests, placed one after the other.
    passes
        int64[k]: strategies tried on each.
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
    """Arrays the caller owns and hands in again, so that no call allocates."""

    steps: I64
    vertex: I64
    edge: I64
    effort: F64
    rows: I64
    state: I64


class Output(NamedTuple):
    """Where answers are written; grown by the caller when full."""

    vertices: I64
    first: I64
    rows: I64
    choices: I64
    extents: I64
    status: I64
    used: I64


class AtomToPlace(NamedTuple):
    """One atom as its placement sees it; heights and work in multiples, times in columns."""

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
    """Return the atom with another greatest height."""
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
    """Return the atom with other work, no taller than one lease of a block of it may be."""
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
