"""The lines: rows in and out of them, and their order."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    DRF,
    LATER,
    SRPT,
    STATIC,
    WAITING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import inner
from dispatch.pool.kernels.order import fill_shares, goes_before, refresh_key


@inner
def insert_sorted(pool: PoolArrays, rows: ClaimArrays, line: int, row: int) -> None:
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


@inner
def goes_before_later(rows: ClaimArrays, row: int, other: int) -> bool:
    """Whether a row goes before another in the line of the later tiers."""
    for index in range(2):
        if rows.tier[row, index] != rows.tier[other, index]:
            return rows.tier[row, index] < rows.tier[other, index]
    if rows.submitted[row] != rows.submitted[other]:
        return rows.submitted[row] < rows.submitted[other]
    return rows.tier[row, 2] < rows.tier[other, 2]


@inner
def insert_later(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Put a row into the line of the later tiers."""
    place = pool.length[LATER]
    while place > 0 and goes_before_later(rows, row, pool.lines[LATER, place - 1]):
        pool.lines[LATER, place] = pool.lines[LATER, place - 1]
        place -= 1
    pool.lines[LATER, place] = row
    pool.length[LATER] += 1


@inner
def append(pool: PoolArrays, line: int, row: int) -> None:
    """Put a row at the end of a line."""
    pool.lines[line, pool.length[line]] = row
    pool.length[line] += 1


@inner
def queue_up(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int) -> None:
    """Put a row into the waiting line, which is kept in order only where keys stand still."""
    if rules.rule == STATIC or rules.rule == SRPT:
        insert_sorted(pool, rows, WAITING, row)
    else:
        append(pool, WAITING, row)


@inner
def take_place(pool: PoolArrays, line: int, place: int) -> int:
    """Take the row at a place out of a line."""
    row = pool.lines[line, place]
    for later in range(place, pool.length[line] - 1):
        pool.lines[line, later] = pool.lines[line, later + 1]
    pool.length[line] -= 1
    return row


@inner
def find_place(pool: PoolArrays, line: int, row: int) -> int:
    """Place of a row in a line, or -1."""
    for place in range(pool.length[line]):
        if pool.lines[line, place] == row:
            return place
    return -1


@inner
def sort_line(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, line: int, now: float) -> None:
    """Order a line by its keys as they are now; it is nearly in order already."""
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
