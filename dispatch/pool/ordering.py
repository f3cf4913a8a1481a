"""Orders of the waiting queue, and how they measure the size of a request.

Sizes are those of D5.2's table 10.3a: run time (1-D), times the number of components (2-D), or
times the sum over components of cores x memory (3-D). SRPT has two variants of each: over all
requested components, or over those not yet scheduled; with nothing left to schedule, the latter
uses all, because a product with zero would put every such request first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from rdl.errors import nearest


class Rule(IntEnum):
    """Definition of the key; kernels take the numbers."""

    STATIC = 0  # fixed at arrival, least first
    SRPT = 1  # remaining run time, least first
    HRRN = 2  # response ratio over the size's factor, highest first
    HRRN_PRINTED = 3  # the product as the table prints it, least first
    DRF = 4  # dominant share of the tenant, least first


class Size(IntEnum):
    """Factor of the run time; kernels take the numbers."""

    ONE = 0
    COMPONENTS = 1
    COMPONENTS_LEFT = 2
    AREA = 3
    AREA_LEFT = 4


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of the waiting queue.

    Attributes
    ----------
    name
        Its name.
    rule, size
        Definition of the key.
    by_size
        Whether a static key is a size; otherwise it is the time of submission.
    by_priority
        Whether a higher priority goes first, whatever the key.
    backfill
        Whether requests that fit may pass a head that does not. No capacity is reserved for the
        head, so it may wait for long.
    preemptive
        Whether an arrival that goes before the last row in service may take elastic components.
    """

    name: str
    rule: Rule = Rule.STATIC
    size: Size = Size.ONE
    by_size: bool = False
    by_priority: bool = False
    backfill: bool = False
    preemptive: bool = False

    def __post_init__(self) -> None:
        if self.preemptive and self.rule is Rule.DRF:
            raise ValueError(f"{self.name} cannot preempt: shares give no order among requests")


def _known() -> dict[str, Ordering]:
    two, three = Size.COMPONENTS, Size.AREA
    listed = [
        Ordering("fifo"),
        Ordering("fifo-backfill", backfill=True),
        Ordering("priority", by_priority=True),
        Ordering("drf", Rule.DRF),
        Ordering("hrrn", Rule.HRRN),
        Ordering("hrrn-2d", Rule.HRRN, two),
        Ordering("hrrn-3d", Rule.HRRN, three),
        Ordering("hrrn-2d-printed", Rule.HRRN_PRINTED, two),
        Ordering("hrrn-3d-printed", Rule.HRRN_PRINTED, three),
        Ordering("srpt", Rule.SRPT),
        Ordering("srpt-2d1", Rule.SRPT, two),
        Ordering("srpt-2d2", Rule.SRPT, Size.COMPONENTS_LEFT),
        Ordering("srpt-3d1", Rule.SRPT, three),
        Ordering("srpt-3d2", Rule.SRPT, Size.AREA_LEFT),
    ]
    for suffix, size in (("", Size.ONE), ("-2d", two), ("-3d", three)):
        listed.append(Ordering(f"sjf{suffix}", size=size, by_size=True))
        listed.append(Ordering(f"psjf{suffix}", size=size, by_size=True, preemptive=True))
    return {ordering.name: ordering for ordering in listed}


#: Every ordering by its name.
ORDERINGS: dict[str, Ordering] = _known()


def ordering_named(
    name: str,
    *,
    preemptive: bool | None = None,
    by_priority: bool | None = None,
    backfill: bool | None = None,
) -> Ordering:
    """Return the named ordering, with the given arguments changed.

    Raises
    ------
    ValueError
        If there is no such name (the message suggests the nearest), or it cannot be preemptive.
    """
    found = ORDERINGS.get(name.lower())
    if found is None:
        near = nearest(name, ORDERINGS)
        fix = f"did you mean {near!r}?" if near else f"there are {', '.join(ORDERINGS)}"
        raise ValueError(f"no ordering {name!r}; {fix}")
    return replace(
        found,
        preemptive=found.preemptive if preemptive is None else preemptive,
        by_priority=found.by_priority if by_priority is None else by_priority,
        backfill=found.backfill if backfill is None else backfill,
    )
