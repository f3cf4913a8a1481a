"""One search for plans: its arrays, their rows, and its random numbers."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np

from planner.agents.exact.kernels import F64, I64, U64, Int, inlined

# Rows of `SearchState.vertex`.
ACTIVE: Final = 0  # in the options taken
FROM: Final = 1  # first column held below it
TO: Final = 2  # first column past the last
BOUND: Final = 3  # bound of its start (or end) raised by a largest gap
VERTEX_ROWS: Final = 4

# Rows of `SearchState.line`: what an atom may hold, and what it holds, counted from the near end.
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
    """How large moves are, and how often each kind is made.

    Attributes
    ----------
    most
        Requests taken out at most.
    tries
        Rejected requests tried at most.
    wanted
        Share of moves that begin with a rejected request.
    width
        Part of the horizon that the widest interval is long.
    moment
        Share of moves that take out what holds one column, instead of an interval.
    pushed
        Share of moves that push what was taken out to one side, in its order.
    stay
        Share of what is put back whose atoms keep their places where those are still free.
    filled
        Share of insertions whose malleable atoms fill all that is free from the near end on,
        instead of whole leases.
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
        int64[row, column]: what the present plan leaves.
    first
        int64[vertex + 1]: where an atom's rows may stand in `rows`.
    rows
        int64[PLANS, slot, 3]: first column, column past the last, bundles.
    pieces, option
        int64[PLANS, vertex]: rows held; option taken of an `any`.
    worth
        float64[PLANS, request]: value earned, 0 when refused (then nothing is held).
    held
        int64[PLANS, request]: whether it is accepted (something may be worth nothing).
    span
        int64[request, 2]: columns that the present plan holds for it.
    stale
        int64[request]: changed since the best plan was kept.
    density
        float64[request]: value over the least work that it asks, as shares.
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
    """Return a state of random numbers."""
    return np.array([((seed + 1) * 0x9E3779B97F4A7C15) % 2**64 | 1], dtype=np.uint64)


class RandomSource(Protocol):
    """A state of random numbers: uint64[1], not 0."""

    @property
    def random(self) -> U64:
        """The state."""


@inlined
def draw(s: RandomSource) -> float:
    """Return a number in [0, 1): xorshift64*, a state of its own for each search."""
    x = s.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s.random[0] = x
    return float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def draw_below(s: RandomSource, n: int) -> Int:
    """Return a whole number in [0, n)."""
    return min(n - 1, np.int64(draw(s) * n))
