"""The order of rows: their keys, dominant shares, and the comparison."""

# Elements of arrays have no type of their own for mypy.
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
    SERVING,
    SRPT,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.compiled import inline, inner


@inline
def size_factor(rows: ClaimArrays, size: int, row: int) -> float:
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


@inline
def refresh_key(
    pool: PoolArrays, rows: ClaimArrays, rules: PoolRules, row: int, now: float
) -> None:
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
