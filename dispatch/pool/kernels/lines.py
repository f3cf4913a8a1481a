"""The queues: inserting and removing rows, and their order by keys and dominant shares."""

# Mypy does not know the types of array elements.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    AREA,
    AREA_LEFT,
    COMPONENTS,
    COMPONENTS_LEFT,
    DRF,
    HRRN,
    HRRN_PRINTED,
    LATER,
    SERVING,
    SRPT,
    STATIC,
    WAITING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import inline, inner


@inline
def size_factor(rows: ClaimArrays, size: int, row: int) -> float:
    """Return the factor of a row's run time in its key (D5.2, table 10.3a)."""
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


@inline
def refresh_key(
    pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float
) -> None:
    """Update a key that changes with time, grants or shares."""
    if rules.rule == SRPT:
        left = rows.left[row] - rows.speed[row] * (now - rows.since[row])
        rows.key[row] = max(left, 0.0) * size_factor(rows, rules.size, row)
    elif rules.rule == HRRN or rules.rule == HRRN_PRINTED:
        ratio = 1.0 + max(now - rows.submitted[row], 0.0) / rows.run[row]
        factor = rows.factor[row]
        rows.key[row] = ratio * factor if rules.rule == HRRN_PRINTED else -ratio / factor
    elif rules.rule == DRF:
        rows.key[row] = pool.share[rows.tenant[row]]


@inner
def goes_before(rows: ClaimArrays, one: int, other: int) -> bool:
    """Whether a row comes before another: rank, key, number."""
    if rows.rank[one] != rows.rank[other]:
        return rows.rank[one] < rows.rank[other]
    if rows.key[one] != rows.key[other]:
        return rows.key[one] < rows.key[other]
    return rows.number[one] < rows.number[other]


@inner
def fill_shares(pool: PoolArrays, rows: ClaimArrays) -> None:
    """Compute the dominant share of every tenant from current cores and grants."""
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


@inner
def insert_sorted(pool: PoolArrays, rows: ClaimArrays, line: int, row: int) -> None:
    """Insert a row into a queue by its key."""
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


@inner
def goes_before_later(rows: ClaimArrays, row: int, other: int) -> bool:
    """Whether a row goes before another in the queue of the later tiers."""
    for index in range(2):
        if rows.tier[row, index] != rows.tier[other, index]:
            return rows.tier[row, index] < rows.tier[other, index]
    if rows.submitted[row] != rows.submitted[other]:
        return rows.submitted[row] < rows.submitted[other]
    return rows.tier[row, 2] < rows.tier[other, 2]


@inner
def insert_later(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Insert a row into the queue of the later tiers."""
    place = pool.length[LATER]
    while place > 0 and goes_before_later(rows, row, pool.lines[LATER, place - 1]):
        pool.lines[LATER, place] = pool.lines[LATER, place - 1]
        place -= 1
    pool.lines[LATER, place] = row
    pool.length[LATER] += 1


@inner
def append(pool: PoolArrays, line: int, row: int) -> None:
    """Append a row to a queue."""
    pool.lines[line, pool.length[line]] = row
    pool.length[line] += 1


@inner
def queue_up(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int) -> None:
    """Add a row to the waiting queue, which is kept sorted only for keys that do not change."""
    if rules.rule == STATIC or rules.rule == SRPT:
        insert_sorted(pool, rows, WAITING, row)
    else:
        append(pool, WAITING, row)


@inner
def take_place(pool: PoolArrays, line: int, place: int) -> int:
    """Remove the row at a place from a queue and return it."""
    row = pool.lines[line, place]
    for later in range(place, pool.length[line] - 1):
        pool.lines[line, later] = pool.lines[line, later + 1]
    pool.length[line] -= 1
    return row


@inner
def find_place(pool: PoolArrays, line: int, row: int) -> int:
    """Return the place of a row in a queue, or -1."""
    for place in range(pool.length[line]):
        if pool.lines[line, place] == row:
            return place
    return -1


@inner
def sort_line(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, line: int, now: float) -> None:
    """Sort a queue by its current keys, by insertion because it is nearly sorted."""
    for place in range(pool.length[line]):
        row = pool.lines[line, place]
        refresh_key(pool, rows, rules, row, now)
        hole = place
        while hole > 0 and goes_before(rows, row, pool.lines[line, hole - 1]):
            pool.lines[line, hole] = pool.lines[line, hole - 1]
            hole -= 1
        pool.lines[line, hole] = row


@inner
def sort_waiting(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> None:
    """Sort the waiting queue by its current keys with Shell's sort, in place."""
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
