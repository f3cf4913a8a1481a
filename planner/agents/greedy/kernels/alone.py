"""Placement of a single atom on arrays shared by a view."""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Averages, Int, Profile
from planner.agents.greedy.kernels.averages import average_free, shape_within, tell_average
from planner.agents.greedy.kernels.codes import (
    AT_COLUMN,
    AT_ROW,
    GAPS,
    HEADROOM_ONLY,
    NO_AVERAGE,
    NO_ROOM,
    NO_WINDOW,
    OUTCOME,
    PAPER,
    REFUSED,
    STATUS_COLUMNS,
    STRATEGY,
    WHY,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.held import emit_shape, trimmed
from planner.agents.greedy.kernels.refusals import why_no_room
from planner.agents.greedy.kernels.scratch import HELD
from planner.agents.greedy.kernels.shapes import find_shape
from planner.kernel_cache import borrowed
from rdl.work_graph import END, LEASE, MAX_HEIGHT, MIN_HEIGHT, MULTIPLE, SHORTEST, START, WORK

ALONE_CELLS: Final = STATUS_COLUMNS + 5


class SingleAtom(NamedTuple):
    """A request of one atom, without recurrence, on any machine; steps are those of the Plan.

    Attributes
    ----------
    vertices
        int64[1, COLUMNS]: the only vertex of its graph.
    takes
        int64[4 + 2 n + 2 m]: 0, n, 0, m; n rows of `free` and the amount per bundle in each; m
        averages and the amount per bundle-step in each.
    fit
        int64[1, segment]: maximum number of bundles that fit on the machines.
    passes
        Strategies, tried in order.
    """

    vertices: I64
    takes: I64
    fit: I64
    passes: I64


class SharedProfile(NamedTuple):
    """The arrays that a view shares, from step `first` on.

    Attributes
    ----------
    free, low, slack, slack_low
        As in `planner.view.ProfileArrays`.
    windows
        int64[average], in steps.
    segments
        int64[s + 1]: steps at which the set of machines changes.
    """

    free: I64
    low: I64
    slack: I64
    slack_low: I64
    windows: I64
    segments: I64


@kernel
def _profile_of(lot: SingleAtom, ground: SharedProfile, span: I64, base: int) -> Profile:
    """Return the profile whose column 0, step `base`, is at `span[0]`."""
    takes, rows = borrowed(lot.takes), lot.takes[1]
    segments = borrowed(ground.segments)
    if segments.shape[0] > 2:  # the start of a single segment is not used
        segments = segments - base
    return Profile(
        borrowed(ground.free),
        span,
        segments,
        takes[0:2],
        takes[4 : 4 + rows],
        takes[4 + rows : 4 + 2 * rows],
        borrowed(lot.fit),
        borrowed(ground.low),
    )


@kernel
def _averages_of(lot: SingleAtom, ground: SharedProfile, offset: I64) -> Averages:
    takes = borrowed(lot.takes)
    begin, end = 4 + 2 * takes[1], takes.shape[0]
    middle = (begin + end) // 2
    return Averages(
        borrowed(ground.windows),
        borrowed(ground.slack),
        takes[2:4],
        takes[begin:middle],
        takes[middle:end],
        offset,
        borrowed(ground.slack_low),
    )


@inline
def _rows_alone(
    p: Profile,
    q: Averages,
    shifts: I64,
    atom: AtomToPlace,
    passes: I64,
    buf: I64,
    rows: I64,
    state: I64,
) -> Int:
    """Place an atom by the first strategy that succeeds; return its number of rows, or 0."""
    status = state[:STATUS_COLUMNS]
    bound = q.rows.shape[0] > 0 and not average_free(q, shifts, atom)
    average, tau = -1, 0
    for i in range(passes.shape[0]):
        if passes[i] == GAPS:
            break
        if bound:
            ok, begin, end, runs, average, tau = shape_within(
                p, q, shifts, atom, buf, passes[i], atom.lo
            )
        else:
            ok, begin, end, runs = find_shape(p, shifts, atom, buf, passes[i], atom.lo)
        if ok:
            if runs == 0:
                begin, end = trimmed(buf[HELD], begin, end)
            return emit_shape(atom, buf, begin, end, runs, p.span[1], rows, 0)
        if i == 0 and average >= 0:
            tell_average(q, atom, average, tau, status)
        status[STRATEGY] = passes[i]
        if average < 0 and passes[i] != HEADROOM_ONLY and passes[i] != PAPER:
            break  # no other strategy finds a place either
    if status[WHY] != NO_AVERAGE:  # report the first failure, as for any request
        status[WHY] = NO_ROOM
        noted = status[STRATEGY] if average < 0 else HEADROOM_ONLY
        why_no_room(p, shifts, atom, buf, noted, status)
    return 0


@kernel
def place_alone(
    lot: SingleAtom,
    ground: SharedProfile,
    steps: I64,
    rows: I64,
    state: I64,
    first: int,
    longest: int,
    early: int,
) -> Int:
    """Place one atom on shared arrays; return its number of rows, 0 if there is no place.

    If 0, `state` begins with a status row; -1 means that `rows` is too small. `first` is the step
    of column 0 of the shared arrays, `longest` the position of that step among the starts of
    averages; `steps` and `rows` are those of a `Scratch`, `state` has `ALONE_CELLS`.
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
    span, offset, shifts = borrowed(span), borrowed(offset), borrowed(shifts)
    p = _profile_of(lot, ground, span, base)
    buf, rows = borrowed(steps), borrowed(rows)
    q = _averages_of(lot, ground, offset)
    lo, hi = row[START] - base, min(columns, row[END] - base)
    if early:
        lo, hi = columns - hi, columns - max(lo, 0)
    k = row[MULTIPLE]
    least, most, work = (row[MIN_HEIGHT] + k - 1) // k, row[MAX_HEIGHT] // k, row[WORK] // k
    atom = AtomToPlace(least, most, row[LEASE], work, k, 0, 0, 1, early, max(0, lo), hi)
    if atom.hi - atom.lo < row[SHORTEST]:
        return 0
    count = _rows_alone(p, q, shifts, atom, lot.passes, buf, rows, state)
    for r in range(count):
        rows[r, 0] += base
        rows[r, 1] += base
    return count
