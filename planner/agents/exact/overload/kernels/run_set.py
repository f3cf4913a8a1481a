"""What a plan holds, as runs of single bundles: the arrays that compiled loops move."""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.agents.exact.kernels.arrays import F64, I64, U64

# Columns of `RunSet.atom`.
A_VERTEX: Final = 0
A_BEGIN: Final = 1  # the window of its own, [A_BEGIN, A_END), inside which its runs move
A_END: Final = 2
A_FIRST: Final = 3  # column before which it must have begun, for a largest gap; or -1
A_LAST: Final = 4  # column that it must reach, for a largest gap; or -1
A_UNIT: Final = 5  # multiples of one run: all of them where the height is fixed
A_LEASE: Final = 6  # columns that a run is long at least; all of them where it may not bend
A_COLUMNS: Final = 7

# Columns of `RunSet.run`.
R_ATOM: Final = 0
R_BEGIN: Final = 1
R_END: Final = 2
R_COLUMNS: Final = 3


class RunSet(NamedTuple):
    """Runs of the bundles of a plan.

    Attributes
    ----------
    atom
        int64[atom, A_COLUMNS]: the active atoms of accepted requests.
    run
        int64[run, R_COLUMNS]: those of one atom stand together. Each is at least a lease long,
        and together they do the atom's work.
    first
        int64[atom + 1]: where an atom's runs stand.
    cell
        int64[atom + 1]: where the columns of an atom's whole window stand in `held` and `most`.
    held, most
        int64[cell]: runs of the atom in a column, and how many there may be.
    free
        int64[row, column]: what the runs leave; below 0 is overload.
    scale
        float64[row]: 1 / the mean amount of a demand.
    over
        int64[1]: cells of `free` below 0.
    random
        uint64[1].
    """

    atom: I64
    run: I64
    first: I64
    cell: I64
    held: I64
    most: I64
    free: I64
    scale: F64
    over: I64
    random: U64
