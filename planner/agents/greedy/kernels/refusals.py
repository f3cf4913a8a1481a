"""Reasons why an atom or a request was not placed."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import (
    I64,
    AtomToPlace,
    Averages,
    GraphSlices,
    Profile,
    Scratch,
    Traversal,
    within,
)
from planner.agents.greedy.kernels.averages import tell_average
from planner.agents.greedy.kernels.codes import (
    AT_COLUMN,
    AT_ROW,
    AT_VERTEX,
    FREE,
    HEADROOM_ONLY,
    NEEDED,
    NO_AREA,
    NO_AVERAGE,
    NO_FIT,
    NO_LEASE,
    NO_ROOM,
    NO_SHAPE,
    OUTCOME,
    PAPER,
    REFUSED,
    WHY,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.free import fill, holds_work, least_free_of, segment_of
from planner.agents.greedy.kernels.graph import atom_of
from planner.agents.greedy.kernels.scratch import (
    AVERAGE,
    AVERAGE_FROM,
    FAILED,
    FAILED_FROM,
    FAILED_TO,
    FAILED_WHY,
    FAR,
    MAY_HOLD,
    NOTES,
)
from rdl.work_graph import ATOM, KIND


@kernel
def _least_free(p: Profile, shifts: I64, atom: AtomToPlace, status: I64) -> None:
    """Write the position of the least free capacity for an atom without enough capacity."""
    columns = p.span[1]
    best = np.int64(FAR)
    needed = atom.least * atom.multiple
    for s in range(atom.shift_first, atom.shift_end):
        t0, t1 = atom.lo + shifts[s], min(atom.hi + shifts[s], columns)
        if atom.early:
            t0, t1 = columns - atom.hi + shifts[s], min(columns - atom.lo + shifts[s], columns)
        if t0 >= t1:
            continue
        for seg in range(segment_of(p.segments, t0), p.segments.shape[0] - 1):
            if p.segments[seg] < t1 and p.fit[atom.demand, seg] < best:
                best = p.fit[atom.demand, seg]
                status[WHY], status[AT_COLUMN], status[AT_ROW] = NO_FIT, t0, -1
                status[AT_COLUMN] = max(t0, p.segments[seg])
                status[NEEDED], status[FREE] = needed, best
        for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
            row, amount = p.demand_rows[d], p.demand_amounts[d]
            least = max(np.int64(0), least_free_of(p, row, t0, t1))
            if least // amount < best:
                best = least // amount
                t = t0
                while p.free[row, p.span[0] + t] > least:
                    t += 1
                status[WHY], status[AT_COLUMN], status[AT_ROW] = NO_ROOM, t, row
                status[NEEDED], status[FREE] = needed * amount, least


@kernel
def _in_every_lease(p: Profile, atom: AtomToPlace, at: int) -> bool:
    """Return whether every lease in the window covers column `at`, where capacity is least."""
    u = p.span[1] - 1 - at if atom.early else at
    once = atom.shift_end - atom.shift_first == 1
    return bool(once and atom.hi - atom.lease <= u < atom.lo + atom.lease)


@kernel
def why_no_room(
    p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, strategy: int, status: I64
) -> None:
    """Write the shortage of an unplaced atom: height, the time of a lease, or capacity for its
    work.

    If its height fits for some time, the free capacity at the worst step would explain nothing.
    """
    if strategy == PAPER or strategy == HEADROOM_ONLY:  # all other strategies end with `holds_work`
        fill(p, shifts, atom, buf[MAY_HOLD], atom.lo, atom.hi, atom.most * atom.multiple)
        holds_work(atom, buf)
    longest, begin, area = buf[NOTES, 0], buf[NOTES, 1], buf[NOTES, 2]
    _least_free(p, shifts, atom, status)
    if longest == 0 or (longest < atom.lease and _in_every_lease(p, atom, status[AT_COLUMN])):
        return
    if longest < atom.lease:
        edge = begin + longest if begin + longest < atom.hi else begin - 1
        if edge >= atom.lo:  # which row limits it, and where
            _least_free(p, shifts, within(atom, edge, edge + 1), status)
        status[WHY], status[NEEDED], status[FREE] = NO_LEASE, atom.lease, longest
        return
    status[WHY] = NO_AREA if area < atom.work else NO_SHAPE
    status[NEEDED], status[FREE] = atom.work * atom.multiple, area * atom.multiple


@inline
def explain(
    p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch, status: I64
) -> None:
    """Write why the current attempt failed; its placements are still applied."""
    v = s.state[FAILED]
    status[OUTCOME], status[AT_VERTEX], status[WHY] = REFUSED, v, s.state[FAILED_WHY]
    status[AT_COLUMN], status[AT_ROW], status[NEEDED], status[FREE] = -1, -1, 0, 0
    if s.state[FAILED_WHY] == NO_ROOM and g.vertices[v, KIND] == ATOM:
        atom = atom_of(g, run, v, s.state[FAILED_FROM], s.state[FAILED_TO])
        why_no_room(p, g.shifts, atom, s.steps, run.strategy, status)
    if s.state[FAILED_WHY] == NO_AVERAGE:
        atom = atom_of(g, run, v, s.state[FAILED_FROM], s.state[FAILED_TO])
        tell_average(q, atom, s.state[AVERAGE], s.state[AVERAGE_FROM], status)
