"""What the kernels work on: rows of claims, the pool they share, and how they are ordered.

Shapes: R rows, one a claim; G parts, the most that any claim has; L resources; T tenants. Amounts
are canonical, times are seconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch.pool.claims import GrantRule
from dispatch.pool.ordering import Rule, Size

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# The numbers of the enums, as kernels take them.
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
# Lines, and their places in `length`: those that wait; those that may preempt and did not fit;
# those in service, in the order in which elastic components are granted; those of the tiers that
# are granted elastic components from what the first leaves, in their own order.
WAITING, URGENT, SERVING, LATER = 0, 1, 2, 3
# Places in `ClaimArrays.extra`.
ASKED, GRANTED = 0, 1
#: How many lines there are.
LINES: Final = 4


class ClaimArrays(NamedTuple):
    """Claims: one row each, used again when its claim is gone."""

    core: Longs  # (R, L) what all core components take together
    want: Longs  # (R, L) what it could use at most: the core and all elastic components
    part: Longs  # (R, G, L) what one elastic component of a part takes
    part_count: Longs  # (R, G) elastic components asked for
    granted: Longs  # (R, G) elastic components granted
    extra: Longs  # (R, 2, G) of a row of a later tier: elastic components asked for, and granted
    before: Longs  # (R, G) `granted` before the event that is settled, to list what it changed
    rank: Floats  # (R,) the lower rank goes first, whatever the key: a priority, negated
    key: Floats  # (R,) the lower key goes first in a rank; what it is says `PoolRules.rule`
    number: Longs  # (R,) order of arrival, for equal keys
    tier: Longs  # (R, 3) tier, and order in it before and behind the time of submission; a row of
    # a later tier than the first, 0, stands in the line `LATER`, too
    submitted: Floats  # (R,) when it was submitted
    run: Floats  # (R,) run time with everything granted
    left: Floats  # (R,) run time that was left at `since`, with everything granted
    since: Floats  # (R,) when `left` and `speed` were last brought up to date
    speed: Floats  # (R,) components that run over all asked for; 0 while it waits
    tenant: Longs  # (R,) row of `PoolArrays.held` and `share`
    core_count: Floats  # (R,) core components
    all_count: Floats  # (R,) core and elastic components asked for
    all_area: Floats  # (R,) their areas together, see `part_area`
    factor: Floats  # (R,) what multiplies the run time where that is fixed at arrival
    part_area: Floats  # (R, G) of one elastic component: cores x GiB, the 3-D size of table 10.3a
    started: NDArray[np.bool_]  # (R,) whether it is in service


class PoolArrays(NamedTuple):
    """What there is, what those in service hold of it, and the lines."""

    total: Longs  # (L,) what there is
    cores: Longs  # (L,) cores of those in service
    wanted: Longs  # (L,) what those in service could use at most
    given: Longs  # (L,) elastic components granted in the first tier
    extra: Longs  # (L,) and in the later ones
    held: Longs  # (T, L) cores and grants by tenant, as `fill_shares` left them
    share: Floats  # (T,) dominant share by tenant, likewise
    lines: Longs  # (4, R) rows by place, in each line
    length: Longs  # (4,) rows in each line
    changed: Longs  # (2 R,) rows that the last event changed, some twice; how many, it returns


class PoolRules(NamedTuple):
    """How rows are ordered and granted."""

    allocation: int  # a GrantRule
    rule: int  # a Rule
    size: int  # a Size
    backfill: bool  # whether those that fit may pass a head that does not
    preemptive: bool  # whether an arrival may take elastic components of those behind it
