"""Entry points from Python: events of one row, each followed by `settle`."""

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
    """Update service and grants to the available capacity (Algorithms 1 and 2).

    Returns how many rows changed; they are listed in `pool.changed`.
    """
    for place in range(pool.length[SERVING]):
        row = pool.lines[SERVING, place]
        for part in range(rows.part_count.shape[1]):
            rows.before[row, part] = rows.granted[row, part]
    if rules.preemptive and rules.rule == SRPT:
        sort_line(pool, rows, rules, SERVING, now)
    if rules.rule == HRRN or rules.rule == HRRN_PRINTED:
        sort_line(pool, rows, rules, URGENT, now)  # the key changes with waiting time
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
        sort_line(pool, rows, rules, SERVING, now)  # a new row is compared with running ones
    cascade(pool, rows, rules)
    return grant_later(pool, rows, collect(pool, rows, rules, now))


@entry
def arrive(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Add a new row: to service if it may preempt, else to a queue; then settle."""
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
    """Add a row that already runs to service, whether it fits or not; then settle."""
    refresh_key(pool, rows, rules, row, now)
    admit(pool, rows, rules, row)
    return settle(pool, rows, rules, now)


@entry
def requeue(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Return a row from service to the waiting queue; then settle."""
    take_place(pool, SERVING, find_place(pool, SERVING, row))
    leave(pool, rows, row)
    rows.left[row], rows.since[row], rows.speed[row] = rows.run[row], now, 0.0
    refresh_key(pool, rows, rules, row, now)
    queue_up(pool, rows, rules, row)
    return settle(pool, rows, rules, now)


@entry
def depart(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float) -> int:
    """Remove a row from its queue; then settle."""
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
    """Add a row without a core to the queue of the later tiers; the next `settle` grants."""
    insert_later(pool, rows, row)


@entry
def withdraw(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Remove a row without a core from that queue."""
    leave_later(pool, rows, row)
