"""Service: admission of rows, and grants of elastic components in order of service."""

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    ASKED,
    DRF,
    FLEXIBLE,
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
from dispatch.pool.kernels.compiled import inline, inner
from dispatch.pool.kernels.lines import (
    append,
    fill_shares,
    find_place,
    insert_later,
    insert_sorted,
    take_place,
)


@inline
def grant_more(pool: PoolArrays, rows: ClaimArrays, row: int) -> None:
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


@inner
def shrink_to_fit(pool: PoolArrays, rows: ClaimArrays) -> None:
    """Revoke grants from the end of the queue until cores and grants fit, or none is left."""
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


@inner
def cascade(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules) -> None:
    """Grant elastic components in the order of service; cores are already allocated."""
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


@inner
def collect(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> int:
    """List rows whose grants changed, and update their progress."""
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


@inner
def grant_later(pool: PoolArrays, rows: ClaimArrays, changed: int) -> int:
    """Grant elastic components of the later tiers again, in order, from the rest of the first.

    Components that do not fit are skipped. Rows whose grants changed are listed after the `changed`
    ones; returns the new number of listed rows.
    """
    for kind in range(pool.total.size):
        pool.extra[kind] = 0
    for place in range(pool.length[LATER]):
        row = pool.lines[LATER, place]
        differs = False
        for part in range(rows.extra.shape[2]):
            more = rows.extra[row, ASKED, part]
            for kind in range(pool.total.size):
                each = rows.part[row, part, kind]
                if each > 0:
                    room = pool.total[kind] - pool.cores[kind] - pool.given[kind] - pool.extra[kind]
                    more = min(more, room // each) if room > 0 else 0
            differs = differs or more != rows.extra[row, GRANTED, part]
            rows.extra[row, GRANTED, part] = more
            for kind in range(pool.total.size):
                pool.extra[kind] += more * rows.part[row, part, kind]
        if differs:
            pool.changed[changed] = row
            changed += 1
    return changed


@inner
def core_fits(pool: PoolArrays, rows: ClaimArrays, row: int, keep_grants: bool) -> bool:
    """Whether the core of a row fits alongside the cores (and grants) of those in service."""
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
    """Whether rows in service could use up a resource that the core of a row requests."""
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
    """Release the core and the grants of a row that has left its queue."""
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
    """Remove a row from the queue of the later tiers, if it is there."""
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
    """Admit a row; with malleable allocation, grant all that fits immediately."""
    admit(pool, rows, rules, row)
    if rules.allocation == MALLEABLE:
        grant_more(pool, rows, row)


@inner
def admit_in_line(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules) -> None:
    """Admit from the sorted waiting queue: heads while they fit, or with backfill all that fit."""
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
    """Whether rows in service could use up every resource, so that none may be admitted."""
    if rules.allocation == MALLEABLE:
        return False
    for kind in range(pool.total.size):
        if pool.wanted[kind] < pool.total[kind]:
            return False
    return True


@inner
def find_best(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> int:
    """Return the place of the row that goes first; keys are inlined because the loop is hot."""
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
    """Admit the best row repeatedly, for keys that change over time, until it does not fit."""
    while pool.length[WAITING] > 0 and not is_full(pool, rules):
        if rules.rule == DRF:
            fill_shares(pool, rows)
        best = find_best(pool, rows, rules, now)
        row = pool.lines[WAITING, best]
        if not try_admit(pool, rows, rules, row):
            return
        take_place(pool, WAITING, best)
        enter(pool, rows, rules, row)
