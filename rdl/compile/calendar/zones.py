"""Times of day without a zone: the compiler writes the cluster's zone into the request.

So requests in a Plan do not change with the cluster's zone, and neither the oracle nor the
validator needs that zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rdl.compile.calendar.civil_time import DAY_MS
from rdl.expressions import (
    AllOf,
    AnyOf,
    Every,
    Expression,
    Graph,
    Order,
    TimeOfDay,
    Together,
    Window,
    children_of,
)


def with_zone(expression: Expression, zone: str) -> Expression:
    """Return the request with a zone for times of day, days and dates without one around them.

    A recurrence by days gets the zone itself, so that its times of day are in the same zone.
    """
    return _completed(expression, zone, zoned=False)


def needs_zone(expression: Expression) -> bool:
    """Return whether a request has times of day, days or dates without a zone around them."""
    pending = [(expression, False)]
    while pending:
        here, zoned = pending.pop()
        if (not zoned and _is_by_clock(here)) or _has_days(here):
            return True
        pending.extend((child, _inside(here, zoned=zoned)) for child in children_of(here))
    return False


def _completed(here: Expression, zone: str, *, zoned: bool) -> Expression:
    takes = not zoned and _is_by_clock(here)
    if isinstance(here, Every) and here.zone is None:
        takes = _is_counted_in_days(here)
    if takes:
        assert isinstance(here, Window | Every)
        here = replace(here, zone=zone)
    inside = _inside(here, zoned=zoned)
    match here:
        case Window(of=of) | Every(of=of):
            return replace(here, of=_completed(of, zone, zoned=inside))
        case AnyOf(options=options):
            done = tuple(_completed(one, zone, zoned=inside) for one in options)
            return replace(here, options=done)
        case AllOf() | Order() | Graph() | Together():
            done = tuple(_completed(one, zone, zoned=inside) for one in here.children)
            return replace(here, children=done)
        case _:
            return here


def _inside(here: Expression, *, zoned: bool) -> bool:
    """Return whether the children of an expression have a zone around them."""
    return here.zone is not None if isinstance(here, Every) else zoned


def _is_by_clock(here: Expression) -> bool:
    """Return whether an expression is a window by times of day without a zone of its own."""
    if not isinstance(here, Window) or here.zone is not None:
        return False
    return isinstance(here.start, TimeOfDay) or isinstance(here.end, TimeOfDay)


def _has_days(here: Expression) -> bool:
    """Return whether an expression is a recurrence by the calendar without a zone."""
    if not isinstance(here, Every) or here.zone is not None:
        return False
    named = here.is_by_days or bool(here.without) or here.holidays is not None
    return named or isinstance(here.anchor, TimeOfDay)


def _is_counted_in_days(every: Every) -> bool:
    """Return whether the days of a recurrence without a zone are those of a calendar."""
    if _has_days(every):
        return True
    whole = every.period_ms >= DAY_MS and every.period_ms % DAY_MS == 0
    return whole and any(_is_by_clock(one) for one in _own_parts(every))


def _own_parts(every: Every) -> Iterator[Expression]:
    """Yield the parts inside a recurrence, except those inside nested recurrences."""
    pending = [every.of]
    while pending:
        here = pending.pop()
        yield here
        if not isinstance(here, Every):
            pending.extend(children_of(here))
