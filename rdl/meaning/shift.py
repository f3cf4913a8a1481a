"""A request as it would read had it been submitted at another time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Every,
    Expression,
    Graph,
    Instant,
    Offset,
    Order,
    TimeOfDay,
    Window,
)


def shifted(expression: Expression, by_ms: int, submitted_ms: int = 0) -> Expression:
    """Return a request with every instant of its windows and periods moved.

    What counts from the submission becomes an instant, so that the result may be submitted at any
    time. Times of day stay what they are, and so does what stands in a period: it counts from
    there.

    Parameters
    ----------
    by_ms
        How much later, in ms; below 0 earlier.
    submitted_ms
        When it was submitted, in ms from the origin.
    """
    return with_instants(expression, lambda instant: _moved(instant, by_ms, submitted_ms))


def with_instants(expression: Expression, change: Callable[[Instant], Instant]) -> Expression:
    """Return a request with each instant of its windows and periods changed.

    What stands in a period counts from there, and stays.
    """
    match expression:
        case Window(start=start, end=end, of=of):
            return replace(
                expression,
                start=None if start is None else change(start),
                end=change(end),
                of=with_instants(of, change),
            )
        case Every(until=until, anchor=anchor):
            return replace(
                expression,
                until=None if until is None else change(until),
                anchor=None if anchor is None else change(anchor),
            )
        case AnyOf(options=options):
            return replace(expression, options=tuple(with_instants(one, change) for one in options))
        case AllOf(children=children) | Order(children=children) | Graph(children=children):
            return replace(
                expression, children=tuple(with_instants(one, change) for one in children)
            )
        case _:
            return expression


def _moved(instant: Instant, by_ms: int, submitted_ms: int) -> Instant:
    match instant:
        case Offset(ms=ms):
            return Offset(ms + by_ms)
        case AfterSubmission(ms=ms):
            return Offset(submitted_ms + ms + by_ms)
        case Absolute(at=at):
            return Absolute(at + timedelta(milliseconds=by_ms))
        case TimeOfDay():
            return instant
