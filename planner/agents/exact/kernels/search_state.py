"""The state of one search for plans: its arrays, their rows, and its random numbers."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np

from planner.agents.exact.kernels import F64, I64, U64, Int, inlined

# Rows of `SearchState.vertex`.
ACTIVE: Final = 0  # in the chosen options
FROM: Final = 1  # first column in use below it
TO: Final = 2  # column after the last one in use
BOUND: Final = 3  # bound of its start (or end), tightened by a maximum gap
VERTEX_ROWS: Final = 4

# Rows of `SearchState.line`: the caps of an atom, and its heights, counted from the near end.
CAP: Final = 0
X: Final = 1
LINES: Final = 2

# Rows of `SearchState.list`.
TOUCHED: Final = 0
TRIED: Final = 1
NEAR: Final = 2
LISTS: Final = 3

# Cells of `SearchState.total`.
NOW: Final = 0
BEST: Final = 1
TOTALS: Final = 2

# Copies of a plan: the first index of `rows`, `pieces`, `option` and `worth`.
PLAN: Final = 0
BEFORE: Final = 1
KEPT: Final = 2  # the best plan
PLANS: Final = 3

FAR: Final = 1 << 40


class ColumnSpan(NamedTuple):
    """Columns [begin, end)."""

    begin: int
    end: int


class MoveMix(NamedTuple):
    """Sizes of moves and the frequency of each kind.

    Attributes
    ----------
    most
        Maximum number of removed requests.
    tries
        Maximum number of rejected requests tried.
    wanted
        Share of moves that start with a rejected request.
    width
        Length of the widest interval as a fraction of the horizon.
    moment
        Share of moves that remove the requests at one column, instead of in an interval.
    pushed
        Share of moves that push the removed requests to one side, in their order.
    stay
        Share of insertions whose atoms keep their placements if those are still free.
    filled
        Share of insertions whose malleable atoms fill all free capacity from the near end on,
        instead of using whole leases.
    """

    most: int
    tries: int
    wanted: float
    width: float
    moment: float
    pushed: float
    stay: float = 0.0
    filled: float = 0.0


class SearchState(NamedTuple):
    """One search: three plans (`PLAN`, `BEFORE`, `KEPT`) and scratch.

    Attributes
    ----------
    free
        int64[row, column]: free capacity in the current plan.
    first
        int64[vertex + 1]: first slot of each atom in `rows`.
    rows
        int64[PLANS, slot, 3]: first column, end column, bundles.
    pieces, option
        int64[PLANS, vertex]: number of rows in use; chosen option of an `any`.
    worth
        float64[PLANS, request]: value earned, 0 if refused (then nothing is placed).
    held
        int64[PLANS, request]: whether it is accepted (its value may be 0).
    span
        int64[request, 2]: columns that it spans in the current plan.
    stale
        int64[request]: whether it changed since the best plan was stored.
    density
        float64[request]: value divided by its minimum work, in shares of rows.
    vertex, line, list, key, random, total
        Scratch, state of the random numbers, and the values of the plans.
    """

    free: I64
    first: I64
    rows: I64
    pieces: I64
    option: I64
    worth: F64
    held: I64
    span: I64
    stale: I64
    density: F64
    vertex: I64
    line: I64
    list: I64
    key: F64
    random: U64
    total: F64


def random_state(seed: int) -> U64:
    """Return the initial state of a random number generator."""
    return np.array([((seed + 1) * 0x9E3779B97F4A7C15) % 2**64 | 1], dtype=np.uint64)


class RandomSource(Protocol):
    """An object with a random number state: uint64[1], not 0."""

    @property
    def random(self) -> U64:
        """The state."""


@inlined
def draw(s: RandomSource) -> float:
    """Return a random number in [0, 1): xorshift64*, with a separate state for each search."""
    x = s.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s.random[0] = x
    return float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def draw_below(s: RandomSource, n: int) -> Int:
    """Return a random integer in [0, n)."""
    return min(n - 1, np.int64(draw(s) * n))
