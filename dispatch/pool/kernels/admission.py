"""Admission: which rows may enter service, and how waiting rows are admitted."""

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    DRF,
    GRANTED,
    GROW_ONLY,
    HRRN_PRINTED,
    LATER,
    MALLEABLE,
    SERVING,
    WAITING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import inner
from dispatch.pool.kernels.grants import grant_more
from dispatch.pool.kernels.lines import (
    append,
    find_place,
    insert_later,
    insert_sorted,
    take_place,
)
from dispatch.pool.kernels.order import fill_shares


@inner
def core_fits(pool: PoolArrays, rows: ClaimArrays, row: int, keep_grants: bool) -> bool:
    """Whether the core of a row fits beside the cores (and grants) of those in service."""
    for kind in range(pool.total.size):
        if rows.core[row, kind] > 0:
            room = pool.total[kind] - pool.cores[kind]
            if keep_grants:
                room -= pool.given[kind]
            if rows.core[row, kind] > room:
                return False
    return True


@inner
def is_saturated(pool: PoolArrays, rows: ClaimArrays, row: int) -> bool:
    """Whether those in service could use all of something that the core of a row asks for."""
    for kind in range(pool.total.size):
        if rows.core[row, kind] > 0 and pool.wanted[kind] >= pool.total[kind]:
            return True
    return False


@inner
def admit(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int) -> None:
    """Put a row into service with its core."""
    for kind in range(pool.total.size):
        pool.cores[kind] += rows.core[row, kind]
        pool.wanted[kind] += rows.want[row, kind]
    rows.started[row] = True
    if rows.tier[row, 0] > 0:
        insert_later(pool, rows, row)
    if rules.preemptive:
        insert_sorted(pool, rows, SERVING, row)
    else:
        append(pool, SERVING, row)


@inner
def leave(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Give back the core and the grants of a row that is out of its line."""
    for kind in range(pool.total.size):
        pool.cores[kind] -= rows.core[row, kind]
        pool.wanted[kind] -= rows.want[row, kind]
        for part in range(rows.part_count.shape[1]):
            pool.given[kind] -= rows.granted[row, part] * rows.part[row, part, kind]
    for part in range(rows.part_count.shape[1]):
        rows.granted[row, part] = 0
    rows.started[row] = False
    leave_later(pool, rows, row)


@inner
def leave_later(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
    """Take a row out of the line of the later tiers, if it stands there."""
    if rows.tier[row, 0] > 0:
        place = find_place(pool, LATER, row)
        if place >= 0:
            take_place(pool, LATER, place)
        for part in range(rows.part_count.shape[1]):
            rows.extra[row, GRANTED, part] = 0


@inner
def try_admit(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int) -> bool:
    """Whether a row may enter service now."""
    if rules.allocation == MALLEABLE:
        return core_fits(pool, rows, row, True)
    if is_saturated(pool, rows, row):
        return False
    return core_fits(pool, rows, row, rules.allocation == GROW_ONLY)


@inner
def enter(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int) -> None:
    """Admit a row; a malleable one takes all it can at once."""
    admit(pool, rows, rules, row)
    if rules.allocation == MALLEABLE:
        grant_more(pool, rows, row)


@inner
def admit_in_line(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules) -> None:
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


@inner
def is_full(pool: PoolArrays, rules: PoolRules) -> bool:
    """Whether those in service could use all of everything, so that none may be admitted."""
    if rules.allocation == MALLEABLE:
        return False
    for kind in range(pool.total.size):
        if pool.wanted[kind] < pool.total[kind]:
            return False
    return True


@inner
def find_best(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> int:
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


@inner
def admit_best(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> None:
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
