"""Arrays of the kernels: rows of claims, the pool they share, and the ordering rules.

Shapes: R rows, one per claim; G parts, the largest number that a claim has; L resources; T tenants.
Amounts are canonical, times are seconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch.pool.claims import GrantRule
from dispatch.pool.ordering import Rule, Size

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# Values of the enums for the kernels.
STATIC: Final = Rule.STATIC.value
SRPT: Final = Rule.SRPT.value
HRRN: Final = Rule.HRRN.value
HRRN_PRINTED: Final = Rule.HRRN_PRINTED.value
DRF: Final = Rule.DRF.value
COMPONENTS: Final = Size.COMPONENTS.value
COMPONENTS_LEFT: Final = Size.COMPONENTS_LEFT.value
AREA: Final = Size.AREA.value
AREA_LEFT: Final = Size.AREA_LEFT.value
FLEXIBLE: Final = GrantRule.FLEXIBLE.value
GROW_ONLY: Final = GrantRule.GROW_ONLY.value
MALLEABLE: Final = GrantRule.MALLEABLE.value
# Queues, and their indexes in `length`: waiting rows; rows that may preempt and did not fit; rows
# in service, in the order in which elastic components are granted; rows of the later tiers, which
# get elastic components from what the first tier leaves, in their own order.
WAITING, URGENT, SERVING, LATER = 0, 1, 2, 3
# Indexes in `ClaimArrays.extra`.
ASKED, GRANTED = 0, 1
#: Number of queues.
LINES: Final = 4


class ClaimArrays(NamedTuple):
    """Claims: one row each, which is reused when its claim has left."""

    core: Longs  # (R, L) total of all core components
    want: Longs  # (R, L) most it could use: the core and all elastic components
    part: Longs  # (R, G, L) amounts of one elastic component of a part
    part_count: Longs  # (R, G) elastic components requested
    granted: Longs  # (R, G) elastic components granted
    extra: Longs  # (R, 2, G) of a row of a later tier: elastic components requested, and granted
    before: Longs  # (R, G) `granted` before the current event, to list what it changed
    rank: Floats  # (R,) the lower rank goes first, whatever the key: a priority, negated
    key: Floats  # (R,) the lower key goes first in a rank; defined by `PoolRules.rule`
    number: Longs  # (R,) order of arrival, for equal keys
    tier: Longs  # (R, 3) tier, and order in it before and after the submission time; a row of
    # a tier above 0 is also in the queue `LATER`
    submitted: Floats  # (R,) when it was submitted
    run: Floats  # (R,) run time with everything granted
    left: Floats  # (R,) run time that was left at `since`, with everything granted
    since: Floats  # (R,) when `left` and `speed` were last brought up to date
    speed: Floats  # (R,) running components over requested ones; 0 while it waits
    tenant: Longs  # (R,) row of `PoolArrays.held` and `share`
    core_count: Floats  # (R,) core components
    all_count: Floats  # (R,) core and elastic components requested
    all_area: Floats  # (R,) sum of their areas, see `part_area`
    factor: Floats  # (R,) factor of the run time if it is fixed at arrival
    part_area: Floats  # (R, G) of one elastic component: cores x GiB, the 3-D size of table 10.3a
    started: NDArray[np.bool_]  # (R,) whether it is in service


class PoolArrays(NamedTuple):
    """Total amounts, amounts held by rows in service, and the queues."""

    total: Longs  # (L,) total amounts
    cores: Longs  # (L,) cores of rows in service
    wanted: Longs  # (L,) most that rows in service could use
    given: Longs  # (L,) elastic components granted in the first tier
    extra: Longs  # (L,) elastic components granted in the later tiers
    held: Longs  # (T, L) cores and grants by tenant, set by `fill_shares`
    share: Floats  # (T,) dominant share by tenant, set by `fill_shares`
    lines: Longs  # (4, R) rows by place, in each queue
    length: Longs  # (4,) rows in each queue
    changed: Longs  # (2 R,) rows that the last event changed, some twice; events return the number


class PoolRules(NamedTuple):
    """Rules of order and grants."""

    allocation: int  # a GrantRule
    rule: int  # a Rule
    size: int  # a Size
    backfill: bool  # whether rows that fit may pass a head that does not
    preemptive: bool  # whether an arrival may take elastic components of rows behind it
