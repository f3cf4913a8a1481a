"""Compiled loops of the greedy agents and of commits; greedy.md sections 1-3 are the rules.

Everything here works on columns: column 0 is the first step of the profile handed in. Agents that
place late use column u for step u; agents that place early see time mirrored, so that one set of
rules serves both. Bundles are counted in multiples of the atom's `multiple`.

All compiled loops stand in this one file, because numba's cache does not notice a change in a
function that was imported from another file.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numba.extending import intrinsic
from numpy.typing import NDArray

from planner.block_index import BLOCK
from rdl.work_graph import (
    ANY,
    ATOM,
    BUNDLE,
    CHILD_COUNT,
    CHILD_FIRST,
    END,
    EVERY,
    KIND,
    LABEL,
    LAST_SHIFT,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    PARENT,
    SATISFIABLE,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    WORK,
)

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

# Compiled code has one integer, int64; in Python it is now an int, now a NumPy scalar.
Int: TypeAlias = Any
Ints: TypeAlias = Any

OPTIONS: Final[dict[str, Any]] = {"cache": True, "nogil": True, "error_model": "numpy"}

# Functions with one caller, or so small that passing their arrays costs more than they do.
INLINE: Final[dict[str, Any]] = {**OPTIONS, "inline": "always"}

# How an atom is placed; a request is tried with one after the other.
PAPER: Final = 0  # whole leases only, as printed in Rayon 4.2
BLOCKS: Final = 1  # GREE: whole leases first, then everything that makes it complete
COMPACT: Final = 2  # GREE: the shape that starts latest first
LOWEST: Final = 3  # GREE-L: the lowest free rectangle, then COMPACT
HEADROOM: Final = 4  # aligned: the rectangle that leaves most headroom, then COMPACT
HEADROOM_ONLY: Final = 5  # the same without a fall-back
LEVEL: Final = 6  # the highest level of headroom that still holds the work, then COMPACT
GAPS: Final = 7  # COMPACT, for requests with largest gaps only

# Why an atom found no place: the `KIND` column of a status row.
NO_ROOM: Final = 1
NO_FIT: Final = 2
NO_WINDOW: Final = 3
NO_GAP: Final = 4
NO_AVERAGE: Final = 5
NO_LEASE: Final = 6  # room for the least height never lasts a lease
NO_AREA: Final = 7  # all the room there is holds less than the work
NO_SHAPE: Final = 8  # it would hold the work, but no leases that make it up were found

# Columns of a status row, one a request.
OUTCOME: Final = 0  # PLACED, REFUSED or PENDING
AT_VERTEX: Final = 1
WHY: Final = 2
AT_COLUMN: Final = 3  # -1 where no step is to blame
AT_ROW: Final = 4  # row of `free` (or of the averages), -1 where none is short
NEEDED: Final = 5
FREE: Final = 6
STRATEGY: Final = 7  # the one that placed the request
STATUS_COLUMNS: Final = 8

PENDING: Final = 0
PLACED: Final = 1
REFUSED: Final = 2

# What the re-check finds wrong with an atom: the `WHY` column of a verdict.
BAD_ROWS: Final = 11  # not sorted, merged, inside the window, or of a height out of bounds
BAD_WORK: Final = 12
BAD_LEASE: Final = 13

# Columns of an extent row: where a request's answer stands in the output arrays.
VERTEX_FIRST: Final = 0
VERTEX_COUNT: Final = 1
FIRST_FIRST: Final = 2
ROW_FIRST: Final = 3
ROW_COUNT: Final = 4
CHOICE_FIRST: Final = 5
CHOICE_COUNT: Final = 6
EXTENT_COLUMNS: Final = 7

# Rows of the step scratch; each is as long as the profile, and one more.
_C = 0  # what the atom may hold at a column: 0 or min_height..max_height
_A = 1  # the same without the atom's own maximum
_X = 2  # what the atom holds
_Y = 3  # a second shape, or a copy of the first
_Z = 4  # a third
_K = 5  # height of the block that ends at a column
_QI = 6  # queue of sliding minima, or stack of rectangles: column
_QV = 7  # the same: value
_RUNS = 8  # first cells only: longest run with room for the least height, its first column, area
_NO_FROM, _NO_TO = 3, 4  # cells of `_RUNS`: heights [from, to) at which no block has corners
# A shape as runs, from the right: first columns, end columns and heights stand in these rows.
_RUN_FROM, _RUN_TO, _RUN_HEIGHT = _K, _Y, _Z
# Cells of a window: what is least free in each, and its first column; then runs of cells.
_CELL, _CELL_FROM = _Y, _Z
_OF_CELLS, _FIRST_CELL, _END_CELL = _C, _X, _K
STEP_ROWS: Final = 9

# Rows of the vertex scratch; each is as long as the largest request has vertices, and one more.
_LEFT = 0  # children not complete
_BLOCKED = 1  # successors not complete
_OPEN = 2
_FROM = 3  # first column held below this vertex
_TO = 4  # first column past the last one held
_CHOICE = 5  # least option to take
_TAKEN = 6  # option taken, -1 while undecided
_CAP = 7  # upper bound of the end, lowered by leapfrog
_DONE = 8  # atoms: placed
_RF = 9  # atoms: first row in the row scratch
_RC = 10  # atoms: number of rows
_SUCC = 11  # first entry in the list of edges by `before`
_PRED = 12  # first entry in the list of edges by `after`
_HEAP = 13
_KEY1 = 14
_KEY2 = 15
_STACK = 16  # atoms in the order placed
_BASE = 17  # GREE-L: first column that an atom shares with what must precede it
_LIST = 18  # work list
VERTEX_ROWS: Final = 19

# Cells of the request's state.
_ROWS = 0
_HEAPED = 1
_STACKED = 2
_FAILED = 3  # vertex that found no place
_KIND = 4
_LO = 5
_HI = 6
_LEAPS = 7
ROWS_FULL: Final = 8  # row scratch is too small
_FIRM = 9  # the failure does not depend on what this request placed before
_AVERAGE = 11  # average that stood in the way of the last atom, or -1
_TAU = 12  # and the start of its window
_PHASE = 10  # how other options of `any` are chosen: 1 follows failures, 2 counts combinations
NEEDS_OWN: Final = 13  # a shared profile was lent, and this request has to write
STATE_CELLS: Final = 14

_FAR: Final = 1 << 60
_CHUNK: Final = 64  # columns read ahead when scanning from the right
_RETRIES: Final = 64  # whole-request retries with other options of `any`
_CORNER_TRIES: Final = 8
_CELLS_FROM: Final = 4 * BLOCK  # columns from which a window is searched by cells
_OVERSHOOTS: Final = 8  # windows tried past the one where the union first holds the work


class Profile(NamedTuple):
    """Free capacity and what atoms take from it.

    Attributes
    ----------
    free
        int64[row, span[0] + column]. A profile that is lent is the Plan's own: never written.
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
        int64[row, block]: least of each block of `free`, or no blocks (`planner.block_index`).
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
    work
        int64[2, at least as many columns as `slack`, and one more]: scratch, the first row all
        zero.
    low
        int64[row, block]: as in `Profile`, of `slack`.
    """

    windows: I64
    slack: I64
    first: I64
    rows: I64
    amounts: I64
    offset: I64
    work: I64
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


class Graph(NamedTuple):
    """One request's slices of `Tables`."""

    vertices: I64
    children: I64
    edges: I64
    shifts: I64
    effort: F64
    demand_of: I64
    labels: int


class Run(NamedTuple):
    """How a request is traversed: step of column 0, number of columns, mirrored, strategy.

    `lent` tells that the profile is shared and must not be written.
    """

    base: int
    columns: int
    early: int
    strategy: int
    lent: int


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


class Atom(NamedTuple):
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


@njit(**OPTIONS)
def _within(atom: Atom, lo: int, hi: int) -> Atom:
    """Return the atom with another window."""
    return Atom(
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


@njit(**OPTIONS)
def _as_block(atom: Atom, work: int) -> Atom:
    """Return the atom with other work, no taller than one lease of a block of it may be."""
    return Atom(
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


def _without_owner(typing: Any, array: Any) -> Any:
    """Return the array without its owner, which the caller of the kernel keeps alive.

    Tuples of owned arrays cost an atomic count for each array at each inner call: about as much
    as placing a small atom.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, values[0])
        view.meminfo = view.meminfo.type(None)  # a null pointer
        view.parent = view.parent.type(None)
        return view._getvalue()  # noqa: SLF001

    return array(array), generate


_borrowed: Any = intrinsic(_without_owner)


# ---- what is free -------------------------------------------------------------------------------


@njit(**OPTIONS)
def _segment_of(segments: I64, t: int) -> Int:
    low, high = 0, segments.shape[0] - 2
    while low < high:
        middle = (low + high + 1) // 2
        if segments[middle] <= t:
            low = middle
        else:
            high = middle - 1
    return low


@njit(**OPTIONS)
def _machines(p: Profile, demand: int, out: I64, t0: int, t1: int, origin: int, sign: int) -> Int:
    """Lower `out` to what the machines hold in steps [t0, t1); return the most they hold."""
    most = np.int64(0)
    seg = _segment_of(p.segments, t0)
    t = t0
    while t < t1:
        stop = t1
        if seg + 2 < p.segments.shape[0]:
            stop = min(t1, p.segments[seg + 1])
        fit = p.fit[demand, seg]
        most = max(most, fit)
        part = (
            out[origin + t : origin + stop] if sign > 0 else out[origin - stop + 1 : origin - t + 1]
        )
        for i in range(part.shape[0]):
            part[i] = min(part[i], fit)
        t = stop
        seg += 1
    return most


@njit(**OPTIONS)
def _least_in(row: I64, t0: int, t1: int) -> Int:
    """Return the least value of `row[t0:t1]`, which is not empty."""
    part = row[t0:t1]  # counted from 0, a loop runs on whole vectors
    least = part[0]
    for i in range(part.shape[0]):
        least = min(least, part[i])
    return least


@njit(**OPTIONS)
def _least_of(row: I64, low: I64, t0: int, t1: int) -> Int:
    """Return the least value of `row[t0:t1]`, not empty, reading whole blocks where they stand."""
    first, last = (t0 + BLOCK - 1) // BLOCK, t1 // BLOCK
    if low.shape[0] == 0 or first >= last:
        return _least_in(row, t0, t1)
    least = _least_in(low, first, last)
    if t0 < first * BLOCK:
        least = min(least, _least_in(row, t0, first * BLOCK))
    if last * BLOCK < t1:
        least = min(least, _least_in(row, last * BLOCK, t1))
    return least


@njit(**OPTIONS)
def _index_again(row: I64, low: I64, t0: int, t1: int) -> None:
    """Note the least of every block that changes in `row[t0:t1]`, not empty, touched."""
    for block in range(t0 // BLOCK, (t1 + BLOCK - 1) // BLOCK):
        low[block] = _least_in(row, block * BLOCK, min((block + 1) * BLOCK, row.shape[0]))


@njit(**OPTIONS)
def _index_moved(row: I64, low: I64, t0: int, t1: int, amount: int) -> None:
    """Note that `amount` was added to every value of `row[t0:t1]`, not empty."""
    first, last = (t0 + BLOCK - 1) // BLOCK, t1 // BLOCK
    if first >= last:
        _index_again(row, low, t0, t1)
        return
    for block in range(first, last):
        low[block] += amount
    if t0 < first * BLOCK:
        _index_again(row, low, t0, first * BLOCK)
    if last * BLOCK < t1:
        _index_again(row, low, last * BLOCK, t1)


@njit(**INLINE)
def _least_free_of(p: Profile, row: int, t0: int, t1: int) -> Int:
    """Return the least that is free in columns [t0, t1), which are some."""
    free = p.free[row]
    if p.low.shape[1] == 0:
        least = _least_in(free, p.span[0] + t0, p.span[0] + t1)
    else:
        least = _least_of(free, p.low[row], p.span[0] + t0, p.span[0] + t1)
    return least


@njit(**INLINE)
def _subtract(p: Profile, demand: int, t0: int, t1: int, bundles: int) -> None:
    """Take bundles from columns [t0, t1) of every row that the demand takes from."""
    for d in range(p.demand_first[demand], p.demand_first[demand + 1]):
        amount = bundles * p.demand_amounts[d]
        row = p.free[p.demand_rows[d]]
        part = row[p.span[0] + t0 : p.span[0] + t1]
        for i in range(part.shape[0]):
            part[i] -= amount
        if p.low.shape[1] > 0 and t0 < t1:
            low = p.low[p.demand_rows[d]]
            _index_moved(row, low, p.span[0] + t0, p.span[0] + t1, -amount)


@njit(**OPTIONS)
def _lower(out: I64, free: I64, amount: int, t0: int, t1: int, origin: int, sign: int) -> None:
    """Lower `out` to how often `amount` fits into `free` in steps [t0, t1)."""
    # A product and a correction are exact below 2^50 and several times faster than a division;
    # without a branch, and counted from 0, the loops run on whole vectors.
    part = 1.0 / amount
    source, count = free[t0:t1], t1 - t0
    if sign > 0:
        target = out[origin + t0 : origin + t1]
        for i in range(count):
            value = max(np.int64(0), min(source[i], amount * target[i]))
            held = np.int64(value * part)
            held -= held * amount > value
            held += (held + 1) * amount <= value
            target[i] = held
        return
    target = out[origin - t1 + 1 : origin - t0 + 1]
    for i in range(count):
        j = count - 1 - i
        value = max(np.int64(0), min(source[i], amount * target[j]))
        held = np.int64(value * part)
        held -= held * amount > value
        held += (held + 1) * amount <= value
        target[j] = held


@njit(**OPTIONS)
def _fill(p: Profile, shifts: I64, atom: Atom, out: I64, a: int, b: int, cap: int) -> None:
    """Write into `out[a:b]` the multiples the atom may hold, 0 where its least does not fit.

    For an atom that recurs, the minimum over its occurrences (greedy.md 1.3).
    """
    columns = p.span[1]
    out[a:b] = cap
    for s in range(atom.shift_first, atom.shift_end):
        move = shifts[s]
        origin, sign, t0, t1 = -move, 1, a + move, b + move
        if atom.early:
            origin, sign = columns - 1 + move, -1
            t0, t1 = columns - b + move, columns - a + move
        for t in range(max(columns, t0), t1):  # an occurrence past the profile has no room
            out[origin + sign * t] = 0
        t1 = min(t1, columns)
        if t0 >= t1:
            continue
        top = min(cap, _machines(p, atom.demand, out, t0, t1, origin, sign))
        for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
            row, amount = p.demand_rows[d], p.demand_amounts[d]
            free, place = p.free[row], p.span[0]
            if p.low.shape[1] == 0:
                least = _least_in(free, t0 + place, t1 + place)
            else:
                least = _least_of(free, p.low[row], t0 + place, t1 + place)
            if least < amount * top:
                _lower(out, free, amount, t0 + place, t1 + place, origin - sign * place, sign)
    k, least, part = atom.multiple, atom.least, out[a:b]
    if k > 1:
        for i in range(part.shape[0]):
            part[i] = part[i] // k
    if least > 1:
        for i in range(part.shape[0]):
            part[i] = part[i] if part[i] >= least else 0


@njit(**OPTIONS)
def _holds(atom: Atom, buf: I64) -> bool:
    """Return False when no allocation below `_C` in the window can hold the work (sound bound).

    Notes in `_RUNS` what a refusal tells of: the longest run, and the area of all long enough.
    """
    c = buf[_C]
    longest, begin, area = 0, atom.lo, np.int64(0)
    run = np.int64(0)
    length = 0
    for u in range(atom.lo, atom.hi):
        if c[u] > 0:
            run += c[u]
            length += 1
        elif length > 0:
            if length > longest:
                longest, begin = length, u - length
            if length >= atom.lease:
                area += run
            run = np.int64(0)
            length = 0
    if length > longest:
        longest, begin = length, atom.hi - length
    if length >= atom.lease:
        area += run
    note = buf[_RUNS]
    note[0], note[1], note[2] = longest, begin, area
    return bool(area >= atom.work)


# ---- shapes of one atom -------------------------------------------------------------------------


@njit(**OPTIONS)
def _blocks(p: Profile, shifts: I64, atom: Atom, buf: I64, ready: int, work: int) -> Ints:
    """Stack whole leases from the right; return (work left, first column, end column).

    `ready` is the least column of row `_C` that is filled; columns to its left are read on
    demand, because most requests never touch most of their window. One pass: a queue of minima
    with one subtracted offset, since a block lowers every entry of the queue equally.
    """
    c, x, at = buf[_C], buf[_X], buf[_K]
    qi, qv = buf[_QI], buf[_QV]
    least, lease, lo, hi = atom.least, atom.lease, atom.lo, atom.hi
    left, offset, head, tail = work, np.int64(0), 0, 0
    limit, first, last = hi, hi, lo
    zeroed = max(lo, ready)
    at[zeroed : hi + 1] = 0
    i = hi - 1
    while i >= lo and left >= least * lease:
        if i < zeroed:
            zeroed = max(lo, zeroed - _CHUNK)
            at[zeroed : i + 1] = 0
            _fill(p, shifts, atom, c, zeroed, i + 1, atom.most * atom.multiple)
        value = c[i]
        if value == 0:  # no block covers this column
            head, tail, offset, limit = 0, 0, np.int64(0), i
            i -= 1
            continue
        while tail > head and qv[tail - 1] - offset >= value:
            tail -= 1
        qv[tail] = value + offset
        qi[tail] = i
        tail += 1
        end = i + lease
        if end <= limit:
            if qi[head] >= end:
                head += 1
            free = qv[head] - offset
            if free >= least:
                height = min(free, left // lease)
                if height >= least:
                    at[end] = height
                    offset += height
                    left -= height * lease
                    first = i
                    last = max(last, end)
        i -= 1
    height = np.int64(0)
    for u in range(last - 1, first - 1, -1):
        height += at[u + 1]
        if u + 1 + lease <= last:
            height -= at[u + 1 + lease]
        x[u] = height
    if first >= last:
        first, last = hi, hi
    return left, first, last, zeroed


@njit(**OPTIONS)
def _lengthen(atom: Atom, buf: I64, left: int, first: int, last: int) -> Ints:
    """Raise `_X` to its neighbours until no work is left; entries only move earlier, exits later.

    Row `_C` must be filled over the whole window. Returns (work left, first, end).
    """
    c, x = buf[_C], buf[_X]
    least = atom.least
    for u in range(first + 1, atom.hi):
        if u >= last:
            x[u] = 0
        if left == 0:
            break
        add = min(min(c[u], x[u - 1]) - x[u], left)
        if add > 0 and (x[u] > 0 or add >= least):
            x[u] += add
            left -= add
            last = max(last, u + 1)
        if u >= last and x[u] == 0:
            break
    for u in range(last - 2, atom.lo - 1, -1):
        if left == 0:
            break
        if u < first:
            x[u] = 0
        add = min(min(c[u], x[u + 1]) - x[u], left)
        if add > 0 and (x[u] > 0 or add >= least):
            x[u] += add
            left -= add
            first = min(first, u)
        if u < first:
            break
    return left, first, last


@njit(**OPTIONS)
def _corners(atom: Atom, work: int, height: int) -> Ints:
    """Return (length, cut left, cut right) of `work` as one block, or length 0 if there is none.

    The left corner is the late entry of the last leases, the right one the early exit of the
    first (greedy.md 1.1).
    """
    least, lease = atom.least, atom.lease
    length = (work + height - 1) // height
    if length < lease:
        return 0, 0, 0
    excess = height * length - work
    if excess == 0:
        return length, 0, 0
    upper = height - least
    if upper <= 0:
        return 0, 0, 0
    cut_left = min(excess, upper * (length - lease))
    cut_right = excess - cut_left
    lower = min(upper, least)
    if cut_right > lower * (length - lease):
        return 0, 0, 0
    columns = (cut_left + upper - 1) // upper + (cut_right + lower - 1) // lower
    if columns > length:
        return 0, 0, 0
    return length, cut_left, cut_right


@njit(**OPTIONS)
def _draw(atom: Atom, x: I64, work: int, height: int, end: int) -> Int:
    """Write the block of `height` that ends at `end` into `x`; return its first column."""
    length, cut_left, cut_right = _corners(atom, work, height)
    upper = height - atom.least
    lower = min(upper, atom.least)
    first = end - length
    for u in range(first, end):
        x[u] = height
    u = first
    while cut_left > 0:
        cut = min(cut_left, upper)
        x[u] -= cut
        cut_left -= cut
        u += 1
    u = end - 1
    while cut_right > 0:
        cut = min(cut_right, lower)
        x[u] -= cut
        cut_right -= cut
        u -= 1
    return int(first)


@njit(**OPTIONS)
def _low_height(atom: Atom, work: int, length: int, top: int, note: I64) -> Int:
    """Return the least height at which `work` is one block within `length`, or 0.

    `note` remembers heights that are none, so that a search looks at each of them once.
    """
    height = max(atom.least, (work + length - 1) // length)
    if note[_NO_FROM] <= height < note[_NO_TO]:
        height = note[_NO_TO]
    begin = height
    while height <= top:
        size, _a, _b = _corners(atom, work, height)
        if size > 0:
            break
        height += 1
    if height > begin:
        if note[_NO_TO] != begin:
            note[_NO_FROM] = begin
        note[_NO_TO] = height
    return height if height <= top else 0


@njit(**OPTIONS)
def _tall_height(atom: Atom, work: int, length: int, top: int) -> Int:
    """Return the greatest height at which `work` is one block within `length`, or 0."""
    height = top
    for _ in range(_CORNER_TRIES):
        if height < atom.least or height * length < work:
            return 0
        size, _a, _b = _corners(atom, work, height)
        if size > 0:
            return height
        height -= 1
    return 0


_LATEST = 0
_LOW = 1
_ROOMY = 2


@njit(**OPTIONS)
def _best_of(atom: Atom, free: int, length: int, end: int, aim: int, best: Ints, note: I64) -> Ints:
    """Return the better of `best` and the block that a maximal free rectangle holds at its end.

    A block is (height, end, score): its first column when the latest start is sought, else the
    headroom it leaves. Height 0 is none. The atom is as `_as_block` returns it.
    """
    height, until, score = best
    work, ceiling = atom.work, min(free, atom.most)
    if length < atom.lease or ceiling * length < work or ceiling < atom.least:
        return best
    if aim == _LATEST:
        m = _tall_height(atom, work, length, ceiling)
        if m == 0:
            return best
        begin = end - (work + m - 1) // m
        if begin > score or (begin == score and (end > until or (end == until and m <= height))):
            return m, np.int64(end), np.int64(begin)
        return best
    if aim == _LOW and height > 0 and height * length < work:
        return best
    if aim == _ROOMY and free - atom.least < score:
        return best
    m = _low_height(atom, work, length, ceiling, note)
    room = free - m
    if m == 0:
        return best
    if height > 0 and (m != height or room != score):
        if aim == _LOW:
            worse = m > height or (m == height and room < score)
        else:
            worse = room < score or (room == score and m > height)
        return best if worse else (m, np.int64(end), room)
    return (m, np.int64(end), room) if end >= until else best


@njit(**OPTIONS)
def _rectangle(atom: Atom, free: I64, buf: I64, lo: int, hi: int, work: int, aim: int) -> Ints:
    """Return (height, end) of the best block in [lo, hi) under `free`, height 0 if there is none.

    One pass with a stack over the maximal free rectangles: every feasible block lies in one of
    them (greedy.md 2.2). `aim`: latest start; lowest, then most headroom; most headroom, then
    lowest. Ties go to the later rectangle.
    """
    si, sv, note, sought = buf[_QI], buf[_QV], buf[_RUNS], _as_block(atom, work)
    note[_NO_FROM], note[_NO_TO] = 0, 0
    best = (np.int64(0), np.int64(0), np.int64(-1))
    top = 0
    u = lo
    while u <= hi:
        value = free[u] if u < hi else np.int64(0)
        start = u
        while top > 0 and sv[top - 1] > value:
            top -= 1
            start = si[top]
            if min(sv[top], sought.most) * (u - start) >= work:
                best = _best_of(sought, sv[top], u - start, u, aim, best, note)
        if value > 0 and (top == 0 or sv[top - 1] < value):
            si[top] = start
            sv[top] = value
            top += 1
        u += 1
        while u < hi and free[u] == value:
            u += 1
    return best[0], best[1]


@njit(**OPTIONS)
def _by_cells(p: Profile, shifts: I64, atom: Atom, lo: int, hi: int) -> bool:
    """Return whether every block in [lo, hi) covers a whole cell, and there are cells to skip."""
    if p.low.shape[1] == 0 or hi - lo < _CELLS_FROM:
        return False
    if atom.shift_end - atom.shift_first > 1 or shifts[atom.shift_first] != 0:
        return False
    most = max(1, min(atom.most, atom.work // atom.lease))
    return bool(max(atom.lease, (atom.work + most - 1) // most) > 2 * (BLOCK - 1))


@njit(**OPTIONS)
def _cells(p: Profile, atom: Atom, buf: I64, lo: int, hi: int) -> Int:
    """Cut [lo, hi) where blocks of the profile meet: write what is least free in each cell.

    Returns their number; the first columns are in row `_CELL_FROM`, the end after the last.
    """
    cell, begins = buf[_CELL], buf[_CELL_FROM]
    place, columns = p.span[0], p.span[1]
    a, b = (columns - hi, columns - lo) if atom.early else (lo, hi)
    a, b = a + place, b + place
    first, count = a // BLOCK, (b + BLOCK - 1) // BLOCK - a // BLOCK
    origin, sign = (count - 1 + first, -1) if atom.early else (-first, 1)
    for block in range(first, first + count):
        at = origin + sign * block
        cell[at] = _FAR
        if atom.early:
            begins[at] = columns + place - min(b, (block + 1) * BLOCK)
        else:
            begins[at] = max(a, block * BLOCK) - place
    begins[count] = hi
    for seg in range(_segment_of(p.segments, a - place), p.segments.shape[0] - 1):
        begin = max(a, p.segments[seg] + place)
        end = b if seg + 2 == p.segments.shape[0] else min(b, p.segments[seg + 1] + place)
        for block in range(begin // BLOCK, (end + BLOCK - 1) // BLOCK if begin < end else 0):
            at = origin + sign * block
            cell[at] = min(cell[at], p.fit[atom.demand, seg])
    for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
        row, amount = p.demand_rows[d], p.demand_amounts[d]
        whole, until = (a + BLOCK - 1) // BLOCK, b // BLOCK
        _lower(cell, p.low[row], amount, whole, until, origin, sign)
        if a < whole * BLOCK:
            at = origin + sign * first
            least = max(_least_in(p.free[row], a, min(b, whole * BLOCK)), np.int64(0))
            cell[at] = min(cell[at], least // amount)
        if until * BLOCK < b and until >= whole:
            at = origin + sign * until
            least = max(_least_in(p.free[row], until * BLOCK, b), np.int64(0))
            cell[at] = min(cell[at], least // amount)
    for at in range(count):
        held = cell[at] // atom.multiple if atom.multiple > 1 else cell[at]
        cell[at] = held if held >= atom.least else 0
    return count


@njit(**OPTIONS)
def _runs_of_cells(atom: Atom, buf: I64, count: int, aim: int) -> Ints:
    """List the maximal runs of cells; return how many, and the best block of whole cells.

    A run is kept with its least value in row `_OF_CELLS`. No block that is sought is worse than
    the one returned, because the rectangle around the run holds it too.
    """
    cell, begins, note = buf[_CELL], buf[_CELL_FROM], buf[_RUNS]
    si, sv = buf[_QI], buf[_QV]
    note[_NO_FROM], note[_NO_TO] = 0, 0
    best = (np.int64(0), np.int64(0), np.int64(-1))
    top, found = 0, 0
    for i in range(count + 1):
        value = cell[i] if i < count else np.int64(0)
        start = i
        while top > 0 and sv[top - 1] > value:
            top -= 1
            start = si[top]
            length = begins[i] - begins[start]
            best = _best_of(atom, sv[top], length, begins[i], aim, best, note)
            buf[_OF_CELLS, found] = sv[top]
            buf[_FIRST_CELL, found], buf[_END_CELL, found] = start, i
            found += 1
        if value > 0 and (top == 0 or sv[top - 1] < value):
            si[top] = start
            sv[top] = value
            top += 1
    return found, best


@njit(**OPTIONS)
def _worth_refining(atom: Atom, free: int, length: int, aim: int, best: Ints) -> bool:
    """Return whether a rectangle no higher than `free`, no longer than `length`, may be as good."""
    height, _end, room = best
    ceiling = min(free, atom.most)
    if length < atom.lease or ceiling * length < atom.work or ceiling < atom.least:
        return False
    if height == 0:
        return True
    least = max(atom.least, (atom.work + length - 1) // length)
    if aim == _LOW:
        return bool(least < height or (least == height and free - least >= room))
    return bool(free - least >= room)


@njit(**OPTIONS)
def _refined(
    p: Profile, shifts: I64, atom: Atom, buf: I64, run: int, count: int, aim: int, best: Ints
) -> Ints:
    """Return the better of `best` and the rectangles that cover just the cells of a run.

    The lower the rectangle, the further it reaches into the cells on both sides; where it covers
    one of them, it belongs to another run.
    """
    begins, a, note = buf[_CELL_FROM], buf[_A], buf[_RUNS]
    free, i, j = buf[_OF_CELLS, run], buf[_FIRST_CELL, run], buf[_END_CELL, run]
    left, right = begins[i], begins[j]
    low, high = begins[max(i - 1, 0)], begins[min(j + 1, count)]
    _fill(p, shifts, atom, a, low, left, _FAR)
    _fill(p, shifts, atom, a, right, high, _FAR)
    while free > 0:
        while left > low and a[left - 1] >= free:
            left -= 1
        while right < high and a[right] >= free:
            right += 1
        if (i > 0 and left == low) or (j < count and right == high):
            break
        best = _best_of(atom, free, right - left, right, aim, best, note)
        free = max(a[left - 1] if i > 0 else np.int64(0), a[right] if j < count else np.int64(0))
    return best


@njit(**OPTIONS)
def _rectangle_by_cells(
    p: Profile, shifts: I64, atom: Atom, buf: I64, lo: int, hi: int, aim: int
) -> Ints:
    """Return what `_rectangle` does of [lo, hi), reading columns only where it matters.

    Every rectangle that is long enough covers some cells wholly. Its height is at most what is
    least free in them, and it ends in the cells beside them: only the few runs of cells that may
    hold a block as good as the best found on whole cells are looked at column by column.
    """
    count = _cells(p, atom, buf, lo, hi)
    begins, sought = buf[_CELL_FROM], _as_block(atom, atom.work)
    found, bound = _runs_of_cells(sought, buf, count, aim)
    best = (np.int64(0), np.int64(0), np.int64(-1))
    for run in range(found):
        i, j = buf[_FIRST_CELL, run], buf[_END_CELL, run]
        longest = begins[min(j + 1, count)] - begins[max(i - 1, 0)]
        if _worth_refining(sought, buf[_OF_CELLS, run], longest, aim, bound):
            best = _refined(p, shifts, sought, buf, run, count, aim, best)
    return best[0], best[1]


# ---- shapes as runs -----------------------------------------------------------------------------


@njit(**OPTIONS)
def _add_run(buf: I64, runs: int, first: int, end: int, height: int) -> Int:
    """List a run to the left of those before, unless it is empty; return how many there are."""
    if first >= end:
        return runs
    if runs > 0 and buf[_RUN_FROM, runs - 1] == end and buf[_RUN_HEIGHT, runs - 1] == height:
        buf[_RUN_FROM, runs - 1] = first
        return runs
    buf[_RUN_FROM, runs], buf[_RUN_TO, runs], buf[_RUN_HEIGHT, runs] = first, end, height
    return runs + 1


@njit(**OPTIONS)
def _block_runs(atom: Atom, buf: I64, height: int, end: int) -> Ints:
    """List what `_draw` draws of the whole work as runs: (first column, how many)."""
    length, cut_left, cut_right = _corners(atom, atom.work, height)
    upper = max(height - atom.least, 1)
    lower = max(min(upper, atom.least), 1)
    first, u = end - length, end
    runs = _add_run(buf, 0, u - cut_right // lower, u, height - lower)
    u -= cut_right // lower
    if cut_right % lower > 0:
        runs = _add_run(buf, runs, u - 1, u, height - cut_right % lower)
        u -= 1
    rest = 1 if cut_left % upper > 0 else 0
    whole = first + cut_left // upper
    runs = _add_run(buf, runs, whole + rest, u, height)
    runs = _add_run(buf, runs, whole, whole + rest, height - cut_left % upper)
    runs = _add_run(buf, runs, first, whole, height - upper)
    return int(first), runs


@njit(**OPTIONS)
def _draw_runs(x: I64, buf: I64, runs: int, first: int, last: int) -> None:
    """Write listed runs into `x` on [first, last)."""
    for u in range(first, last):
        x[u] = 0
    for i in range(runs):
        for u in range(buf[_RUN_FROM, i], buf[_RUN_TO, i]):
            x[u] = buf[_RUN_HEIGHT, i]


@njit(**OPTIONS)
def _least_held(p: Profile, atom: Atom, a: int, b: int) -> Int:
    """Return how many multiples of an atom without occurrences fit everywhere in [a, b)."""
    t0, t1 = (p.span[1] - b, p.span[1] - a) if atom.early else (a, b)
    held = np.int64(_FAR)
    for seg in range(_segment_of(p.segments, t0), p.segments.shape[0] - 1):
        if p.segments[seg] < t1 or seg + 2 == p.segments.shape[0]:
            held = min(held, p.fit[atom.demand, seg])
    for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
        amount = p.demand_amounts[d]
        least = _least_free_of(p, p.demand_rows[d], t0, t1)
        if least < held * amount:
            held = max(least, np.int64(0)) // amount
    return held // atom.multiple


@njit(**OPTIONS)
def _plain_stack(p: Profile, atom: Atom, buf: I64) -> Ints:
    """List what `_blocks` and `_lengthen` make where there is room for it: (first, end, runs).

    One lease after the other at the greatest height, then a lower one, then what is no whole
    lease: on that lower one where higher ones follow it, else to the left of them all. No runs
    where that does not fit.
    """
    lease, most, runs = atom.lease, atom.most, 0
    left: Int = atom.work
    end: Int = atom.hi
    while left >= most * lease and end - lease >= atom.lo:
        if _least_held(p, atom, end - lease, end) < most:
            return atom.hi, atom.hi, 0
        runs = _add_run(buf, runs, end - lease, end, most)
        left -= most * lease
        end -= lease
    base: Int = np.int64(0)
    top: Int = np.int64(most)
    begin = end
    if left >= atom.least * lease:
        base, begin = left // lease, end - lease
        left -= base * lease
        if begin < atom.lo:
            return atom.hi, atom.hi, 0
        if end == atom.hi:
            if _least_held(p, atom, begin, end) < base:
                return atom.hi, atom.hi, 0
            runs = _add_run(buf, runs, begin, end, base)
            base, top, end = np.int64(0), base, begin
    elif end == atom.hi:
        return atom.hi, atom.hi, 0
    raised, rest = left // (top - base), left % (top - base)
    middle = end - raised - (1 if rest > 0 else 0)
    begin = min(begin, middle)
    if begin < atom.lo or (rest > 0 and base + rest < atom.least):
        return atom.hi, atom.hi, 0
    if begin < end and _least_held(p, atom, begin, end) < (top if left > 0 else base):
        return atom.hi, atom.hi, 0
    runs = _add_run(buf, runs, end - raised, end, top)
    runs = _add_run(buf, runs, middle, end - raised, base + rest)
    runs = _add_run(buf, runs, begin, middle, base)
    return begin, atom.hi, runs


@njit(**OPTIONS)
def _area_under(x: I64, a: int, b: int, height: int) -> Int:
    """Return what a window [a, b) of `height` adds to `x`."""
    area = np.int64(0)
    for u in range(a, b):
        if x[u] < height:
            area += height - x[u]
    return area


@njit(**OPTIONS)
def _cut(atom: Atom, buf: I64, first: int, last: int, excess: int) -> Int:
    """Cut `excess` from `_X` at the left ends of runs longer than a lease; return what remains.

    Layer j is where x >= j; each of its runs is a set of leases, and cutting one to no less than
    a lease keeps it one. Equal layers are cut together. `_Y` keeps the shape as it was.
    """
    x, y = buf[_X], buf[_Y]
    for u in range(first, last):
        y[u] = x[u]
    level = np.int64(1) << 60
    for _ in range(64):
        high = np.int64(0)  # the greatest height below `level`, and the next one below that
        low = np.int64(0)
        for u in range(first, last):
            if y[u] < level and y[u] > high:
                high = y[u]
        for u in range(first, last):
            if y[u] < high and y[u] > low:
                low = y[u]
        low = max(low, np.int64(atom.least))
        if high <= low or excess == 0:
            break
        layers = high - low
        u = first
        while u < last and excess > 0:
            if y[u] < high:
                u += 1
                continue
            end = u
            while end < last and y[end] >= high:
                end += 1
            take: Int = min(excess, layers * (end - u - atom.lease))
            excess -= take
            q = u
            while take > 0:
                x[q] -= min(take, layers)
                take -= min(take, layers)
                q += 1
            u = end
        level = high
    return excess


@njit(**OPTIONS)
def _close_union(atom: Atom, buf: I64, i: int, height: int, left: int, stop: int) -> Ints:
    """Add a last window at [i, i + lease) so that exactly `left` is added; (ok, first, end).

    Tried at the greatest height that does not overshoot, lengthening for the rest, and one
    higher, cutting the ends of long runs. `_X` in [i, stop) is left as it was when neither works.
    """
    x, z = buf[_X], buf[_Z]
    end = i + atom.lease
    low, high = np.int64(0), np.int64(height)
    while low < high:
        middle = (low + high + 1) // 2
        if _area_under(x, i, end, middle) <= left:
            low = middle
        else:
            high = middle - 1
    for u in range(i, stop):
        z[u] = x[u]
    for attempt in range(2):
        level = max(low + attempt, np.int64(atom.least))
        if level > height:
            break
        area = np.int64(0)
        for u in range(i, end):
            if x[u] < level:
                area += level - x[u]
                x[u] = level
        if area <= left:
            rest, first, until = _lengthen(atom, buf, left - area, i, stop)
            if rest == 0:
                return True, first, until
        elif _cut(atom, buf, i, stop, area - left) == 0:
            return True, i, stop
        for u in range(i, stop):
            x[u] = z[u]
    return False, i, stop


@njit(**OPTIONS)
def _union(atom: Atom, buf: I64) -> Ints:
    """Overlap windows of one lease from the right until they hold the work: (ok, first, end).

    Row `_C` must be filled. Bundles held longer than a lease make the latest first step possible
    (greedy.md 1.1, "compact").
    """
    c, x = buf[_C], buf[_X]
    qi, qv = buf[_QI], buf[_QV]
    head, tail, limit, last = 0, 0, atom.hi, atom.lo
    left, tries = atom.work, 0
    before = np.int64(0)  # height of the window one column to the right, if it was added
    for i in range(atom.hi - 1, atom.lo - 1, -1):
        value = c[i]
        x[i] = 0
        if value == 0:
            head, tail, limit, before = 0, 0, i, np.int64(0)
            continue
        while tail > head and qv[tail - 1] >= value:
            tail -= 1
        qv[tail] = value
        qi[tail] = i
        tail += 1
        end = i + atom.lease
        if end > limit:
            continue
        if qi[head] >= end:
            head += 1
        height = qv[head]
        # No higher than the window to the right: only the new column is added.
        area = height if height <= before else _area_under(x, i, end, height)
        if area >= left:
            ok, first, until = _close_union(atom, buf, i, height, left, max(last, end))
            tries += 1
            before = np.int64(0)
            if ok or tries == _OVERSHOOTS:
                return ok, first, until
            continue
        for u in range(i, i + 1 if height <= before else end):
            if x[u] < height:
                x[u] = height
        left -= area
        last = max(last, end)
        before = height
    return False, atom.hi, atom.hi


@njit(**OPTIONS)
def _remainder_first(p: Profile, shifts: I64, atom: Atom, buf: I64) -> Ints:
    """Place the part that is no whole lease as a rectangle, blocks for the rest; (ok, first, end).

    It catches a narrow right end where leases cannot grow. Row `_C` is spoilt when it fails.
    """
    c, x, y = buf[_C], buf[_X], buf[_Y]
    for leases in range(1, 3):
        part = atom.work % atom.lease + leases * atom.lease
        if part > atom.work:
            break
        height, end = _rectangle(atom, c, buf, atom.lo, atom.hi, part, _LATEST)
        if height == 0:
            continue
        begin = _draw(atom, y, part, height, end)
        for u in range(begin, end):
            c[u] -= y[u]
        left, first, last, _ready = _blocks(p, shifts, atom, buf, atom.lo, atom.work - part)
        if left == 0:
            first, last = _add(x, first, last, y, begin, end)
            return True, first, last
        for u in range(begin, end):
            c[u] += y[u]
    return False, atom.hi, atom.hi


@njit(**OPTIONS)
def _add(x: I64, first: int, last: int, y: I64, begin: int, end: int) -> Ints:
    """Add `y` on [begin, end) to `x` on [first, last); return the columns of the sum."""
    if first >= last:
        first, last = begin, begin
    low, high = min(first, begin), max(last, end)
    for u in range(low, first):
        x[u] = 0
    for u in range(last, high):
        x[u] = 0
    for u in range(begin, end):
        x[u] += y[u]
    return low, high


@njit(**OPTIONS)
def _gree(p: Profile, shifts: I64, atom: Atom, buf: I64) -> Ints:
    """Whole leases, then lengthen, rectangle, union, remainder first: (ok, first, end, runs)."""
    if atom.shift_end - atom.shift_first == 1 and shifts[atom.shift_first] == 0:
        first, last, runs = _plain_stack(p, atom, buf)
        if runs > 0:
            return True, first, last, runs
    ok, first, last = _gree_by_columns(p, shifts, atom, buf)
    return ok, first, last, 0


@njit(**OPTIONS)
def _gree_by_columns(p: Profile, shifts: I64, atom: Atom, buf: I64) -> Ints:
    """The same column by column: (ok, first, end)."""
    left, first, last, ready = _blocks(p, shifts, atom, buf, atom.hi, atom.work)
    if left == 0:
        return True, first, last
    if ready > atom.lo:
        _fill(p, shifts, atom, buf[_C], atom.lo, ready, atom.most * atom.multiple)
    if first < last:
        left, first, last = _lengthen(atom, buf, left, first, last)
        if left == 0:
            return True, first, last
    if not _holds(atom, buf):
        return False, first, last
    height, end = _rectangle(atom, buf[_C], buf, atom.lo, atom.hi, atom.work, _LATEST)
    if height > 0:
        return True, _draw(atom, buf[_X], atom.work, height, end), end
    ok, first, last = _union(atom, buf)
    if ok:
        return True, first, last
    return _remainder_first(p, shifts, atom, buf)


@njit(**OPTIONS)
def _compact(p: Profile, shifts: I64, atom: Atom, buf: I64) -> Ints:
    """Union or rectangle, whichever starts later, then the rest of GREE; row `_C` is filled."""
    if not _holds(atom, buf):
        return False, atom.hi, atom.hi
    height, end = _rectangle(atom, buf[_C], buf, atom.lo, atom.hi, atom.work, _LATEST)
    begin = end - (atom.work + height - 1) // height if height > 0 else -1
    ok, first, last = _union(atom, buf)
    if ok and first >= begin:
        return True, first, last
    if height > 0:
        return True, _draw(atom, buf[_X], atom.work, height, end), end
    left, first, last, _ready = _blocks(p, shifts, atom, buf, atom.lo, atom.work)
    if left > 0 and first < last:
        left, first, last = _lengthen(atom, buf, left, first, last)
    if left == 0:
        return True, first, last
    return _remainder_first(p, shifts, atom, buf)


@njit(**OPTIONS)
def _flat(p: Profile, shifts: I64, atom: Atom, buf: I64, aim: int, start: int) -> Ints:
    """Return (height, end) of a block in [start, hi), in twice that, in the whole window, or 0.

    On failure row `_A` is filled over the whole window.
    """
    a = buf[_A]
    ready, lo = atom.hi, start
    for attempt in range(3):
        if _by_cells(p, shifts, atom, lo, atom.hi):
            height, end = _rectangle_by_cells(p, shifts, atom, buf, lo, atom.hi, aim)
        else:
            _fill(p, shifts, atom, a, lo, max(lo, ready), _FAR)
            ready = min(lo, ready)
            height, end = _rectangle(atom, a, buf, lo, atom.hi, atom.work, aim)
        if height > 0:
            return height, end
        if lo == atom.lo:
            break
        lo = max(atom.lo, atom.hi - 2 * (atom.hi - start)) if attempt == 0 else atom.lo
    _fill(p, shifts, atom, a, atom.lo, max(atom.lo, ready), _FAR)
    return height, end


@njit(**OPTIONS)
def _clamp(atom: Atom, buf: I64, level: int, cap: int) -> None:
    """Write into `_C` what is free above `level`, at most `cap`."""
    a, c = buf[_A, atom.lo : atom.hi], buf[_C, atom.lo : atom.hi]
    for i in range(c.shape[0]):
        value = min(a[i] - level, cap)
        c[i] = value if value >= atom.least else 0


@njit(**OPTIONS)
def _union_area(atom: Atom, buf: I64) -> Int:
    """Return the area of the union of all windows of one lease under `_C` (its opening)."""
    c, y = buf[_C], buf[_Y]
    qi, qv = buf[_QI], buf[_QV]
    head, tail, limit = 0, 0, atom.hi
    for i in range(atom.hi - 1, atom.lo - 1, -1):
        y[i] = 0
        if c[i] == 0:
            head, tail, limit = 0, 0, i
            continue
        while tail > head and qv[tail - 1] >= c[i]:
            tail -= 1
        qv[tail], qi[tail] = c[i], i
        tail += 1
        if i + atom.lease <= limit:
            if qi[head] >= i + atom.lease:
                head += 1
            y[i] = qv[head]
    head, tail = 0, 0
    area = np.int64(0)
    for i in range(atom.lo, atom.hi):  # greatest of the windows that cover a column
        while tail > head and qv[tail - 1] <= y[i]:
            tail -= 1
        qv[tail], qi[tail] = y[i], i
        tail += 1
        if qi[head] <= i - atom.lease:
            head += 1
        area += qv[head]
    return area


@njit(**OPTIONS)
def _runs(atom: Atom, buf: I64) -> Int:
    """Write the runs of equal values in `_A` into `_QI` (lengths) and `_QV`; return how many."""
    a, length, value = buf[_A], buf[_QI], buf[_QV]
    count = 0
    u = atom.lo
    while u < atom.hi:
        begin = u
        while u < atom.hi and a[u] == a[begin]:
            u += 1
        length[count], value[count] = u - begin, a[begin]
        count += 1
    return count


@njit(**OPTIONS)
def _runs_hold(atom: Atom, buf: I64, count: int, level: int, cap: int) -> bool:
    """Return the sound bound of `_holds` for what is free above `level` up to `cap`, from runs."""
    length, value = buf[_QI], buf[_QV]
    area, run, steps = np.int64(0), np.int64(0), np.int64(0)
    for i in range(count):
        height = min(value[i] - level, cap)
        if height >= atom.least:
            run += height * length[i]
            steps += length[i]
        else:
            area += run if steps >= atom.lease else 0
            run, steps = np.int64(0), np.int64(0)
    area += run if steps >= atom.lease else 0
    return bool(area >= atom.work)


@njit(**OPTIONS)
def _level(atom: Atom, buf: I64) -> Ints:
    """Place under the highest level of headroom that still holds the work: (ok, first, end).

    Row `_A` is filled. The highest level of the sound bound is tried first: bisecting it costs
    little, and the union mostly holds the work there.
    """
    count = _runs(atom, buf)
    low, high = np.int64(-1), np.int64(0)
    for i in range(count):
        high = max(high, buf[_QV, i] - atom.least)
    while low < high:
        middle = (low + high + 1) // 2
        if _runs_hold(atom, buf, count, middle, atom.most):
            low = middle
        else:
            high = middle - 1
    if low < 0:
        return False, atom.hi, atom.hi
    _clamp(atom, buf, low, atom.most)
    ok, first, last = _union(atom, buf)
    if ok:
        return True, first, last
    low, high = np.int64(-1), low
    while low < high:
        middle = (low + high + 1) // 2
        _clamp(atom, buf, middle, atom.most)
        if _union_area(atom, buf) >= atom.work:
            low = middle
        else:
            high = middle - 1
    for _ in range(_OVERSHOOTS):
        if low < 0:
            break
        _clamp(atom, buf, low, atom.most)
        ok, first, last = _union(atom, buf)
        if ok:
            return True, first, last
        low = low - 1 if low < _OVERSHOOTS else low * 7 // 8
    return False, atom.hi, atom.hi


@njit(**OPTIONS)
def _lowest_cap(atom: Atom, buf: I64) -> Ints:
    """Place under the lowest cap whose union holds the work: (ok, first, end).

    Row `_A` is filled. Where no rectangle holds the work this is the flattest shape: GREE's own
    stands as tall as it may, and every bundle of it falls.
    """
    count = _runs(atom, buf)
    low, high = np.int64(atom.least), np.int64(atom.most)
    if not _runs_hold(atom, buf, count, 0, high):
        return False, atom.hi, atom.hi
    while low < high:
        middle = (low + high) // 2
        if _runs_hold(atom, buf, count, 0, middle):
            high = middle
        else:
            low = middle + 1
    _clamp(atom, buf, 0, low)
    ok, first, last = _union(atom, buf)
    if ok:
        return True, first, last
    high = np.int64(atom.most) + 1
    while low < high:
        middle = (low + high) // 2
        _clamp(atom, buf, 0, middle)
        if _union_area(atom, buf) >= atom.work:
            high = middle
        else:
            low = middle + 1
    for _ in range(_OVERSHOOTS):
        if low > atom.most:
            break
        _clamp(atom, buf, 0, low)
        ok, first, last = _union(atom, buf)
        if ok:
            return True, first, last
        low = low + 1 if low < _OVERSHOOTS else low * 9 // 8
    return False, atom.hi, atom.hi


@njit(**OPTIONS)
def _falls(x: I64, first: int, last: int) -> Int:
    """Return the preemption of heights `x` on [first, last), the last fall included."""
    total = x[last - 1]
    for u in range(first, last - 1):
        total += max(np.int64(0), x[u] - x[u + 1])
    return total


@njit(**OPTIONS)
def _lower_than(p: Profile, shifts: I64, atom: Atom, buf: I64, height: int) -> Ints:
    """Return a union lower than a block that stands far above the least height: (ok, first, end).

    The least height is that of all the work spread over the whole window.
    """
    least: Int = max(
        np.int64(atom.least), (atom.work + atom.hi - atom.lo - 1) // (atom.hi - atom.lo)
    )
    if height * 8 <= least * 15:
        return False, atom.hi, atom.hi
    _fill(p, shifts, atom, buf[_A], atom.lo, atom.hi, _FAR)
    ok, first, last = _lowest_cap(atom, buf)
    return ok and _falls(buf[_X], first, last) < height, first, last


@njit(**OPTIONS)
def _shape(p: Profile, shifts: I64, atom: Atom, buf: I64, strategy: int, start: int) -> Ints:
    """Find the atom's heights: (ok, first column, end column, runs).

    The heights are listed as so many runs; where there are none, they stand in row `_X`.
    """
    if strategy == PAPER:
        left, first, last, _ready = _blocks(p, shifts, atom, buf, atom.hi, atom.work)
        return left == 0, first, last, 0
    if strategy == BLOCKS:
        return _gree(p, shifts, atom, buf)
    if strategy == LOWEST or strategy == HEADROOM or strategy == HEADROOM_ONLY:
        aim = _LOW if strategy == LOWEST else _ROOMY
        height, end = _flat(p, shifts, atom, buf, aim, start)
        if height > 0:
            if strategy == LOWEST and start == atom.lo:
                ok, first, last = _lower_than(p, shifts, atom, buf, height)
                if ok:
                    return True, first, last, 0
            first, runs = _block_runs(atom, buf, height, end)
            return True, first, end, runs
        if strategy == HEADROOM_ONLY:
            return False, atom.hi, atom.hi, 0
        if strategy == LOWEST and atom.least < atom.most:  # a gang has one cap: that of GREE
            ok, first, last = _lowest_cap(atom, buf)
            if ok:
                return True, first, last, 0
        _clamp(atom, buf, 0, atom.most)
    elif strategy == LEVEL:
        _fill(p, shifts, atom, buf[_A], atom.lo, atom.hi, _FAR)
        ok, first, last = _level(atom, buf)
        if ok:
            return True, first, last, 0
        _clamp(atom, buf, 0, atom.most)
    else:
        _fill(p, shifts, atom, buf[_C], atom.lo, atom.hi, atom.most * atom.multiple)
    ok, first, last = _compact(p, shifts, atom, buf)
    return ok, first, last, 0


# ---- what is held -------------------------------------------------------------------------------


@njit(**OPTIONS)
def _take(p: Profile, shifts: I64, atom: Atom, rows: I64, r0: int, r1: int, sign: int) -> None:
    """Subtract (sign 1) or give back (-1) rows [r0, r1) of one atom in every occurrence."""
    for s in range(atom.shift_first, atom.shift_end):
        move = shifts[s]
        for r in range(r0, r1):
            end = min(rows[r, 1] + move, p.span[1])
            _subtract(p, atom.demand, rows[r, 0] + move, end, sign * rows[r, 2])


@njit(**OPTIONS)
def _emit(atom: Atom, x: I64, first: int, last: int, columns: int, rows: I64, count: int) -> Int:
    """Append the heights in `x` as merged rows in ascending time; return the new count or -1."""
    step, u, stop = 1, first, last
    if atom.early:
        step, u, stop = -1, last - 1, first - 1
    while u != stop:
        height = x[u]
        begin = u
        while u != stop and x[u] == height:
            u += step
        if height == 0:
            continue
        if count == rows.shape[0]:
            return -1
        rows[count, 0] = columns - 1 - begin if atom.early else begin
        rows[count, 1] = columns - 1 - u if atom.early else u
        rows[count, 2] = height * atom.multiple
        count += 1
    return count


@njit(**OPTIONS)
def _emit_runs(atom: Atom, buf: I64, runs: int, columns: int, rows: I64, count: int) -> Int:
    """Append listed runs as rows in ascending time; return the new count or -1."""
    if count + runs > rows.shape[0]:
        return -1
    for k in range(runs):
        i = k if atom.early else runs - 1 - k
        first, end = buf[_RUN_FROM, i], buf[_RUN_TO, i]
        rows[count, 0] = columns - end if atom.early else first
        rows[count, 1] = columns - first if atom.early else end
        rows[count, 2] = buf[_RUN_HEIGHT, i] * atom.multiple
        count += 1
    return count


@njit(**OPTIONS)
def _trimmed(x: I64, first: int, last: int) -> Ints:
    """Return [first, last) without empty columns at both ends."""
    while first < last and x[first] == 0:
        first += 1
    while first < last and x[last - 1] == 0:
        last -= 1
    return first, last


@njit(**OPTIONS)
def _emit_shape(
    atom: Atom, buf: I64, first: int, last: int, runs: int, columns: int, rows: I64, count: int
) -> Int:
    """Append what `_shape` found as rows in ascending time; return the new count or -1."""
    if runs > 0:
        return _emit_runs(atom, buf, runs, columns, rows, count)
    return _emit(atom, buf[_X], first, last, columns, rows, count)


# ---- window averages ----------------------------------------------------------------------------


@njit(**OPTIONS)
def _overlap(out: I64, offset: int, stop: int, window: int, t0: int, t1: int, amount: int) -> None:
    """Add to `out` amount x |[tau, tau + window) and [t0, t1)| for every window start tau.

    Window starts at -offset and before `stop`.
    """
    first = max(t0 - window + 1, -offset)
    full = max(-offset, min(t0, t1 - window))
    falls = max(-offset, max(t0, t1 - window))
    for tau in range(first, min(full, stop)):
        out[tau + offset] += amount * (tau + window - t0)
    whole = amount * min(window, t1 - t0)
    for tau in range(full, min(falls, stop)):
        out[tau + offset] += whole
    for tau in range(falls, min(t1, stop)):
        out[tau + offset] += amount * (t1 - tau)


@njit(**OPTIONS)
def _count_window(q: Averages, demand: int, t0: int, t1: int, bundles: int) -> None:
    """Count bundles on steps [t0, t1) against every average of a demand."""
    offset, columns = q.offset[0], q.offset[1]
    for j in range(q.first[demand], q.first[demand + 1]):
        row, window = q.slack[q.rows[j]], q.windows[q.rows[j]]
        _overlap(row, offset, columns, window, t0, t1, -bundles * q.amounts[j])
        begin, end = max(t0 - window + 1 + offset, 0), min(t1, columns) + offset
        if q.low.shape[1] > 0 and begin < end:
            low = q.low[q.rows[j]]
            full = min(max(min(t0, t1 - window) + offset, begin), end)
            falls = min(max(max(t0, t1 - window) + offset, full), end)
            if begin < full:
                _index_again(row, low, begin, full)
            if full < falls:  # every window that starts here loses the same
                whole = -bundles * q.amounts[j] * min(window, t1 - t0)
                _index_moved(row, low, full, falls, whole)
            if falls < end:
                _index_again(row, low, falls, end)


@njit(**OPTIONS)
def _average_take(q: Averages, shifts: I64, atom: Atom, t0: int, t1: int, bundles: int) -> None:
    """Count `bundles` on steps [t0, t1) of every occurrence against the averages."""
    for i in range(atom.shift_first, atom.shift_end):
        end = min(t1 + shifts[i], q.offset[1])
        if t0 + shifts[i] < end:
            _count_window(q, atom.demand, t0 + shifts[i], end, bundles)


@njit(**OPTIONS)
def _average_runs(q: Averages, shifts: I64, atom: Atom, x: I64, a: int, b: int, sign: int) -> None:
    """Count the heights `x` on columns [a, b) against the averages, or give them back."""
    columns = q.offset[1]
    u = a
    while u < b:
        begin = u
        while u < b and x[u] == x[begin]:
            u += 1
        if x[begin] > 0:
            t0, t1 = (columns - u, columns - begin) if atom.early else (begin, u)
            _average_take(q, shifts, atom, t0, t1, sign * x[begin] * atom.multiple)


@njit(**OPTIONS)
def _average_cap(q: Averages, shifts: I64, atom: Atom, a: int, b: int) -> Ints:
    """Return (height that the averages allow on columns [a, b), row, window start that binds)."""
    offset, columns = q.offset[0], q.offset[1]
    t0, t1 = (columns - b, columns - a) if atom.early else (a, b)
    best, best_row, best_tau = np.int64(atom.most), -1, 0
    overlap = q.work[0]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row, window = q.rows[j], q.windows[q.rows[j]]
        unit = q.amounts[j] * atom.multiple
        for i in range(atom.shift_first, atom.shift_end):
            end = min(t1 + shifts[i], columns)
            if t0 + shifts[i] < end:
                _overlap(overlap, offset, columns, window, t0 + shifts[i], end, 1)
        low = max(t0 + shifts[atom.shift_first] - window + 1, -offset)
        high = min(t1 + shifts[atom.shift_end - 1], columns)
        for tau in range(low + offset, high + offset):
            need = overlap[tau] * unit
            overlap[tau] = 0
            if need > 0 and q.slack[row, tau] < best * need:
                best = max(np.int64(0), q.slack[row, tau]) // need
                best_row, best_tau = row, tau - offset
    return best, best_row, best_tau


@njit(**OPTIONS)
def _average_broken(q: Averages, shifts: I64, atom: Atom, x: I64, first: int, last: int) -> Ints:
    """Return (row, window start) of an average that heights `x` break, or (-1, 0)."""
    offset, columns = q.offset[0], q.offset[1]
    total = q.work[1]
    t0, t1 = (columns - last, columns - first) if atom.early else (first, last)
    low = t0 + shifts[atom.shift_first]
    high = min(t1 + shifts[atom.shift_end - 1], columns)
    for t in range(low, high + 1):
        total[t] = 0
    for i in range(atom.shift_first, atom.shift_end):
        for u in range(first, last):
            t = (columns - 1 - u if atom.early else u) + shifts[i]
            if t < columns:
                total[t + 1] += x[u] * atom.multiple
    for t in range(low, high):
        total[t + 1] += total[t]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row, window = q.rows[j], q.windows[q.rows[j]]
        for tau in range(max(low - window + 1, -offset), high):
            used = total[min(tau + window, high)] - total[max(tau, low)]
            if used > 0 and used * q.amounts[j] > q.slack[row, tau + offset]:
                return row, tau
    return -1, 0


@njit(**OPTIONS)
def _average_free(q: Averages, shifts: I64, atom: Atom) -> bool:
    """Return whether no allocation in the window can break an average (the fast path)."""
    offset, columns = q.offset[0], q.offset[1]
    t0, t1 = (columns - atom.hi, columns - atom.lo) if atom.early else (atom.lo, atom.hi)
    low = t0 + shifts[atom.shift_first]
    high = min(t1 + shifts[atom.shift_end - 1], columns)
    work = atom.work * atom.multiple * (atom.shift_end - atom.shift_first)
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row = q.rows[j]
        begin = max(low - q.windows[row] + 1, -offset) + offset
        if begin < high + offset:
            if _least_of(q.slack[row], q.low[row], begin, high + offset) < work * q.amounts[j]:
                return False
    return True


@njit(**OPTIONS)
def _average_blocks(q: Averages, shifts: I64, atom: Atom, buf: I64) -> Int:
    """Stack whole leases from the right as the averages allow; return the work left.

    Row `_C` is filled. What is placed is counted against the averages.
    """
    c, x = buf[_C], buf[_X]
    for u in range(atom.lo, atom.hi):
        x[u] = 0
    left, end = atom.work, atom.hi
    while end - atom.lease >= atom.lo and left >= atom.least * atom.lease:
        begin = end - atom.lease
        height = left // atom.lease
        u = end - 1
        while u >= begin and c[u] - x[u] >= atom.least:
            height = min(height, c[u] - x[u])
            u -= 1
        if u >= begin:
            end = u
            continue
        cap, row, tau = _average_cap(q, shifts, atom, begin, end)
        height = min(height, cap)
        if height < atom.least:
            # Within the window that binds the overlap only shrinks once the block leaves it.
            leave = end - 1
            if not atom.early and atom.shift_end - atom.shift_first == 1:
                unit = _average_unit(q, atom, row) * atom.least * atom.multiple
                slack = max(np.int64(0), q.slack[row, tau + q.offset[0]])
                leave = min(leave, tau - shifts[atom.shift_first] + slack // unit)
            end = leave
            continue
        for u in range(begin, end):
            x[u] += height
        t0 = q.offset[1] - end if atom.early else begin
        _average_take(q, shifts, atom, t0, t0 + atom.lease, height * atom.multiple)
        left -= height * atom.lease
        end -= 1
    return left


@njit(**OPTIONS)
def _average_unit(q: Averages, atom: Atom, row: int) -> Int:
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        if q.rows[j] == row:
            return q.amounts[j]
    return np.int64(1)


@njit(**OPTIONS)
def _average_raise(
    q: Averages, shifts: I64, atom: Atom, buf: I64, u: int, height: int, left: int
) -> Int:
    """Raise column u to at most `height` as the averages allow; return the work still left."""
    c, x = buf[_C], buf[_X]
    add = min(min(c[u], height) - x[u], left)
    if add <= 0 or (x[u] == 0 and add < atom.least):
        return left
    cap, _row, _tau = _average_cap(q, shifts, atom, u, u + 1)
    add = min(add, cap)
    if add <= 0 or (x[u] == 0 and add < atom.least):
        return left
    x[u] += add
    t = q.offset[1] - u - 1 if atom.early else u
    _average_take(q, shifts, atom, t, t + 1, add * atom.multiple)
    return left - add


@njit(**OPTIONS)
def _shape_within(
    p: Profile, q: Averages, shifts: I64, atom: Atom, buf: I64, strategy: int, start: int
) -> Ints:
    """Find the atom's heights within the averages: (ok, first, end, runs, row, window).

    The strategy's own shape where it keeps the averages; else whole leases and lengthening,
    each as high as the averages allow. Row and window tell which average was in the way.
    """
    x = buf[_X]
    ok, first, last, runs = _shape(p, shifts, atom, buf, strategy, start)
    if not ok:
        return False, first, last, 0, -1, 0
    if runs > 0:
        _draw_runs(x, buf, runs, first, last)
    row, tau = _average_broken(q, shifts, atom, x, first, last)
    if row < 0:
        return True, first, last, runs, -1, 0
    if strategy == PAPER or strategy == HEADROOM_ONLY:
        return False, first, last, 0, row, tau
    _fill(p, shifts, atom, buf[_C], atom.lo, atom.hi, atom.most * atom.multiple)
    left = _average_blocks(q, shifts, atom, buf)
    for u in range(atom.lo + 1, atom.hi):
        if left > 0:
            left = _average_raise(q, shifts, atom, buf, u, x[u - 1], left)
    for u in range(atom.hi - 2, atom.lo - 1, -1):
        if left > 0:
            left = _average_raise(q, shifts, atom, buf, u, x[u + 1], left)
    _average_runs(q, shifts, atom, x, atom.lo, atom.hi, -1)
    return left == 0, atom.lo, atom.hi, 0, row, tau


@njit(**OPTIONS)
def _move_atom(
    p: Profile, q: Averages, shifts: I64, atom: Atom, rows: I64, r0: int, r1: int, sign: int
) -> None:
    """Take an atom's rows [r0, r1) (sign 1) or give them back (sign -1)."""
    _take(p, shifts, atom, rows, r0, r1, sign)
    if q.first[atom.demand] < q.first[atom.demand + 1]:
        for r in range(r0, r1):
            _average_take(q, shifts, atom, rows[r, 0], rows[r, 1], sign * rows[r, 2])


# ---- the graph of one request -------------------------------------------------------------------


@njit(**OPTIONS)
def _start_of(g: Graph, run: Run, v: int) -> Int:
    if run.early:
        return run.columns - (g.vertices[v, END] - run.base)
    return g.vertices[v, START] - run.base


@njit(**OPTIONS)
def _end_of(g: Graph, run: Run, v: int) -> Int:
    if run.early:
        return run.columns - (g.vertices[v, START] - run.base)
    return g.vertices[v, END] - run.base


@njit(**OPTIONS)
def _index_edges(g: Graph, run: Run, s: Scratch) -> None:
    """List the edges by the vertex before (row 0 of `edge`) and by the one after (row 1)."""
    n, m = g.vertices.shape[0], g.edges.shape[0]
    for side in range(2):
        head = _SUCC if side == 0 else _PRED
        column = side if run.early == 0 else 1 - side
        for v in range(n + 1):
            s.vertex[head, v] = 0
        for e in range(m):
            s.vertex[head, g.edges[e, column] + 1] += 1
        for v in range(n):
            s.vertex[head, v + 1] += s.vertex[head, v]
        for v in range(n):
            s.vertex[_LIST, v] = s.vertex[head, v]
        for e in range(m):
            v = g.edges[e, column]
            s.edge[side, s.vertex[_LIST, v]] = e
            s.vertex[_LIST, v] += 1


@njit(**OPTIONS)
def _share(g: Graph, run: Run, s: Scratch) -> None:
    """Write what must precede each vertex: its effort, and the first column shared with it.

    The longest path of effort over the siblings that precede, in topological order (greedy.md
    2.1); `effort[0]` per vertex, `_BASE` the start of the first vertex on that path.
    """
    n = g.vertices.shape[0]
    counts, todo = s.vertex[_BLOCKED], s.vertex[_LIST]
    size = 0
    for v in range(n):
        s.effort[0, v] = 0.0
        s.vertex[_BASE, v] = _start_of(g, run, v)
        counts[v] = s.vertex[_PRED, v + 1] - s.vertex[_PRED, v]
        if counts[v] == 0:
            todo[size] = v
            size += 1
    after = 0 if run.early else 1
    while size > 0:
        size -= 1
        v = todo[size]
        path = s.effort[0, v] + g.effort[v]
        for q in range(s.vertex[_SUCC, v], s.vertex[_SUCC, v + 1]):
            w = g.edges[s.edge[0, q], after]
            if path > s.effort[0, w]:
                s.effort[0, w] = path
                s.vertex[_BASE, w] = s.vertex[_BASE, v]
            counts[w] -= 1
            if counts[w] == 0:
                todo[size] = w
                size += 1


@njit(**OPTIONS)
def _interval(g: Graph, s: Scratch, a: int, lo: int, hi: int) -> Int:
    """Return the start of the interval that an atom is given of [its shared window, hi)."""
    before = 0.0
    base = lo
    v = a
    while v >= 0:
        if s.vertex[_PRED, v + 1] > s.vertex[_PRED, v]:
            before += s.effort[0, v]
            base = min(base, s.vertex[_BASE, v])
        v = g.vertices[v, PARENT]
    if before == 0.0:
        return lo
    own = g.effort[a]
    length = np.int64((hi - base) * own / (own + before))
    return max(lo, hi - max(length, g.vertices[a, SHORTEST]))


@njit(**OPTIONS)
def _end_bound(g: Graph, run: Run, s: Scratch, a: int) -> Int:
    """Return the column by which vertex `a` must end, given what is placed."""
    after = 0 if run.early else 1
    bound, moved = np.int64(_FAR), np.int64(0)
    v = a
    while True:
        own = min(_end_of(g, run, v), s.vertex[_CAP, v])
        for q in range(s.vertex[_SUCC, v], s.vertex[_SUCC, v + 1]):
            e = s.edge[0, q]
            own = min(own, s.vertex[_FROM, g.edges[e, after]] - g.edges[e, 2])
        bound = min(bound, own - moved)
        v = g.vertices[v, PARENT]
        if v < 0:
            return min(bound, run.columns)
        if g.vertices[v, KIND] == EVERY and not run.early:
            moved += g.vertices[v, LAST_SHIFT]


@njit(**OPTIONS)
def _sooner(s: Scratch, a: int, b: int) -> bool:
    """Return whether atom `a` is placed before `b`: widest gang, least slack, written last."""
    if s.vertex[_KEY1, a] != s.vertex[_KEY1, b]:
        return bool(s.vertex[_KEY1, a] < s.vertex[_KEY1, b])
    if s.vertex[_KEY2, a] != s.vertex[_KEY2, b]:
        return bool(s.vertex[_KEY2, a] < s.vertex[_KEY2, b])
    return a > b


@njit(**OPTIONS)
def _push(s: Scratch, a: int) -> None:
    heap = s.vertex[_HEAP]
    i = s.state[_HEAPED]
    s.state[_HEAPED] += 1
    while i > 0 and _sooner(s, a, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = a


@njit(**OPTIONS)
def _pop(s: Scratch) -> Int:
    heap = s.vertex[_HEAP]
    top = heap[0]
    s.state[_HEAPED] -= 1
    size = s.state[_HEAPED]
    last = heap[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _sooner(s, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(s, heap[child], last):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return int(top)


@njit(**OPTIONS)
def _fail(s: Scratch, v: int, kind: int, lo: int, hi: int) -> None:
    s.state[_FAILED] = v
    s.state[_KIND] = kind
    s.state[_LO] = lo
    s.state[_HI] = hi


@njit(**OPTIONS)
def _choose(g: Graph, run: Run, s: Scratch, v: int) -> bool:
    """Take the first option of `any` v, from its least one on, that its bounds leave room for."""
    bound = _end_bound(g, run, s, v)
    first = g.vertices[v, CHILD_FIRST]
    for i in range(s.vertex[_CHOICE, v], g.vertices[v, CHILD_COUNT]):
        option = g.children[first + i]
        end = min(bound, _end_of(g, run, option))
        if g.vertices[option, SATISFIABLE] == 0:
            continue
        if end - _start_of(g, run, option) >= g.vertices[option, SHORTEST]:
            s.vertex[_TAKEN, v] = i
            return True
    _fail(s, v, NO_WINDOW, _start_of(g, run, v), bound)
    return False


@njit(**OPTIONS)
def _enqueue(g: Graph, run: Run, s: Scratch, a: int) -> None:
    if s.vertex[_DONE, a]:
        return
    gang = g.vertices[a, MIN_HEIGHT] == g.vertices[a, MAX_HEIGHT]
    if run.strategy == PAPER:
        s.vertex[_KEY1, a], s.vertex[_KEY2, a] = 0, 0
    elif gang:
        s.vertex[_KEY1, a], s.vertex[_KEY2, a] = 0, -g.vertices[a, MAX_HEIGHT]
    else:
        room = _end_bound(g, run, s, a) - _start_of(g, run, a)
        s.vertex[_KEY1, a], s.vertex[_KEY2, a] = 1, room - g.vertices[a, SHORTEST]
    _push(s, a)


@njit(**OPTIONS)
def _open(g: Graph, run: Run, s: Scratch, root: int) -> bool:
    """Make ready every atom below `root` that waits for nothing more."""
    todo = s.vertex[_LIST]
    todo[0] = root
    size = 1
    while size > 0:
        size -= 1
        v = todo[size]
        parent = g.vertices[v, PARENT]
        if s.vertex[_OPEN, v] or s.vertex[_BLOCKED, v] > 0:
            continue
        if parent >= 0 and not s.vertex[_OPEN, parent]:
            continue
        s.vertex[_OPEN, v] = 1
        first = g.vertices[v, CHILD_FIRST]
        if g.vertices[v, KIND] == ATOM:
            _enqueue(g, run, s, v)
        elif g.vertices[v, KIND] == ANY:
            if not _choose(g, run, s, v):
                return False
            todo[size] = g.children[first + s.vertex[_TAKEN, v]]
            size += 1
        else:
            for i in range(g.vertices[v, CHILD_COUNT]):
                todo[size] = g.children[first + i]
                size += 1
    return True


@njit(**OPTIONS)
def _close(g: Graph, run: Run, s: Scratch, a: int) -> Int:
    """Note that atom `a` is placed; open what waited for it.

    Returns -1, the edge whose largest gap is broken, or -2 when an `any` has no option left.
    """
    before, after = (1, 0) if run.early else (0, 1)
    v = a
    while True:
        for q in range(s.vertex[_SUCC, v], s.vertex[_SUCC, v + 1]):
            e = s.edge[0, q]
            longest = g.edges[e, 3]
            if longest >= 0 and s.vertex[_FROM, g.edges[e, after]] - s.vertex[_TO, v] > longest:
                return int(e)
        for q in range(s.vertex[_PRED, v], s.vertex[_PRED, v + 1]):
            u = g.edges[s.edge[1, q], before]
            s.vertex[_BLOCKED, u] -= 1
            if s.vertex[_BLOCKED, u] == 0 and not _open(g, run, s, u):
                return -2
        p = g.vertices[v, PARENT]
        if p < 0:
            return -1
        last = g.vertices[p, LAST_SHIFT] if g.vertices[p, KIND] == EVERY else 0
        low = s.vertex[_FROM, v] - (last if run.early else 0)
        high = s.vertex[_TO, v] + (0 if run.early else last)
        s.vertex[_FROM, p] = min(s.vertex[_FROM, p], low)
        s.vertex[_TO, p] = max(s.vertex[_TO, p], high)
        s.vertex[_LEFT, p] -= 1
        if s.vertex[_LEFT, p] > 0:
            return -1
        v = p


@njit(**OPTIONS)
def _restart(g: Graph, run: Run, s: Scratch, kept: int) -> bool:
    """Set all vertices to waiting, then note again the first `kept` atoms of the stack."""
    n = g.vertices.shape[0]
    for v in range(n):
        kind = g.vertices[v, KIND]
        s.vertex[_LEFT, v] = 1 if kind == ANY else g.vertices[v, CHILD_COUNT]
        s.vertex[_BLOCKED, v] = s.vertex[_SUCC, v + 1] - s.vertex[_SUCC, v]
        s.vertex[_OPEN, v] = 0
        s.vertex[_TAKEN, v] = -1
        if not s.vertex[_DONE, v]:
            s.vertex[_FROM, v] = _FAR
            s.vertex[_TO, v] = -_FAR
    s.state[_HEAPED] = 0
    s.state[_STACKED] = kept
    if not _open(g, run, s, n - 1):
        return False
    for i in range(kept):
        if _close(g, run, s, s.vertex[_STACK, i]) != -1:
            return False
    return True


@njit(**OPTIONS)
def _atom_of(g: Graph, run: Run, v: int, lo: int, hi: int) -> Atom:
    row = g.vertices[v]
    k = row[MULTIPLE]
    demand = g.demand_of[row[BUNDLE] * (g.labels + 1) + row[LABEL] + 1]
    return Atom(
        (row[MIN_HEIGHT] + k - 1) // k,
        row[MAX_HEIGHT] // k,
        row[LEASE],
        row[WORK] // k,
        k,
        demand,
        row[SHIFT_FIRST],
        row[SHIFT_FIRST] + row[SHIFT_COUNT],
        run.early,
        max(0, lo),
        hi,
    )


@njit(**INLINE)
def _place_atom(p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, a: int) -> bool:
    """Place one atom as its bounds allow and take its bundles from the profile."""
    lo, hi = _start_of(g, run, a), _end_bound(g, run, s, a)
    atom = _atom_of(g, run, a, lo, hi)
    if atom.hi - atom.lo < g.vertices[a, SHORTEST]:
        _fail(s, a, NO_WINDOW, atom.lo, atom.hi)
        return False
    start = atom.lo
    if (run.strategy == LOWEST or run.strategy >= HEADROOM) and g.edges.shape[0] > 0:
        start = _interval(g, s, a, atom.lo, atom.hi)
    counted = q.first[atom.demand] < q.first[atom.demand + 1]
    if counted and not _average_free(q, g.shifts, atom):
        if run.lent:
            s.state[NEEDS_OWN] = 1
            _fail(s, a, NO_ROOM, atom.lo, atom.hi)
            return False
        ok, first, last, runs, row, tau = _shape_within(
            p, q, g.shifts, atom, s.steps, run.strategy, start
        )
        s.state[_AVERAGE], s.state[_TAU] = row, tau
    else:
        ok, first, last, runs = _shape(p, g.shifts, atom, s.steps, run.strategy, start)
        s.state[_AVERAGE] = -1
    if not ok:
        _fail(s, a, NO_AVERAGE if s.state[_AVERAGE] >= 0 else NO_ROOM, atom.lo, atom.hi)
        return False
    begin = s.state[_ROWS]
    if runs == 0:
        first, last = _trimmed(s.steps[_X], first, last)
    count = _emit_shape(atom, s.steps, first, last, runs, run.columns, s.rows, begin)
    if count < 0:
        s.state[ROWS_FULL] = 1
        _fail(s, a, NO_ROOM, atom.lo, atom.hi)
        return False
    if not run.lent:
        _move_atom(p, q, g.shifts, atom, s.rows, begin, count, 1)
    s.state[_ROWS] = count
    s.vertex[_RF, a], s.vertex[_RC, a] = begin, count - begin
    s.vertex[_FROM, a], s.vertex[_TO, a] = first, last
    s.vertex[_DONE, a] = 1
    s.vertex[_STACK, s.state[_STACKED]] = a
    s.state[_STACKED] += 1
    return True


@njit(**OPTIONS)
def _undo(p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, kept: int) -> None:
    """Give back all atoms but the first `kept` of the stack."""
    for i in range(s.state[_STACKED] - 1, kept - 1, -1):
        a = s.vertex[_STACK, i]
        atom = _atom_of(g, run, a, 0, 0)
        r0 = s.vertex[_RF, a]
        r1 = r0 + s.vertex[_RC, a]
        if not run.lent:
            _move_atom(p, q, g.shifts, atom, s.rows, r0, r1, -1)
        s.vertex[_DONE, a] = 0
        s.state[_ROWS] = r0  # rows are appended in the order of the stack
    s.state[_STACKED] = kept


@njit(**OPTIONS)
def _below(g: Graph, v: int, top: int) -> bool:
    while v >= 0 and v < top:
        v = g.vertices[v, PARENT]
    return v == top


@njit(**OPTIONS)
def _leap(p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, edge: int) -> bool:
    """Lower the successor whose largest gap is broken, and take back what was placed since.

    In every solution the successor starts no later than the end of the predecessor, placed as
    late as can be, plus the largest gap (greedy.md 1.3, leapfrog).
    """
    before, after = (1, 0) if run.early else (0, 1)
    v, w = g.edges[edge, before], g.edges[edge, after]
    excess = s.vertex[_FROM, w] - s.vertex[_TO, v] - g.edges[edge, 3]
    found, at = -1, 0
    for i in range(s.state[_STACKED]):
        a = s.vertex[_STACK, i]
        if _below(g, a, w) and (found < 0 or s.vertex[_FROM, a] < s.vertex[_FROM, found]):
            found, at = a, i
    s.state[_LEAPS] += 1
    # The printed rule never goes back; a chain needs few leaps, malleable stages may creep.
    if run.strategy == PAPER or s.state[_LEAPS] > 64 + 16 * g.vertices.shape[0]:
        _fail(s, v, NO_GAP, s.vertex[_FROM, v], s.vertex[_TO, v])
        return False
    s.vertex[_CAP, found] = s.vertex[_TO, found] - excess
    _undo(p, q, g, run, s, at)
    return bool(_restart(g, run, s, at))


@njit(**INLINE)
def _traverse(p: Profile, q: Averages, g: Graph, run: Run, s: Scratch) -> bool:
    """Place every atom of a request, successors before predecessors."""
    n = g.vertices.shape[0]
    s.state[_ROWS], s.state[_STACKED], s.state[_LEAPS], s.state[ROWS_FULL] = 0, 0, 0, 0
    s.state[_FIRM], s.state[NEEDS_OWN] = 0, 0
    for v in range(n):
        s.vertex[_CAP, v] = _FAR
        s.vertex[_DONE, v] = 0
    if g.edges.shape[0] > 0 and (run.strategy == LOWEST or run.strategy >= HEADROOM):
        _share(g, run, s)
    if not _restart(g, run, s, 0):
        return False
    while s.state[_HEAPED] > 0:
        a = _pop(s)
        if not _place_atom(p, q, g, run, s, a):
            # Nothing of this request stands in the way: no other traversal can place the atom.
            complete = run.strategy != HEADROOM_ONLY and run.strategy != PAPER
            alone = s.state[_STACKED] == 0 and s.state[_LEAPS] == 0
            complete = complete and s.state[_KIND] != NO_AVERAGE
            s.state[_FIRM] = 1 if alone and complete and not s.state[ROWS_FULL] else 0
            return False
        broken = _close(g, run, s, a)
        if broken == -2 or (broken >= 0 and not _leap(p, q, g, run, s, broken)):
            return False
    return True


@njit(**OPTIONS)
def _next_options(g: Graph, s: Scratch, printed: bool) -> bool:
    """Move to other options of `any` after a failure; False when there are none left.

    First the innermost `any` around the vertex that failed moves on. When none around it can, all
    combinations follow in written order, unless the printed rule is asked for.
    """
    n = g.vertices.shape[0]
    if s.state[_PHASE] == 1:  # still following failures
        v = s.state[_FAILED]
        while v >= 0:
            if g.vertices[v, KIND] == ANY and s.vertex[_TAKEN, v] >= 0:
                if s.vertex[_TAKEN, v] + 1 < g.vertices[v, CHILD_COUNT]:
                    s.vertex[_CHOICE, v] = s.vertex[_TAKEN, v] + 1
                    for u in range(v):
                        if g.vertices[u, KIND] == ANY and _below(g, u, v):
                            s.vertex[_CHOICE, u] = 0
                    return True
            v = g.vertices[v, PARENT]
        if printed:
            return False
        s.state[_PHASE] = 2
        for v in range(n):
            s.vertex[_CHOICE, v] = 0
    for v in range(n):
        if g.vertices[v, KIND] == ANY:
            s.vertex[_CHOICE, v] += 1
            if s.vertex[_CHOICE, v] < g.vertices[v, CHILD_COUNT]:
                return True
            s.vertex[_CHOICE, v] = 0
    return False


# ---- one request, and many ----------------------------------------------------------------------


@njit(**OPTIONS)
def _least_free(p: Profile, shifts: I64, atom: Atom, status: I64) -> None:
    """Write where least is free for an atom that found no room."""
    columns = p.span[1]
    best = np.int64(_FAR)
    needed = atom.least * atom.multiple
    for s in range(atom.shift_first, atom.shift_end):
        t0, t1 = atom.lo + shifts[s], min(atom.hi + shifts[s], columns)
        if atom.early:
            t0, t1 = columns - atom.hi + shifts[s], min(columns - atom.lo + shifts[s], columns)
        if t0 >= t1:
            continue
        for seg in range(_segment_of(p.segments, t0), p.segments.shape[0] - 1):
            if p.segments[seg] < t1 and p.fit[atom.demand, seg] < best:
                best = p.fit[atom.demand, seg]
                status[WHY], status[AT_COLUMN], status[AT_ROW] = NO_FIT, t0, -1
                status[AT_COLUMN] = max(t0, p.segments[seg])
                status[NEEDED], status[FREE] = needed, best
        for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
            row, amount = p.demand_rows[d], p.demand_amounts[d]
            least = max(np.int64(0), _least_free_of(p, row, t0, t1))
            if least // amount < best:
                best = least // amount
                t = t0
                while p.free[row, p.span[0] + t] > least:
                    t += 1
                status[WHY], status[AT_COLUMN], status[AT_ROW] = NO_ROOM, t, row
                status[NEEDED], status[FREE] = needed * amount, least


@njit(**OPTIONS)
def _in_every_lease(p: Profile, atom: Atom, at: int) -> bool:
    """Return whether every lease in the window holds the column where least is free."""
    u = p.span[1] - 1 - at if atom.early else at
    once = atom.shift_end - atom.shift_first == 1
    return bool(once and atom.hi - atom.lease <= u < atom.lo + atom.lease)


@njit(**OPTIONS)
def _why_no_room(p: Profile, shifts: I64, atom: Atom, buf: I64, strategy: int, status: I64) -> None:
    """Write what an atom that found no room lacks: height, a lease's time, or room for its work.

    Where a height fits for a while, saying what is free at the worst step would explain nothing.
    """
    if strategy == PAPER or strategy == HEADROOM_ONLY:  # all others ended with `_holds`
        _fill(p, shifts, atom, buf[_C], atom.lo, atom.hi, atom.most * atom.multiple)
        _holds(atom, buf)
    longest, begin, area = buf[_RUNS, 0], buf[_RUNS, 1], buf[_RUNS, 2]
    _least_free(p, shifts, atom, status)
    if longest == 0 or (longest < atom.lease and _in_every_lease(p, atom, status[AT_COLUMN])):
        return
    if longest < atom.lease:
        edge = begin + longest if begin + longest < atom.hi else begin - 1
        if edge >= atom.lo:  # which row cuts it off, and where
            _least_free(p, shifts, _within(atom, edge, edge + 1), status)
        status[WHY], status[NEEDED], status[FREE] = NO_LEASE, atom.lease, longest
        return
    status[WHY] = NO_AREA if area < atom.work else NO_SHAPE
    status[NEEDED], status[FREE] = atom.work * atom.multiple, area * atom.multiple


@njit(**INLINE)
def _explain(p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, status: I64) -> None:
    """Write why the present attempt failed; the attempt is still applied."""
    v = s.state[_FAILED]
    status[OUTCOME], status[AT_VERTEX], status[WHY] = REFUSED, v, s.state[_KIND]
    status[AT_COLUMN], status[AT_ROW], status[NEEDED], status[FREE] = -1, -1, 0, 0
    if s.state[_KIND] == NO_ROOM and g.vertices[v, KIND] == ATOM:
        atom = _atom_of(g, run, v, s.state[_LO], s.state[_HI])
        _why_no_room(p, g.shifts, atom, s.steps, run.strategy, status)
    if s.state[_KIND] == NO_AVERAGE:
        atom = _atom_of(g, run, v, s.state[_LO], s.state[_HI])
        row, tau = s.state[_AVERAGE], s.state[_TAU]
        status[AT_COLUMN], status[AT_ROW] = tau, row
        unit = _average_unit(q, atom, row) * atom.multiple
        status[NEEDED] = atom.work * unit
        status[FREE] = max(np.int64(0), q.slack[row, tau + q.offset[0]])


@njit(**INLINE)
def _export(g: Graph, run: Run, s: Scratch, out: Output, r: int) -> bool:
    """Append the placed atoms to the output; False when it is too small."""
    n = g.vertices.shape[0]
    used = out.used
    if (
        used[0] + n > out.vertices.shape[0]
        or used[1] + n + 1 > out.first.shape[0]
        or used[2] + s.state[_ROWS] > out.rows.shape[0]
        or used[3] + n > out.choices.shape[0]
    ):
        return False
    extent = out.extents[r]
    extent[VERTEX_FIRST], extent[FIRST_FIRST] = used[0], used[1]
    extent[ROW_FIRST], extent[CHOICE_FIRST] = used[2], used[3]
    out.first[used[1]] = 0
    atoms = rows = choices = 0
    for v in range(n):
        if g.vertices[v, KIND] == ANY and s.vertex[_TAKEN, v] >= 0:
            out.choices[used[3] + choices, 0] = v
            out.choices[used[3] + choices, 1] = s.vertex[_TAKEN, v]
            choices += 1
        if not s.vertex[_DONE, v]:
            continue
        for q in range(s.vertex[_RF, v], s.vertex[_RF, v] + s.vertex[_RC, v]):
            out.rows[used[2] + rows, 0] = s.rows[q, 0] + run.base
            out.rows[used[2] + rows, 1] = s.rows[q, 1] + run.base
            out.rows[used[2] + rows, 2] = s.rows[q, 2]
            rows += 1
        out.vertices[used[0] + atoms] = v
        atoms += 1
        out.first[used[1] + atoms] = rows
    extent[VERTEX_COUNT], extent[ROW_COUNT], extent[CHOICE_COUNT] = atoms, rows, choices
    used[0] += atoms
    used[1] += atoms + 1
    used[2] += rows
    used[3] += choices
    return True


@njit(**INLINE)
def _graph_of(t: Tables, r: int) -> Graph:
    return Graph(
        t.vertices[t.vertex_first[r] : t.vertex_first[r + 1]],
        t.children[t.child_first[r] : t.child_first[r + 1]],
        t.edges[t.edge_first[r] : t.edge_first[r + 1]],
        t.shifts[t.shift_first[r] : t.shift_first[r + 1]],
        t.effort[t.effort_first[r] : t.effort_first[r + 1]],
        t.demand_of[t.demand_first[r] : t.demand_first[r + 1]],
        t.labels[r],
    )


@njit(**OPTIONS)
def _has_largest_gap(g: Graph) -> bool:
    for e in range(g.edges.shape[0]):
        if g.edges[e, 3] >= 0:
            return True
    return False


@njit(**INLINE)
def _try_passes(
    p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, passes: I64, status: I64
) -> bool:
    """Try one choice of options with each strategy in turn; True when placed."""
    for i in range(passes.shape[0]):
        strategy = passes[i]
        if strategy == GAPS:
            if not _has_largest_gap(g):
                return False
            strategy = np.int64(COMPACT)
        now = Run(run.base, run.columns, run.early, strategy, run.lent)
        if _traverse(p, q, g, now, s):
            status[OUTCOME], status[STRATEGY] = PLACED, strategy
            return True
        stopped = s.state[ROWS_FULL] or s.state[NEEDS_OWN]
        if status[OUTCOME] == PENDING and not stopped:
            _explain(p, q, g, now, s, status)
        _undo(p, q, g, now, s, 0)
        if stopped or s.state[_FIRM]:
            return False
    return False


@njit(**INLINE)
def _place_request(
    t: Tables,
    p: Profile,
    q: Averages,
    s: Scratch,
    out: Output,
    r: int,
    passes: I64,
    base: int,
    early: int,
    lent: int,
) -> bool:
    """Place request r or refuse it; False when it takes more than was handed in, nothing done."""
    g = _graph_of(t, r)
    n = g.vertices.shape[0]
    run = Run(base, p.span[1], early, passes[0], lent)
    status = out.status[r]
    status[:] = 0
    status[AT_COLUMN], status[AT_ROW] = -1, -1
    out.extents[r, :] = 0
    if n == 0:  # best effort: nothing to hold
        status[OUTCOME] = PLACED
        return bool(_export(g, run, s, out, r))
    _index_edges(g, run, s)
    for v in range(n):
        s.vertex[_CHOICE, v] = 0
    s.state[_PHASE] = 1
    choices = n > 1
    for _ in range(_RETRIES):
        if _try_passes(p, q, g, run, s, passes, status):
            if not _export(g, run, s, out, r):
                _undo(p, q, g, run, s, 0)
                return False
            return True
        if s.state[ROWS_FULL] or s.state[NEEDS_OWN]:
            return False
        if not choices or not _next_options(g, s, passes[0] == PAPER):
            return True
    return True


@njit(**OPTIONS)
def _bad_rows(g: Graph, v: int, rows: I64, r0: int, r1: int) -> Int:
    """Return what is wrong with the rows of atom v by itself, or 0."""
    row = g.vertices[v]
    work, end, height = np.int64(0), row[START], np.int64(0)
    for r in range(r0, r1):
        start, held = rows[r, 0], rows[r, 2]
        if start < end or rows[r, 1] <= start or rows[r, 1] > row[END]:
            return BAD_ROWS
        if (start == end and held == height) or held % row[MULTIPLE] != 0:
            return BAD_ROWS
        if held < row[MIN_HEIGHT] or held > row[MAX_HEIGHT]:
            return BAD_ROWS
        end, height = rows[r, 1], held
        work += held * (end - start)
    return 0 if work == row[WORK] else BAD_WORK


@njit(**OPTIONS)
def _short_lease(buf: I64, lease: int, rows: I64, r0: int, r1: int) -> bool:
    """Return whether a bundle is released before its lease, first in first out (rdl.md)."""
    at, count = buf[_QI], buf[_QV]
    head, tail = 0, 0
    height, end = np.int64(0), np.int64(-1)
    for r in range(r0, r1 + 1):
        start = rows[r, 0] if r < r1 else end + 1
        held = rows[r, 2] if r < r1 else np.int64(0)
        fall = height if start > end else height - held
        while fall > 0:
            if end - at[head] < lease:
                return True
            part = min(fall, count[head])
            fall -= part
            count[head] -= part
            if count[head] == 0:
                head += 1
        rise = held if start > end else held - height
        if rise > 0:
            at[tail], count[tail] = start, rise
            tail += 1
        if r < r1:
            height, end = held, rows[r, 1]
    return False


@njit(**OPTIONS)
def _over_fit(p: Profile, shifts: I64, atom: Atom, rows: I64, r0: int, r1: int, bad: I64) -> bool:
    """Return whether machines hold fewer bundles than a row somewhere takes, and where."""
    columns = p.span[1]
    for s in range(atom.shift_first, atom.shift_end):
        for r in range(r0, r1):
            t0, t1 = rows[r, 0] + shifts[s], min(rows[r, 1] + shifts[s], columns)
            for seg in range(_segment_of(p.segments, t0), p.segments.shape[0] - 1):
                if p.segments[seg] >= t1:
                    break
                if p.fit[atom.demand, seg] < rows[r, 2]:
                    bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_FIT, max(t0, p.segments[seg]), -1
                    bad[NEEDED], bad[FREE] = rows[r, 2], p.fit[atom.demand, seg]
                    return True
    return False


@njit(**OPTIONS)
def _over_rows(p: Profile, shifts: I64, atom: Atom, rows: I64, r0: int, r1: int, bad: I64) -> bool:
    """Return whether the profile is below zero where the rows, already taken, stand."""
    columns = p.span[1]
    for s in range(atom.shift_first, atom.shift_end):
        for r in range(r0, r1):
            t0, t1 = rows[r, 0] + shifts[s], min(rows[r, 1] + shifts[s], columns)
            if t0 >= t1:
                continue
            for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
                row = p.demand_rows[d]
                if _least_free_of(p, row, t0, t1) >= 0:
                    continue
                t = t0
                while p.free[row, p.span[0] + t] >= 0:
                    t += 1
                needed = rows[r, 2] * p.demand_amounts[d]
                bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_ROOM, t, row
                bad[NEEDED], bad[FREE] = needed, p.free[row, p.span[0] + t] + needed
                return True
    return False


@njit(**OPTIONS)
def _over_average(
    q: Averages, shifts: I64, atom: Atom, rows: I64, r0: int, r1: int, bad: I64
) -> bool:
    """Return whether an average is below zero in a window that the rows, already taken, touch."""
    offset = q.offset[0]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row = q.rows[j]
        for s in range(atom.shift_first, atom.shift_end):
            low = max(rows[r0, 0] + shifts[s] - q.windows[row] + 1, -offset) + offset
            high = min(rows[r1 - 1, 1] + shifts[s], q.offset[1]) + offset
            for tau in range(low, high):
                if q.slack[row, tau] < 0:
                    bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_AVERAGE, tau - offset, row
                    bad[NEEDED], bad[FREE] = -q.slack[row, tau], 0
                    return True
    return False


@njit(**OPTIONS)
def _recheck_request(
    p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, out: Output, r: int, bad: I64
) -> int:
    """Take the rows of request r atom by atom; return how many atoms were taken.

    Stops after the first atom that something is wrong with: `bad` says what.
    """
    extent = out.extents[r]
    first = out.first[extent[FIRST_FIRST] : extent[FIRST_FIRST] + extent[VERTEX_COUNT] + 1]
    rows = s.rows
    for i in range(extent[VERTEX_COUNT]):
        v = out.vertices[extent[VERTEX_FIRST] + i]
        r0, r1 = extent[ROW_FIRST] + first[i], extent[ROW_FIRST] + first[i + 1]
        bad[AT_VERTEX] = v
        bad[WHY] = _bad_rows(g, v, out.rows, r0, r1)
        if bad[WHY] == 0 and _short_lease(s.steps, g.vertices[v, LEASE], out.rows, r0, r1):
            bad[WHY] = BAD_LEASE
        if bad[WHY] != 0:
            return i
        for k in range(r1 - r0):
            rows[k, 0], rows[k, 1] = out.rows[r0 + k, 0] - run.base, out.rows[r0 + k, 1] - run.base
            rows[k, 2] = out.rows[r0 + k, 2]
        atom = _atom_of(g, run, v, 0, 0)
        if _over_fit(p, g.shifts, atom, rows, 0, r1 - r0, bad):
            return i
        _move_atom(p, q, g.shifts, atom, rows, 0, r1 - r0, 1)
        if _over_rows(p, g.shifts, atom, rows, 0, r1 - r0, bad):
            return i + 1
        if _over_average(q, g.shifts, atom, rows, 0, r1 - r0, bad):
            return i + 1
    return int(extent[VERTEX_COUNT])


@njit(**OPTIONS)
def _give_back(
    p: Profile, q: Averages, g: Graph, run: Run, s: Scratch, out: Output, r: int, atoms: int
) -> None:
    extent = out.extents[r]
    first = out.first[extent[FIRST_FIRST] : extent[FIRST_FIRST] + extent[VERTEX_COUNT] + 1]
    for i in range(atoms):
        r0, r1 = extent[ROW_FIRST] + first[i], extent[ROW_FIRST] + first[i + 1]
        for k in range(r1 - r0):
            s.rows[k, 0] = out.rows[r0 + k, 0] - run.base
            s.rows[k, 1] = out.rows[r0 + k, 1] - run.base
            s.rows[k, 2] = out.rows[r0 + k, 2]
        atom = _atom_of(g, run, out.vertices[extent[VERTEX_FIRST] + i], 0, 0)
        _move_atom(p, q, g.shifts, atom, s.rows, 0, r1 - r0, -1)


@njit(**OPTIONS)
def recheck(
    t: Tables,
    p: Profile,
    q: Averages,
    s: Scratch,
    out: Output,
    order: I64,
    base: int,
    verdicts: I64,
) -> int:
    """Commit what was placed to another profile, each request wholly or not at all.

    Re-checks windows, heights, work and leases of every atom, fit caps, capacity and averages
    where its rows stand; what is negative elsewhere refuses nothing. `verdicts` gets a status row
    a request: PLACED when committed, REFUSED with what was wrong. Returns how many were committed.
    """
    committed = 0
    for i in range(order.shape[0]):
        r = order[i]
        bad = verdicts[r]
        bad[:] = 0
        bad[AT_COLUMN], bad[AT_ROW] = -1, -1
        if out.status[r, OUTCOME] != PLACED:
            continue
        g = _graph_of(t, r)
        run = Run(base, p.span[1], 0, 0, 0)
        taken = _recheck_request(p, q, g, run, s, out, r, bad)
        if bad[WHY] == 0:
            bad[OUTCOME] = PLACED
            committed += 1
        else:
            bad[OUTCOME] = REFUSED
            _give_back(p, q, g, run, s, out, r, taken)
    return committed


@njit(**OPTIONS)
def place(
    t: Tables,
    p: Profile,
    q: Averages,
    s: Scratch,
    out: Output,
    order: I64,
    begin: int,
    end: int,
    passes: I64,
    base: int,
    early: int,
    lent: int,
) -> Int:
    """Place requests `order[begin:end]` one after the other on `p.free`, which keeps them.

    `passes` are the strategies tried on each; `base` is the step of column 0. Returns the
    position reached: less than `end` when scratch or output must grow first. On a profile that
    is `lent`, a single atom is placed and nothing written; where its averages need writing,
    `NEEDS_OWN` is set and nothing done.
    """
    t = Tables(
        _borrowed(t.vertices),
        _borrowed(t.children),
        _borrowed(t.edges),
        _borrowed(t.shifts),
        _borrowed(t.effort),
        _borrowed(t.vertex_first),
        _borrowed(t.child_first),
        _borrowed(t.edge_first),
        _borrowed(t.shift_first),
        _borrowed(t.effort_first),
        _borrowed(t.demand_of),
        _borrowed(t.demand_first),
        _borrowed(t.labels),
    )
    p = Profile(
        _borrowed(p.free),
        _borrowed(p.span),
        _borrowed(p.segments),
        _borrowed(p.demand_first),
        _borrowed(p.demand_rows),
        _borrowed(p.demand_amounts),
        _borrowed(p.fit),
        _borrowed(p.low),
    )
    q = Averages(
        _borrowed(q.windows),
        _borrowed(q.slack),
        _borrowed(q.first),
        _borrowed(q.rows),
        _borrowed(q.amounts),
        _borrowed(q.offset),
        _borrowed(q.work),
        _borrowed(q.low),
    )
    s = Scratch(
        _borrowed(s.steps),
        _borrowed(s.vertex),
        _borrowed(s.edge),
        _borrowed(s.effort),
        _borrowed(s.rows),
        _borrowed(s.state),
    )
    out = Output(
        _borrowed(out.vertices),
        _borrowed(out.first),
        _borrowed(out.rows),
        _borrowed(out.choices),
        _borrowed(out.extents),
        _borrowed(out.status),
        _borrowed(out.used),
    )
    for i in range(begin, end):
        if not _place_request(t, p, q, s, out, order[i], passes, base, early, lent):
            return i
    return end


# ---- one atom alone -----------------------------------------------------------------------------


ALONE_CELLS: Final = STATUS_COLUMNS + 5


class Lot(NamedTuple):
    """One atom, once and on any machine, as it is asked for; all steps are those of the Plan.

    Attributes
    ----------
    vertices
        int64[1, COLUMNS]: the only vertex of its graph.
    takes
        int64[4 + 2 n + 2 m]: 0, n, 0, m; n rows of `free` and what a bundle takes from each; m
        averages and what a bundle-step counts against each.
    fit
        int64[1, segment]: most bundles the machines hold.
    passes
        Strategies, tried one after the other.
    """

    vertices: I64
    takes: I64
    fit: I64
    passes: I64


class Ground(NamedTuple):
    """What a view lends, from step `first` on.

    Attributes
    ----------
    free, low, slack, slack_low
        As in `planner.view.Lent`.
    windows
        int64[average], in steps.
    segments
        int64[s + 1]: steps at which machines come or go.
    """

    free: I64
    low: I64
    slack: I64
    slack_low: I64
    windows: I64
    segments: I64


@njit(**OPTIONS)
def _profile_of(lot: Lot, ground: Ground, span: I64, base: int) -> Profile:
    """Return the profile whose column 0 is step `base`, at `span`."""
    takes, rows = _borrowed(lot.takes), lot.takes[1]
    segments = _borrowed(ground.segments)
    if segments.shape[0] > 2:  # of a single segment nobody asks where it begins
        segments = segments - base
    return Profile(
        _borrowed(ground.free),
        span,
        segments,
        takes[0:2],
        takes[4 : 4 + rows],
        takes[4 + rows : 4 + 2 * rows],
        _borrowed(lot.fit),
        _borrowed(ground.low),
    )


@njit(**OPTIONS)
def _averages_of(lot: Lot, ground: Ground, offset: I64, work: I64) -> Averages:
    takes = _borrowed(lot.takes)
    begin, end = 4 + 2 * takes[1], takes.shape[0]
    middle = (begin + end) // 2
    return Averages(
        _borrowed(ground.windows),
        _borrowed(ground.slack),
        takes[2:4],
        takes[begin:middle],
        takes[middle:end],
        offset,
        work,
        _borrowed(ground.slack_low),
    )


@njit(**OPTIONS)
def _rows_alone(
    p: Profile, shifts: I64, atom: Atom, passes: I64, buf: I64, rows: I64, state: I64
) -> Int:
    """Place an atom by the first strategy that can; the number of rows, or 0 and why not."""
    status = state[:STATUS_COLUMNS]
    for i in range(passes.shape[0]):
        if passes[i] == GAPS:
            break
        ok, begin, end, runs = _shape(p, shifts, atom, buf, passes[i], atom.lo)
        if ok:
            if runs == 0:
                begin, end = _trimmed(buf[_X], begin, end)
            return _emit_shape(atom, buf, begin, end, runs, p.span[1], rows, 0)
        status[WHY], status[STRATEGY] = NO_ROOM, passes[i]
        if passes[i] != HEADROOM_ONLY and passes[i] != PAPER:
            break  # no other finds a place either
    _why_no_room(p, shifts, atom, buf, status[STRATEGY], status)
    return 0


@njit(**OPTIONS)
def place_alone(
    lot: Lot,
    ground: Ground,
    steps: I64,
    rows: I64,
    state: I64,
    first: int,
    longest: int,
    early: int,
) -> Int:
    """Place one atom on arrays that are lent; return its number of rows, 0 if there is no place.

    Then `state` begins with a status row. -1 where it cannot be told without writing: averages
    that the whole of the work might break. `first` is the step of column 0 of what is lent,
    `longest` the place of that step among the starts of averages; `steps` and `rows` are those of
    a `Scratch`, `state` has `ALONE_CELLS`.
    """
    row = lot.vertices[0]
    last = first + ground.free.shape[1]
    base = min(max(first, row[START]), last - 1)
    columns = min(last, max(base + 1, row[END])) - base
    state[:] = 0
    state[OUTCOME], state[WHY], state[AT_COLUMN], state[AT_ROW] = REFUSED, NO_WINDOW, -1, -1
    span, offset = state[STATUS_COLUMNS : STATUS_COLUMNS + 2], state[STATUS_COLUMNS + 2 :]
    shifts = offset[2:]
    span[0], span[1] = base - first, columns
    offset[0], offset[1], shifts[0] = longest + base - first, columns, 0
    span, offset, shifts = _borrowed(span), _borrowed(offset), _borrowed(shifts)
    p = _profile_of(lot, ground, span, base)
    buf, rows = _borrowed(steps), _borrowed(rows)
    q = _averages_of(lot, ground, offset, buf)
    lo, hi = row[START] - base, min(columns, row[END] - base)
    if early:
        lo, hi = columns - hi, columns - max(lo, 0)
    k = row[MULTIPLE]
    least, most, work = (row[MIN_HEIGHT] + k - 1) // k, row[MAX_HEIGHT] // k, row[WORK] // k
    atom = Atom(least, most, row[LEASE], work, k, 0, 0, 1, early, max(0, lo), hi)
    if atom.hi - atom.lo < row[SHORTEST]:
        return 0
    if q.rows.shape[0] > 0 and not _average_free(q, shifts, atom):
        return -1
    count = _rows_alone(p, shifts, atom, lot.passes, buf, rows, state)
    for r in range(count):
        rows[r, 0] += base
        rows[r, 1] += base
    return count
