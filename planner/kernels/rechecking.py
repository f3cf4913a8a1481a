"""Commit what was placed to another profile, every rule looked at again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.compiled import borrowed
from planner.kernels.arrays import (
    I64,
    Atom,
    Averages,
    Graph,
    Int,
    Output,
    Profile,
    Run,
    Scratch,
    Tables,
)
from planner.kernels.codes import (
    AT_COLUMN,
    AT_ROW,
    AT_VERTEX,
    BAD_LEASE,
    BAD_ROWS,
    BAD_WORK,
    FIRST_FIRST,
    FREE,
    NEEDED,
    NO_AVERAGE,
    NO_FIT,
    NO_ROOM,
    OUTCOME,
    PLACED,
    REFUSED,
    ROW_COUNT,
    ROW_FIRST,
    VERTEX_COUNT,
    VERTEX_FIRST,
    WHY,
)
from planner.kernels.compiled import kernel
from planner.kernels.free import least_free_of, segment_of
from planner.kernels.graph import atom_of, graph_of
from planner.kernels.held import move_atom
from planner.kernels.scratch import QUEUE_COLUMN, QUEUE_VALUE
from rdl.work_graph import END, LEASE, MAX_HEIGHT, MIN_HEIGHT, MULTIPLE, START, WORK


@kernel
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


@kernel
def _short_lease(buf: I64, lease: int, rows: I64, r0: int, r1: int) -> bool:
    """Return whether a bundle is released before its lease, first in first out (rdl.md)."""
    at, count = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
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


@kernel
def _over_fit(p: Profile, shifts: I64, atom: Atom, rows: I64, bad: I64) -> bool:
    """Return whether machines hold fewer bundles than a row somewhere takes, and where."""
    columns = p.span[1]
    for s in range(atom.shift_first, atom.shift_end):
        for r in range(rows.shape[0]):
            t0, t1 = rows[r, 0] + shifts[s], min(rows[r, 1] + shifts[s], columns)
            for seg in range(segment_of(p.segments, t0), p.segments.shape[0] - 1):
                if p.segments[seg] >= t1:
                    break
                if p.fit[atom.demand, seg] < rows[r, 2]:
                    bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_FIT, max(t0, p.segments[seg]), -1
                    bad[NEEDED], bad[FREE] = rows[r, 2], p.fit[atom.demand, seg]
                    return True
    return False


@kernel
def _over_rows(p: Profile, shifts: I64, atom: Atom, rows: I64, bad: I64) -> bool:
    """Return whether the profile is below zero where the rows, already taken, stand."""
    columns = p.span[1]
    for s in range(atom.shift_first, atom.shift_end):
        for r in range(rows.shape[0]):
            t0, t1 = rows[r, 0] + shifts[s], min(rows[r, 1] + shifts[s], columns)
            if t0 >= t1:
                continue
            for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
                row = p.demand_rows[d]
                if least_free_of(p, row, t0, t1) >= 0:
                    continue
                t = t0
                while p.free[row, p.span[0] + t] >= 0:
                    t += 1
                needed = rows[r, 2] * p.demand_amounts[d]
                bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_ROOM, t, row
                bad[NEEDED], bad[FREE] = needed, p.free[row, p.span[0] + t] + needed
                return True
    return False


@kernel
def _over_average(q: Averages, shifts: I64, atom: Atom, rows: I64, bad: I64) -> bool:
    """Return whether an average is below zero in a window that the rows, already taken, touch."""
    offset = q.offset[0]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row = q.rows[j]
        for s in range(atom.shift_first, atom.shift_end):
            low = max(rows[0, 0] + shifts[s] - q.windows[row] + 1, -offset) + offset
            high = min(rows[rows.shape[0] - 1, 1] + shifts[s], q.offset[1]) + offset
            for tau in range(low, high):
                if q.slack[row, tau] < 0:
                    bad[WHY], bad[AT_COLUMN], bad[AT_ROW] = NO_AVERAGE, tau - offset, row
                    bad[NEEDED], bad[FREE] = -q.slack[row, tau], 0
                    return True
    return False


class Answer(NamedTuple):
    """One request as it was answered; its graph as in `Graph`, the rest as in `Output`.

    `base` is the step of column 0 of the profile that it is committed to.
    """

    graph: Graph
    vertices: I64
    first: I64
    rows: I64
    base: int


@kernel
def _answer_of(t: Tables, out: Output, r: int, base: int) -> Answer:
    extent = out.extents[r]
    v, f, at = extent[VERTEX_FIRST], extent[FIRST_FIRST], extent[ROW_FIRST]
    count = extent[VERTEX_COUNT]
    return Answer(
        graph_of(t, r),
        out.vertices[v : v + count],
        out.first[f : f + count + 1],
        out.rows[at : at + extent[ROW_COUNT]],
        base,
    )


@kernel
def _atom_in(answer: Answer, i: int) -> Atom:
    """Return atom i of an answer, whose window does not matter any more."""
    return atom_of(answer.graph, Run(answer.base, 0, 0, 0, 0), answer.vertices[i], 0, 0)


@kernel
def _rows_in(answer: Answer, i: int, rows: I64) -> I64:
    """Write the rows of atom i in columns into `rows`; return as much of it."""
    held = answer.rows[answer.first[i] : answer.first[i + 1]]
    for k in range(held.shape[0]):
        rows[k, 0], rows[k, 1] = held[k, 0] - answer.base, held[k, 1] - answer.base
        rows[k, 2] = held[k, 2]
    return rows[: held.shape[0]]


@kernel
def _recheck_request(p: Profile, q: Averages, s: Scratch, answer: Answer, bad: I64) -> int:
    """Take the rows of a request atom by atom; return how many atoms were taken.

    Stops after the first atom that something is wrong with: `bad` says what.
    """
    g, count = answer.graph, answer.vertices.shape[0]
    for i in range(count):
        v, r0, r1 = answer.vertices[i], answer.first[i], answer.first[i + 1]
        bad[AT_VERTEX] = v
        bad[WHY] = _bad_rows(g, v, answer.rows, r0, r1)
        if bad[WHY] == 0 and _short_lease(s.steps, g.vertices[v, LEASE], answer.rows, r0, r1):
            bad[WHY] = BAD_LEASE
        if bad[WHY] != 0:
            return i
        rows, atom = _rows_in(answer, i, s.rows), _atom_in(answer, i)
        if _over_fit(p, g.shifts, atom, rows, bad):
            return i
        move_atom(p, q, g.shifts, atom, rows, 0, rows.shape[0], 1)
        if _over_rows(p, g.shifts, atom, rows, bad):
            return i + 1
        if _over_average(q, g.shifts, atom, rows, bad):
            return i + 1
    return int(count)


@kernel
def _give_back(p: Profile, q: Averages, s: Scratch, answer: Answer, atoms: int) -> None:
    for i in range(atoms):
        rows, atom = _rows_in(answer, i, s.rows), _atom_in(answer, i)
        move_atom(p, q, answer.graph.shifts, atom, rows, 0, rows.shape[0], -1)


@kernel
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
    t, p, q, s, out = borrowed(t), borrowed(p), borrowed(q), borrowed(s), borrowed(out)
    committed = 0
    for i in range(order.shape[0]):
        r = order[i]
        bad = verdicts[r]
        bad[:] = 0
        bad[AT_COLUMN], bad[AT_ROW] = -1, -1
        if out.status[r, OUTCOME] != PLACED:
            continue
        answer = _answer_of(t, out, r, base)
        taken = _recheck_request(p, q, s, answer, bad)
        if bad[WHY] == 0:
            bad[OUTCOME] = PLACED
            committed += 1
        else:
            bad[OUTCOME] = REFUSED
            _give_back(p, q, s, answer, taken)
    return committed
