"""The search for plans: ruin and recreate under annealing.

A move removes some accepted requests from the plan and inserts them, and rejected ones nearby, in
another order, each atom as early or as late as possible; or it pushes them all to one side in their
previous order, which leaves the free capacity in one piece. A worse plan is accepted with a
probability that falls with the loss and rises with the temperature. All plans respect windows,
order and gaps, heights, leases, exact work, rows of the profile and fit caps at any time; window
averages are checked outside.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels import Int, compiled, inlined
from planner.agents.exact.kernels.place import AtomForm, BlockWindow, place, stays, take
from planner.agents.exact.kernels.search_state import (
    ACTIVE,
    BEFORE,
    BEST,
    BOUND,
    FAR,
    FROM,
    KEPT,
    NEAR,
    NOW,
    PLAN,
    TO,
    TOUCHED,
    TRIED,
    ColumnSpan,
    MoveMix,
    SearchState,
    draw,
    draw_below,
)
from planner.agents.exact.problem import Forest, FreeRoom
from planner.kernel_cache import borrowed
from rdl.work_graph import ANY, ATOM, EVERY

_LEAPS: Final = 24  # maximum restarts of a request because of a maximum gap


class Insertion(NamedTuple):
    """How a request is inserted.

    Attributes
    ----------
    late
        Backward in time, each atom as late as possible.
    low
        First try malleable atoms as low as their windows allow.
    jitter
        Fraction of its slack that each atom leaves free at the near end, if that fits.
    stay
        Atoms keep their placements from before the move if those are still free.
    fill
        Malleable atoms fill all free capacity from the near end on.
    """

    late: bool
    low: bool
    jitter: float
    stay: bool = False
    fill: bool = False


@inlined
def _choose(f: Forest, s: SearchState, r: int, first_choice: bool, stay: bool) -> float:
    """Choose an option of each `any` and mark active vertices; return the worth of the choice."""
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
    """Return the earliest start column of `v`, given its placed predecessors."""
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
    """Return the latest end column of `v`, given its placed successors."""
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
    """Update the spans of an atom and of all groups around it."""
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
    """Release all capacity of request `r`."""
    for v in range(f.first[r], f.first[r + 1]):
        if s.pieces[PLAN, v] > 0:
            take(f, room, s, v, -1)
            s.pieces[PLAN, v] = 0
        s.vertex[FROM, v] = FAR
        s.vertex[TO, v] = -FAR


@inlined
def _traverse(f: Forest, room: FreeRoom, s: SearchState, r: int, way: Insertion) -> bool:
    """Place every active atom of a request, forward or backward in time."""
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
    """Find a violated maximum gap and tighten the bound that resolves it; 1 if so, 0 if none."""
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
    """Place an unplaced request; if that fails, change nothing."""
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


# The side to which a move pushes the requests that it inserts.
_ANYWHERE: Final = 0
_EARLY: Final = 1
_LATE: Final = 2

_SHAKE: Final = 60.0  # columns by which the order of a push may differ from the plan's order


@inlined
def _copy(f: Forest, s: SearchState, r: int, source: int, target: int) -> None:
    """Copy a request's placement from one plan to another."""
    for v in range(f.first[r], f.first[r + 1]):
        s.option[target, v] = s.option[source, v]
        s.pieces[target, v] = s.pieces[source, v]
        first = s.first[v]
        for i in range(first, first + s.pieces[source, v]):
            for k in range(3):
                s.rows[target, i, k] = s.rows[source, i, k]
    s.worth[target, r] = s.worth[source, r]
    s.held[target, r] = s.held[source, r]


@inlined
def _adopt(f: Forest, room: FreeRoom, s: SearchState, r: int, source: int) -> None:
    """Copy a request's placement from another plan to the current one, which has none."""
    _copy(f, s, r, source, PLAN)
    low, high = np.int64(FAR), np.int64(-FAR)
    for v in range(f.first[r], f.first[r + 1]):
        if s.pieces[PLAN, v] > 0:
            take(f, room, s, v, 1)
            first = s.first[v]
            last = f.shifts[f.vertices[v, pb.V_SHIFT] + f.vertices[v, pb.V_SHIFTS] - 1]
            low = min(low, s.rows[PLAN, first, 0])
            high = max(high, s.rows[PLAN, first + s.pieces[PLAN, v] - 1, 1] + last)
    s.span[r, 0], s.span[r, 1] = low, high


@inlined
def _drop(f: Forest, room: FreeRoom, s: SearchState, r: int) -> None:
    clear(f, room, s, r)
    s.worth[PLAN, r] = 0.0
    s.held[PLAN, r] = 0


@inlined
def _ruin(f: Forest, room: FreeRoom, s: SearchState, near: ColumnSpan, most: int) -> Int:
    """Remove up to `most` accepted requests that use the columns; return their number."""
    found = s.list[NEAR]
    count = 0
    for r in range(f.value.shape[0]):
        if s.held[PLAN, r] == 1 and s.span[r, 0] < near.end and s.span[r, 1] > near.begin:
            found[count] = r
            count += 1
    taken = min(most, count)
    for i in range(taken):
        j = i + draw_below(s, count - i)
        found[i], found[j] = found[j], found[i]
        r = found[i]
        _copy(f, s, r, PLAN, BEFORE)
        _drop(f, room, s, r)
        s.list[TOUCHED, i] = r
    return taken


@inlined
def _gather(f: Forest, s: SearchState, near: ColumnSpan, taken: int, most: int, chosen: int) -> Int:
    """List requests to insert: the removed ones, and rejected ones with an overlapping window.

    `chosen` (or -1) is a rejected request that must be tried.
    """
    tried = s.list[TRIED]
    for i in range(taken):
        tried[i] = s.list[TOUCHED, i]
    count = taken
    if chosen >= 0:
        tried[count] = chosen
        count += 1
    begin = draw_below(s, f.value.shape[0])
    for k in range(f.value.shape[0]):
        r = (begin + k) % f.value.shape[0]
        if count - taken >= most:
            break
        if s.held[PLAN, r] == 1 or r == chosen:
            continue
        root = f.vertices[f.first[r + 1] - 1]
        if root[pb.V_SOUND] == 0 or root[pb.V_START] >= near.end or root[pb.V_END] <= near.begin:
            continue
        out = False
        for i in range(taken):
            out = out or s.list[TOUCHED, i] == r
        if not out:
            tried[count] = r
            count += 1
    return count


@inlined
def _sort(s: SearchState, count: int) -> None:
    """Sort the requests to insert by their keys."""
    tried, key = s.list[TRIED], s.key
    for i in range(1, count):
        r, k = tried[i], key[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            tried[j + 1], key[j + 1] = tried[j], key[j]
            j -= 1
        tried[j + 1], key[j + 1] = r, k


@inlined
def _arrange(f: Forest, s: SearchState, count: int, chosen: int) -> None:
    """Order the requests to insert: at random, by worth, by density or by the tightest window."""
    tried, key = s.list[TRIED], s.key
    kind = draw_below(s, 4)
    first = draw(s) < 0.7  # required requests before the others
    for i in range(count):
        r = tried[i]
        noise = 0.5 + draw(s)
        root = f.vertices[f.first[r + 1] - 1]
        key[i] = draw(s)
        if kind == 1:
            key[i] = -f.value[r] * noise
        elif kind == 2:
            key[i] = -s.density[r] * noise
        elif kind == 3:
            key[i] = (root[pb.V_END] - root[pb.V_START]) * noise
        if f.keep[r] > 0.0 and first:
            key[i] = -FAR * noise
        if r == chosen:
            key[i] = -np.inf
    _sort(s, count)


@inlined
def _arrange_by_side(f: Forest, s: SearchState, count: int, taken: int, late: bool) -> None:
    """Order the removed requests roughly as in the plan, from one side; rejected ones last."""
    tried, key = s.list[TRIED], s.key
    for i in range(count):
        r = tried[i]
        noise = _SHAKE * (draw(s) - 0.5)
        if i >= taken:
            key[i] = FAR + noise
        elif late:
            key[i] = noise - s.span[r, 1]
        else:
            key[i] = noise + s.span[r, 0]
        if f.keep[r] > 0.0:
            key[i] -= FAR
    _sort(s, count)


@inlined
def _recreate(
    f: Forest,
    room: FreeRoom,
    s: SearchState,
    mix: MoveMix,
    count: int,
    taken: int,
    push: int,
) -> Int:
    """Insert the requests that fit; return the number of requests that the move touched.

    `push` is `_EARLY` or `_LATE` to push all of them to one side, else `_ANYWHERE`.
    """
    side = draw(s)
    low_share = 0.0 if push > 0 or draw(s) < 0.5 else 0.5
    jitter_share = 0.0 if push > 0 or draw(s) < 0.6 else 0.3
    touched = taken
    for i in range(count):
        r = s.list[TRIED, i]
        late = side < 0.4 or (side > 0.8 and draw(s) < 0.5)
        if push > 0:
            late = push == _LATE
        jitter = draw(s) if draw(s) < jitter_share else 0.0
        known = False
        for k in range(taken):
            known = known or s.list[TOUCHED, k] == r
        if not known:
            _copy(f, s, r, PLAN, BEFORE)
        low = draw(s) < low_share
        stay = mix.stay > 0.0 and i > 0 and push == _ANYWHERE and draw(s) < mix.stay
        fill = mix.filled > 0.0 and draw(s) < mix.filled
        if not insert(f, room, s, r, Insertion(late, low, jitter, stay, fill)):
            continue
        s.total[NOW] += s.worth[PLAN, r]
        if not known:
            s.list[TOUCHED, touched] = r
            touched += 1
    return touched


@inlined
def _lost(f: Forest, s: SearchState, taken: int) -> bool:
    """Return whether a required request was removed and not inserted again."""
    for i in range(taken):
        r = s.list[TOUCHED, i]
        if f.keep[r] > 0.0 and s.held[PLAN, r] == 0:
            return True
    return False


@compiled
def _keep_best(f: Forest, s: SearchState) -> None:
    for r in range(f.value.shape[0]):
        if s.stale[r] == 1:
            _copy(f, s, r, PLAN, KEPT)
            s.stale[r] = 0
    s.total[BEST] = s.total[NOW]


@inlined
def _move(f: Forest, room: FreeRoom, s: SearchState, mix: MoveMix, temperature: float) -> None:
    """Make one move and accept or undo it."""
    columns, n = s.free.shape[1], f.value.shape[0]
    chosen = -1
    center = draw_below(s, columns)
    if draw(s) < mix.wanted:
        begin = draw_below(s, n)
        for k in range(n):
            r = (begin + k) % n
            root = f.vertices[f.first[r + 1] - 1]
            if s.held[PLAN, r] == 0 and root[pb.V_SOUND] == 1:
                chosen = r
                center = root[pb.V_START] + draw_below(s, max(1, root[pb.V_END] - root[pb.V_START]))
                break
    width = np.int64(draw(s) * draw(s) * mix.width * columns)
    if mix.moment > 0.0 and draw(s) < mix.moment:
        width = np.int64(0)
    near = ColumnSpan(center - width // 2, center + width // 2 + 1)
    before = s.total[NOW]
    taken = _ruin(f, room, s, near, 1 + draw_below(s, mix.most))
    for i in range(taken):
        s.total[NOW] -= s.worth[BEFORE, s.list[TOUCHED, i]]
    count = _gather(f, s, near, taken, mix.tries, chosen)
    push = _ANYWHERE
    if mix.pushed > 0.0 and draw(s) < mix.pushed:
        push = _EARLY if draw(s) < 0.5 else _LATE
        _arrange_by_side(f, s, count, taken, push == _LATE)
    else:
        _arrange(f, s, count, chosen if draw(s) < 0.7 else -1)
    touched = _recreate(f, room, s, mix, count, taken, push)
    change = s.total[NOW] - before
    taken_worse = temperature > 0.0 and draw(s) < np.exp(min(0.0, change) / temperature)
    if change >= 0.0 or (taken_worse and not _lost(f, s, taken)):
        for i in range(touched):
            s.stale[s.list[TOUCHED, i]] = 1
        if s.total[NOW] > s.total[BEST] + 1e-9 * abs(s.total[BEST]):
            _keep_best(f, s)
        return
    for i in range(touched):
        if s.held[PLAN, s.list[TOUCHED, i]] == 1:
            _drop(f, room, s, s.list[TOUCHED, i])
    for i in range(touched):
        _adopt(f, room, s, s.list[TOUCHED, i], BEFORE)
    s.total[NOW] = before


@compiled
def improve(
    f: Forest, room: FreeRoom, s: SearchState, moves: int, mix: MoveMix, temperature: float
) -> None:
    """Make `moves` moves of a mix; store the best plan.

    Parameters
    ----------
    temperature
        Loss that is accepted with a probability of 1 / e, in units of value; 0 accepts none.
    """
    f, room, s = borrowed(f), borrowed(room), borrowed(s)
    total = 0.0
    for r in range(f.value.shape[0]):
        total += s.worth[PLAN, r]
    s.total[NOW] = total  # recompute: sums of many changes drift
    for _ in range(moves):
        _move(f, room, s, mix, temperature)


@compiled
def restore(f: Forest, room: FreeRoom, s: SearchState) -> None:
    """Make the best plan the current one."""
    f, room, s = borrowed(f), borrowed(room), borrowed(s)
    for r in range(f.value.shape[0]):
        if s.held[PLAN, r] == 1:
            _drop(f, room, s, r)
    for r in range(f.value.shape[0]):
        _adopt(f, room, s, r, KEPT)
        s.stale[r] = 0
    s.total[NOW] = s.total[BEST]
