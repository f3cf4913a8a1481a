"""What Python calls: events of one row, and settling after them."""

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    HRRN,
    HRRN_PRINTED,
    MALLEABLE,
    SERVING,
    SRPT,
    STATIC,
    URGENT,
    WAITING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import entry
from dispatch.pool.kernels.lines import (
    find_place,
    goes_before,
    insert_later,
    insert_sorted,
    queue_up,
    refresh_key,
    sort_line,
    sort_waiting,
    take_place,
)
from dispatch.pool.kernels.service import (
    admit,
    admit_best,
    admit_in_line,
    cascade,
    collect,
    core_fits,
    grant_later,
    leave,
    leave_later,
)


@entry
def settle(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> int:
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
        sort_line(pool, rows, rules, SERVING, now)  # a row that came in counts as one that runs
    cascade(pool, rows, rules)
    return grant_later(pool, rows, collect(pool, rows, rules, now))


@entry
def arrive(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Take a new row in: into service if it may preempt, else into a line; then settle."""
    refresh_key(pool, rows, rules, row, now)
    before_tail = False
    if rules.preemptive and pool.length[SERVING] > 0:
        if rules.rule == SRPT:
            sort_line(pool, rows, rules, SERVING, now)
        before_tail = goes_before(rows, row, pool.lines[SERVING, pool.length[SERVING] - 1])
    if not before_tail:
        queue_up(pool, rows, rules, row)
    elif core_fits(pool, rows, row, False):
        admit(pool, rows, rules, row)
    else:
        insert_sorted(pool, rows, URGENT, row)
    return settle(pool, rows, rules, now)


@entry
def adopt(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Take a row that runs already into service, whether it fits or not; then settle."""
    refresh_key(pool, rows, rules, row, now)
    admit(pool, rows, rules, row)
    return settle(pool, rows, rules, now)


@entry
def requeue(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Send a row in service back into the waiting line, which no other passes; then settle."""
    take_place(pool, SERVING, find_place(pool, SERVING, row))
    leave(pool, rows, row)
    rows.left[row], rows.since[row], rows.speed[row] = rows.run[row], now, 0.0
    refresh_key(pool, rows, rules, row, now)
    queue_up(pool, rows, rules, row)
    return settle(pool, rows, rules, now)


@entry
def depart(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Take a row out, wherever it is; then settle."""
    for line in range(3):
        place = find_place(pool, line, row)
        if place >= 0:
            take_place(pool, line, place)
            if line == SERVING:
                leave(pool, rows, row)
            break
    return settle(pool, rows, rules, now)


@entry
def join(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Take a row without a core into the line of the later tiers; what is settled next grants."""
    insert_later(pool, rows, row)


@entry
def withdraw(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Take a row without a core out of that line."""
    leave_later(pool, rows, row)
