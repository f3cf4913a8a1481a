"""Elastic components: granted in the order of service, taken back from its end."""

from __future__ import annotations

from dispatch.pool.kernels.arrays import (
    ASKED,
    FLEXIBLE,
    GRANTED,
    LATER,
    SERVING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import inner


@inner
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


@inner
def cascade(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules) -> None:
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


@inner
def collect(pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, now: float) -> int:
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


@inner
def grant_later(pool: PoolArrays, rows: ClaimArrays, changed: int) -> int:
    """Grant elastic components of the later tiers anew, from what the first leaves, in order.

    Those that do not fit are skipped. Rows whose grants changed are listed behind the `changed`
    ones; returns how many there are then.
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
