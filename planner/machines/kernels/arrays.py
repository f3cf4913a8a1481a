"""Tuples of arrays passed to the kernels of the machine room."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

# Compiled code has one integer type, int64; in Python it is an int or a NumPy scalar.
Int: TypeAlias = Any
Float: TypeAlias = Any

LANES: Final = 64  # machines of a stripe

# Cells of a ring.
SIZE: Final = 0  # columns of the ring, which are steps
FIRST: Final = 1  # first column
END: Final = 2  # end of the columns

# Columns of a slot.
START: Final = 0
STOP: Final = 1
BUNDLES: Final = 2
MACHINE: Final = 3


class MachineTable(NamedTuple):
    """Free capacity of every machine: in trees, or in breaks if trees would need too much memory.

    A place is 64 x stripe + lane.

    Attributes
    ----------
    tree
        int32[stripe, 2 * size, resource, lane]: a tree of minima over the columns of the ring;
        column c is row ``size + c % size``.
    breaks
        int32[place, most]: steps at which a machine's free capacity changes, ascending; the first
        is not after the ring's first step. Empty if there are trees.
    left
        int32[place, most, resource]: free capacity from each break on.
    counts
        int64[place]: number of breaks of each machine.
    ring
        int64[3]: `SIZE`, `FIRST`, `END`.
    first_machine
        int64[stripe]: number of the machine in lane 0.
    lane_of
        int64[machine]: its place.
    """

    tree: I32
    breaks: I32
    left: I32
    counts: I64
    ring: I64
    first_machine: I64
    lane_of: I64


class BundleKind(NamedTuple):
    """Bundles of one kind, and the machines allowed for them.

    Attributes
    ----------
    amounts
        int64[k, 2]: (resource, amount) of a bundle.
    weights
        float64[k]: 1 / the largest machine's capacity of the resource.
    order
        int64[q]: stripes, best first.
    domains
        int64[stripe]: number of its domain value, or -1 if machines count individually.
    spread
        Maximum concurrent bundles of the atom on a machine or in a domain; 0 means no limit.
    """

    amounts: I64
    weights: F64
    order: I64
    domains: I64
    spread: Int


class SearchTask(NamedTuple):
    """The atom to search for; see `planner.machines.slot_atom`. `early` is 0 or 1."""

    lo: Int
    hi: Int
    least: Int
    most: Int
    multiple: Int
    lease: Int
    work: Int
    early: Int
    tries: Int
    best_of: Int
