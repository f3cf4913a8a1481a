"""Compiled core/elastic allocation: who is in service and what each is granted.

Identical components are counted, never listed; one pass over those in service costs a few
microseconds for a thousand of them. Kernels are compiled without reference counting
(`_nrt=False`), which would take most of their time; they therefore allocate nothing.
"""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.compiled import Family

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# Rules and sizes, as in `ordering`.
STATIC, SRPT, HRRN, HRRN_PRINTED, DRF = 0, 1, 2, 3, 4
COMPONENTS, COMPONENTS_LEFT, AREA, AREA_LEFT = 1, 2, 3, 4
# Allocations.
FLEXIBLE, GROW_ONLY, MALLEABLE = 0, 1, 2
# Lines, and their places in `length`.
WAITING, URGENT, SERVING = 0, 1, 2


class Rows(NamedTuple):
    """One row a request; arrays of shape (rows,), (rows, L), (rows, G) or (rows, G, L)."""

    core: Longs
    want: Longs
    part: Longs
    part_count: Longs
    granted: Longs
    before: Longs
    rank: Floats
    key: Floats
    number: Longs
    submitted: Floats
    run: Floats
    left: Floats
    since: Floats
    speed: Floats
    tenant: Longs
    core_count: Floats
    all_count: Floats
    all_area: Floats
    factor: Floats
    part_area: Floats
    started: NDArray[np.bool_]


class Pool(NamedTuple):
    """What there is, what is promised, and the three lines (rows by place)."""

    total: Longs
    cores: Longs
    wanted: Longs
    given: Longs
    held: Longs
    share: Floats
    lines: Longs
    length: Longs
    changed: Longs


class Rules(NamedTuple):
    """How rows are ordered and granted."""

    allocation: int
    rule: int
    size: int
    backfill: bool
    preemptive: bool


_FAMILY = Family(_nrt=False)
_inner = _FAMILY.like(no_cpython_wrapper=True)  # only kernels call it
_entry = _FAMILY.kernel


@_inner
def size_factor(rows: Rows, size: int, row: int) -> float:
    """What multiplies the run time of a row (D5.2, table 10.3a)."""
    if size == COMPONENTS:
        return rows.all_count[row]
    if size == AREA:
        return rows.all_area[row]
    if size == COMPONENTS_LEFT:
        left = rows.all_count[row]
        if rows.started[row]:
            left -= rows.core_count[row]
            for part in range(rows.part_count.shape[1]):
                left -= rows.granted[row, part]
        return left if left > 0 else rows.all_count[row]
    if size == AREA_LEFT:
        area = rows.all_area[row]
        if rows.started[row]:
            area = 0.0
            for part in range(rows.part_count.shape[1]):
                rest = rows.part_count[row, part] - rows.granted[row, part]
                area += rest * rows.part_area[row, part]
        return area if area > 0 else rows.all_area[row]
    return 1.0


@_inner
def refresh_key(pool: Pool, rows: Rows, rules: Rules, row: int, now: float) -> None:
    """Bring a key that changes with time, grants or shares up to date."""
    if rules.rule == SRPT:
        left = rows.left[row] - rows.speed[row] * (now - rows.since[row])
        rows.key[row] = max(left, 0.0) * size_factor(rows, rules.size, row)
    elif rules.rule == HRRN or rules.rule == HRRN_PRINTED:
        ratio = 1.0 + max(now - rows.submitted[row], 0.0) / rows.run[row]
        factor = rows.factor[row]
        rows.key[row] = ratio * factor if rules.rule == HRRN_PRINTED else -ratio / factor
    elif rules.rule == DRF:
        rows.key[row] = pool.share[rows.tenant[row]]


@_inner
def goes_before(rows: Rows, one: int, other: int) -> bool:
    """Whether a row comes before another: rank, key, number."""
    if rows.rank[one] != rows.rank[other]:
        return rows.rank[one] < rows.rank[other]
    if rows.key[one] != rows.key[other]:
        return rows.key[one] < rows.key[other]
    return rows.number[one] < rows.number[other]


@_inner
def insert_sorted(pool: Pool, rows: Rows, line: int, row: int) -> None:
    """Put a row into a line by its key."""
    low, high = 0, pool.length[line]
    while low < high:
        middle = (low + high) // 2
        if goes_before(rows, row, pool.lines[line, middle]):
            high = middle
        else:
            low = middle + 1
    for place in range(pool.length[line], low, -1):
        pool.lines[line, place] = pool.lines[line, place - 1]
    pool.lines[line, low] = row
    pool.length[line] += 1


@_inner
def append(pool: Pool, line: int, row: int) -> None:
    """Put a row at the end of a line."""
    pool.lines[line, pool.length[line]] = row
    pool.length[line] += 1


@_inner
def take_place(pool: Pool, line: int, place: int) -> int:
    """Take the row at a place out of a line."""
    row = pool.lines[line, place]
    for later in range(place, pool.length[line] - 1):
        pool.lines[line, later] = pool.lines[line, later + 1]
    pool.length[line] -= 1
    return row


@_inner
def find_place(pool: Pool, line: int, row: int) -> int:
    """Place of a row in a line, or -1."""
    for place in range(pool.length[line]):
        if pool.lines[line, place] == row:
            return place
    return -1


@_inner
def sort_line(pool: Pool, rows: Rows, rules: Rules, line: int, now: float) -> None:
    """Order a line by its keys as they are now; it is nearly in order already."""
    for place in range(pool.length[line]):
        row = pool.lines[line, place]
        refresh_key(pool, rows, rules, row, now)
        hole = place
        while hole > 0 and goes_before(rows, row, pool.lines[line, hole - 1]):
            pool.lines[line, hole] = pool.lines[line, hole - 1]
            hole -= 1
        pool.lines[line, hole] = row


@_inner
def core_fits(pool: Pool, rows: Rows, row: int, keep_grants: bool) -> bool:
    """Whether the core of a row fits beside the cores (and grants) of those in service."""
    for kind in range(pool.total.size):
        if rows.core[row, kind] > 0:
            room = pool.total[kind] - pool.cores[kind]
            if keep_grants:
                room -= pool.given[kind]
            if rows.core[row, kind] > room:
                return False
    return True


@_inner
def is_saturated(pool: Pool, rows: Rows, row: int) -> bool:
    """Whether those in service could use all of something that the core of a row asks for."""
    for kind in range(pool.total.size):
        if rows.core[row, kind] > 0 and pool.wanted[kind] >= pool.total[kind]:
            return True
    return False


@_inner
def admit(pool: Pool, rows: Rows, rules: Rules, row: int) -> None:
    """Put a row into service with its core."""
    for kind in range(pool.total.size):
        pool.cores[kind] += rows.core[row, kind]
        pool.wanted[kind] += rows.want[row, kind]
    rows.started[row] = True
    if rules.preemptive:
        insert_sorted(pool, rows, SERVING, row)
    else:
        append(pool, SERVING, row)


@_inner
def grant_more(pool: Pool, rows: Rows, row: int) -> None:
    """Grant as many elastic components as fit, in file order, skipping those that do not."""
    for part in range(rows.part_count.shape[1]):
        more = rows.part_count[row, part] - rows.granted[row, part]
        if more <= 0:
            continue
        for kind in range(pool.total.size):
            each = rows.part[row, part, kind]
            if each > 0:
                room = pool.total[kind] - pool.cores[kind] - pool.given[kind]
                more = min(more, room // each) if room > 0 else 0
        if more > 0:
            rows.granted[row, part] += more
            for kind in range(pool.total.size):
                pool.given[kind] += more * rows.part[row, part, kind]


@_inner
def shrink_to_fit(pool: Pool, rows: Rows) -> None:
    """Take back grants from the end of the line until cores and grants fit, or none is left."""
    for place in range(pool.length[SERVING] - 1, -1, -1):
        row = pool.lines[SERVING, place]
        for part in range(rows.part_count.shape[1] - 1, -1, -1):
            fewer = 0
            for kind in range(pool.total.size):
                each = rows.part[row, part, kind]
                over = pool.cores[kind] + pool.given[kind] - pool.total[kind]
                if each > 0 and over > 0:
                    fewer = max(fewer, (over + each - 1) // each)
            fewer = min(fewer, rows.granted[row, part])
            rows.granted[row, part] -= fewer
            for kind in range(pool.total.size):
                pool.given[kind] -= fewer * rows.part[row, part, kind]


@_inner
def cascade(pool: Pool, rows: Rows, rules: Rules) -> None:
    """Grant elastic components in the order of service; cores have theirs already."""
    if rules.allocation == FLEXIBLE:
        for kind in range(pool.total.size):
            pool.given[kind] = 0
        for place in range(pool.length[SERVING]):
            for part in range(rows.part_count.shape[1]):
                rows.granted[pool.lines[SERVING, place], part] = 0
    else:
        shrink_to_fit(pool, rows)
    for place in range(pool.length[SERVING]):
        grant_more(pool, rows, pool.lines[SERVING, place])


@_inner
def try_admit(pool: Pool, rows: Rows, rules: Rules, row: int) -> bool:
    """Whether a row may enter service now."""
    if rules.allocation == MALLEABLE:
        return core_fits(pool, rows, row, True)
    if is_saturated(pool, rows, row):
        return False
    return core_fits(pool, rows, row, rules.allocation == GROW_ONLY)


@_inner
def enter(pool: Pool, rows: Rows, rules: Rules, row: int) -> None:
    """Admit a row; a malleable one takes all it can at once."""
    admit(pool, rows, rules, row)
    if rules.allocation == MALLEABLE:
        grant_more(pool, rows, row)


@_inner
def admit_in_line(pool: Pool, rows: Rows, rules: Rules) -> None:
    """Admit from the sorted waiting line: heads while they fit, or with backfill all that fit."""
    kept = 0
    count = pool.length[WAITING]
    looked = 0
    while looked < count:
        row = pool.lines[WAITING, looked]
        if try_admit(pool, rows, rules, row):
            enter(pool, rows, rules, row)
        elif rules.backfill:
            pool.lines[WAITING, kept] = row
            kept += 1
        else:
            break
        looked += 1
    if looked > kept:
        for place in range(looked, count):
            pool.lines[WAITING, kept + place - looked] = pool.lines[WAITING, place]
        pool.length[WAITING] = kept + count - looked


@_inner
def fill_shares(pool: Pool, rows: Rows) -> None:
    """Dominant share of every tenant, of cores and grants as they are."""
    kinds = pool.total.size
    for tenant in range(pool.share.size):
        pool.share[tenant] = 0.0
        for kind in range(kinds):
            pool.held[tenant, kind] = 0
    for place in range(pool.length[SERVING]):
        row = pool.lines[SERVING, place]
        for kind in range(kinds):
            held = rows.core[row, kind]
            for part in range(rows.part_count.shape[1]):
                held += rows.granted[row, part] * rows.part[row, part, kind]
            pool.held[rows.tenant[row], kind] += held
    for tenant in range(pool.share.size):
        for kind in range(kinds):
            if pool.held[tenant, kind] > 0 and pool.total[kind] > 0:
                share = pool.held[tenant, kind] / pool.total[kind]
                pool.share[tenant] = max(pool.share[tenant], share)


@_inner
def is_full(pool: Pool, rules: Rules) -> bool:
    """Whether those in service could use all of everything, so that nobody may be admitted."""
    if rules.allocation == MALLEABLE:
        return False
    for kind in range(pool.total.size):
        if pool.wanted[kind] < pool.total[kind]:
            return False
    return True


@_inner
def find_best(pool: Pool, rows: Rows, rules: Rules, now: float) -> int:
    """Place of the row that goes first; keys and comparison stand in the loop, which is hot."""
    keys, ranks, numbers = rows.key, rows.rank, rows.number
    submitted, run, factor, tenant = rows.submitted, rows.run, rows.factor, rows.tenant
    line, share = pool.lines[WAITING], pool.share
    best, first = 0, line[0]
    for place in range(pool.length[WAITING]):
        row = line[place]
        if rules.rule == DRF:
            key = share[tenant[row]]
        else:
            ratio = 1.0 + max(now - submitted[row], 0.0) / run[row]
            key = ratio * factor[row] if rules.rule == HRRN_PRINTED else -ratio / factor[row]
        keys[row] = key
        if ranks[row] > ranks[first] or (ranks[row] == ranks[first] and key > keys[first]):
            continue
        if (
            ranks[row] < ranks[first]
            or key < keys[first]
            or (key == keys[first] and numbers[row] < numbers[first])
        ):
            best, first = place, row
    return best


@_inner
def admit_best(pool: Pool, rows: Rows, rules: Rules, now: float) -> None:
    """Admit from a line whose keys move, the best at each time, until it does not fit."""
    while pool.length[WAITING] > 0 and not is_full(pool, rules):
        if rules.rule == DRF:
            fill_shares(pool, rows)
        best = find_best(pool, rows, rules, now)
        row = pool.lines[WAITING, best]
        if not try_admit(pool, rows, rules, row):
            return
        take_place(pool, WAITING, best)
        enter(pool, rows, rules, row)


@_inner
def sort_waiting(pool: Pool, rows: Rows, rules: Rules, now: float) -> None:
    """Order a line whose keys move, by keys as they are now: Shell's sort, which needs no room."""
    count = pool.length[WAITING]
    if rules.rule == DRF:
        fill_shares(pool, rows)
    for place in range(count):
        refresh_key(pool, rows, rules, pool.lines[WAITING, place], now)
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, count):
            row = pool.lines[WAITING, place]
            hole = place
            while hole >= gap and goes_before(rows, row, pool.lines[WAITING, hole - gap]):
                pool.lines[WAITING, hole] = pool.lines[WAITING, hole - gap]
                hole -= gap
            pool.lines[WAITING, hole] = row
        gap //= 3


@_entry
def settle(pool: Pool, rows: Rows, rules: Rules, now: float) -> int:
    """Bring service and grants in line with what there is (Algorithms 1 and 2).

    Returns how many rows changed; they stand in `pool.changed`.
    """
    for place in range(pool.length[SERVING]):
        row = pool.lines[SERVING, place]
        for part in range(rows.part_count.shape[1]):
            rows.before[row, part] = rows.granted[row, part]
    if rules.preemptive and rules.rule == SRPT:
        sort_line(pool, rows, rules, SERVING, now)
    if rules.rule == HRRN or rules.rule == HRRN_PRINTED:
        sort_line(pool, rows, rules, URGENT, now)  # the longer they wait, the more it counts
    if rules.allocation == MALLEABLE:
        cascade(pool, rows, rules)
    while pool.length[URGENT] > 0:
        if not core_fits(pool, rows, pool.lines[URGENT, 0], False):
            break
        admit(pool, rows, rules, take_place(pool, URGENT, 0))
    if pool.length[URGENT] == 0 and pool.length[WAITING] > 0:
        if rules.rule == STATIC or rules.rule == SRPT:
            admit_in_line(pool, rows, rules)
        elif rules.backfill:
            sort_waiting(pool, rows, rules, now)
            admit_in_line(pool, rows, rules)
        else:
            admit_best(pool, rows, rules, now)
    if rules.preemptive and rules.rule == SRPT:
        sort_line(pool, rows, rules, SERVING, now)  # who came in counts as one that runs
    cascade(pool, rows, rules)
    return collect(pool, rows, rules, now)


@_inner
def collect(pool: Pool, rows: Rows, rules: Rules, now: float) -> int:
    """List rows whose grants changed, and keep their progress."""
    changed = 0
    for place in range(pool.length[SERVING]):
        row = pool.lines[SERVING, place]
        differs = rows.speed[row] == 0.0
        granted = 0
        for part in range(rows.part_count.shape[1]):
            granted += rows.granted[row, part]
            differs = differs or rows.granted[row, part] != rows.before[row, part]
        if differs:
            rows.left[row] -= rows.speed[row] * (now - rows.since[row])
            rows.since[row] = now
            rows.speed[row] = (rows.core_count[row] + granted) / rows.all_count[row]
            pool.changed[changed] = row
            changed += 1
    return changed


@_entry
def arrive(pool: Pool, rows: Rows, rules: Rules, row: int, now: float) -> int:
    """Take a new row in: into service if it may preempt, else into a line; then settle."""
    if rules.rule != STATIC:
        refresh_key(pool, rows, rules, row, now)
    before_tail = False
    if rules.preemptive and pool.length[SERVING] > 0:
        if rules.rule == SRPT:
            sort_line(pool, rows, rules, SERVING, now)
        before_tail = goes_before(rows, row, pool.lines[SERVING, pool.length[SERVING] - 1])
    if not before_tail:
        if rules.rule == STATIC or rules.rule == SRPT:
            insert_sorted(pool, rows, WAITING, row)
        else:
            append(pool, WAITING, row)
    elif core_fits(pool, rows, row, False):
        admit(pool, rows, rules, row)
    else:
        insert_sorted(pool, rows, URGENT, row)
    return settle(pool, rows, rules, now)


@_entry
def adopt(pool: Pool, rows: Rows, rules: Rules, row: int, now: float) -> int:
    """Take a row that runs already into service, whether it fits or not; then settle."""
    if rules.rule != STATIC:
        refresh_key(pool, rows, rules, row, now)
    admit(pool, rows, rules, row)
    return settle(pool, rows, rules, now)


@_entry
def requeue(pool: Pool, rows: Rows, rules: Rules, row: int, now: float) -> int:
    """Send a row in service back into the waiting line, nobody passing it; then settle."""
    take_place(pool, SERVING, find_place(pool, SERVING, row))
    for kind in range(pool.total.size):
        pool.cores[kind] -= rows.core[row, kind]
        pool.wanted[kind] -= rows.want[row, kind]
        for part in range(rows.part_count.shape[1]):
            pool.given[kind] -= rows.granted[row, part] * rows.part[row, part, kind]
    for part in range(rows.part_count.shape[1]):
        rows.granted[row, part] = 0
    rows.started[row] = False
    rows.left[row], rows.since[row], rows.speed[row] = rows.run[row], now, 0.0
    if rules.rule != STATIC:
        refresh_key(pool, rows, rules, row, now)
    if rules.rule == STATIC or rules.rule == SRPT:
        insert_sorted(pool, rows, WAITING, row)
    else:
        append(pool, WAITING, row)
    return settle(pool, rows, rules, now)


@_entry
def depart(pool: Pool, rows: Rows, rules: Rules, row: int, now: float) -> int:
    """Take a row out, wherever it is; then settle."""
    for line in range(3):
        place = find_place(pool, line, row)
        if place >= 0:
            take_place(pool, line, place)
            if line == SERVING:
                for kind in range(pool.total.size):
                    pool.cores[kind] -= rows.core[row, kind]
                    pool.wanted[kind] -= rows.want[row, kind]
                    for part in range(rows.part_count.shape[1]):
                        pool.given[kind] -= rows.granted[row, part] * rows.part[row, part, kind]
            break
    for part in range(rows.part_count.shape[1]):
        rows.granted[row, part] = 0
    rows.started[row] = False
    return settle(pool, rows, rules, now)
