"""Where the atoms of one request go in the present plan."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels.arrays import Int
from planner.agents.exact.kernels.compiled import compiled, inlined
from planner.agents.exact.kernels.one_atom import AtomForm, place, stays, take
from planner.agents.exact.kernels.one_block import BlockWindow
from planner.agents.exact.kernels.search_state import (
    ACTIVE,
    BEFORE,
    BOUND,
    FAR,
    FROM,
    PLAN,
    TO,
    SearchState,
    draw,
    draw_below,
)
from planner.agents.exact.problem import Forest, FreeRoom
from rdl.work_graph import ANY, ATOM, EVERY

_LEAPS: Final = 24  # times a request is begun again for a largest gap


class Insertion(NamedTuple):
    """How a request is put in.

    Attributes
    ----------
    late
        Against time, each atom as late as it can go.
    low
        Malleable atoms as low as their windows allow, before anything else is tried.
    jitter
        Part of its slack that each atom leaves free at the near end, where that goes.
    stay
        Atoms keep the places that they had before the move, where those are still free.
    fill
        Malleable atoms fill all that is free from the near end on.
    """

    late: bool
    low: bool
    jitter: float
    stay: bool = False
    fill: bool = False


@inlined
def _choose(f: Forest, s: SearchState, r: int, first_choice: bool, stay: bool) -> float:
    """Take an option of each `any` and mark what is active; return what the choice is worth."""
    worth = f.value[r]
    root = f.first[r + 1] - 1
    for v in range(root, f.first[r] - 1, -1):
        row = f.vertices[v]
        up = row[pb.V_PARENT]
        active = up < 0 or s.vertex[ACTIVE, up] == 1
        if active and up >= 0 and f.vertices[up, pb.V_KIND] == ANY:
            active = f.children[f.vertices[up, pb.V_CHILD] + s.option[PLAN, up]] == v
        s.vertex[ACTIVE, v] = 1 if active else 0
        s.option[PLAN, v] = -1
        if not active or row[pb.V_KIND] != ANY:
            continue
        begin = 0 if first_choice else draw_below(s, row[pb.V_CHILDREN])
        if stay and s.option[BEFORE, v] >= 0:
            begin = s.option[BEFORE, v]
        for i in range(row[pb.V_CHILDREN]):
            option = (begin + i) % row[pb.V_CHILDREN]
            child = f.children[row[pb.V_CHILD] + option]
            if f.vertices[child, pb.V_SOUND] == 1:
                s.option[PLAN, v] = option
                worth -= f.value[r] * f.loss[child]
                break
        if s.option[PLAN, v] < 0:
            return -1.0
    return float(worth)


@inlined
def _earliest(f: Forest, s: SearchState, v: int) -> Int:
    """Return the column before which `v` cannot start, given what is placed before it."""
    lo = max(f.vertices[v, pb.V_START], s.vertex[BOUND, v])
    u = v
    while u >= 0:
        first = f.vertices[u, pb.V_PRED]
        for e in range(first, first + f.vertices[u, pb.V_PREDS]):
            lo = max(lo, s.vertex[TO, f.preds[e, 0]] + f.preds[e, 1])
        u = f.vertices[u, pb.V_PARENT]
    return lo


@inlined
def _latest(f: Forest, s: SearchState, v: int) -> Int:
    """Return the column by which `v` must end, given what is placed after it."""
    hi = min(f.vertices[v, pb.V_END], s.vertex[BOUND, v])
    moved = np.int64(0)
    u = v
    while u >= 0:
        first = f.vertices[u, pb.V_SUCC]
        for i in range(first, first + f.vertices[u, pb.V_SUCCS]):
            e = f.succs[i]
            hi = min(hi, s.vertex[FROM, f.preds[e, 3]] - f.preds[e, 1] - moved)
        u = f.vertices[u, pb.V_PARENT]
        if u >= 0 and f.vertices[u, pb.V_KIND] == EVERY:
            moved += f.vertices[u, pb.V_LAST]
    return hi


@inlined
def _note(f: Forest, s: SearchState, v: int) -> None:
    """Tell every group around an atom what columns it holds."""
    first = s.first[v]
    s.vertex[FROM, v] = s.rows[PLAN, first, 0]
    s.vertex[TO, v] = s.rows[PLAN, first + s.pieces[PLAN, v] - 1, 1]
    u = f.vertices[v, pb.V_PARENT]
    below = v
    while u >= 0:
        last = f.vertices[u, pb.V_LAST] if f.vertices[u, pb.V_KIND] == EVERY else 0
        s.vertex[FROM, u] = min(s.vertex[FROM, u], s.vertex[FROM, below])
        s.vertex[TO, u] = max(s.vertex[TO, u], s.vertex[TO, below] + last)
        below = u
        u = f.vertices[u, pb.V_PARENT]


@inlined
def clear(f: Forest, room: FreeRoom, s: SearchState, r: int) -> None:
    """Give back whatever request `r` holds."""
    for v in range(f.first[r], f.first[r + 1]):
        if s.pieces[PLAN, v] > 0:
            take(f, room, s, v, -1)
            s.pieces[PLAN, v] = 0
        s.vertex[FROM, v] = FAR
        s.vertex[TO, v] = -FAR


@inlined
def _traverse(f: Forest, room: FreeRoom, s: SearchState, r: int, way: Insertion) -> bool:
    """Place every active atom of a request, in time or against it."""
    late = way.late
    begin, end = f.first[r], f.first[r + 1]
    for k in range(begin, end):
        v = f.program[end - 1 - (k - begin)] if late else f.program[k]
        if f.vertices[v, pb.V_KIND] != ATOM or s.vertex[ACTIVE, v] == 0:
            continue
        if late:
            lo, hi = f.vertices[v, pb.V_START], _latest(f, s, v)
        else:
            lo, hi = _earliest(f, s, v), f.vertices[v, pb.V_END]
        if way.stay and stays(f, room, s, v, lo, hi):
            take(f, room, s, v, 1)
            _note(f, s, v)
            continue
        slack = hi - lo - f.vertices[v, pb.V_SHORTEST]
        if slack < 0:
            return False
        move = np.int64(way.jitter * slack)
        near = BlockWindow(lo, hi - move, late) if late else BlockWindow(lo + move, hi, late)
        form = AtomForm(way.low, way.fill)
        ok = place(f, room, s, v, near, form)
        if not ok and (move == 0 or not place(f, room, s, v, BlockWindow(lo, hi, late), form)):
            s.pieces[PLAN, v] = 0
            return False
        take(f, room, s, v, 1)
        _note(f, s, v)
    return True


@compiled
def _widen(f: Forest, s: SearchState, r: int, late: bool) -> Int:
    """Find a largest gap that is broken and move the bound that must give; 1 if so, 0 if none."""
    for v in range(f.first[r], f.first[r + 1]):
        first = f.vertices[v, pb.V_PRED]
        for e in range(first, first + f.vertices[v, pb.V_PREDS]):
            u, most = f.preds[e, 0], f.preds[e, 2]
            if most < 0 or s.vertex[FROM, v] >= FAR or s.vertex[TO, u] <= -FAR:
                continue
            over = s.vertex[FROM, v] - s.vertex[TO, u] - most
            if over <= 0:
                continue
            side = v if late else u
            found = -1
            for a in range(f.first[r], f.first[r + 1]):
                if s.pieces[PLAN, a] == 0:
                    continue
                up = a
                while up >= 0 and up != side:
                    up = f.vertices[up, pb.V_PARENT]
                if up != side:
                    continue
                if found < 0 or (late and s.vertex[FROM, a] < s.vertex[FROM, found]):
                    found = a
                elif not late and s.vertex[TO, a] > s.vertex[TO, found]:
                    found = a
            if late:
                s.vertex[BOUND, found] = s.vertex[TO, found] - over
            else:
                s.vertex[BOUND, found] = s.vertex[FROM, found] + over
            return 1
    return 0


@inlined
def insert(f: Forest, room: FreeRoom, s: SearchState, r: int, way: Insertion) -> bool:
    """Place a request that holds nothing, or leave everything as it was."""
    root = f.first[r + 1] - 1
    if f.vertices[root, pb.V_SOUND] == 0:
        return False
    worth = _choose(f, s, r, draw(s) < 0.7, way.stay)
    if worth < 0.0:
        return False
    for v in range(f.first[r], root + 1):
        s.vertex[BOUND, v] = FAR if way.late else -FAR
        s.vertex[FROM, v] = FAR
        s.vertex[TO, v] = -FAR
    for _ in range(_LEAPS):
        if not _traverse(f, room, s, r, way):
            break
        if _widen(f, s, r, way.late) == 0:
            s.worth[PLAN, r] = worth + f.keep[r]
            s.held[PLAN, r] = 1
            s.span[r, 0], s.span[r, 1] = s.vertex[FROM, root], s.vertex[TO, root]
            return True
        clear(f, room, s, r)
    clear(f, room, s, r)
    return False
