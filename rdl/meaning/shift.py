"""A request as it would read had it been submitted at another time."""

from __future__ import annotations

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
    match expression:
        case Window(start=start, end=end, of=of):
            return replace(
                expression,
                start=None if start is None else _moved(start, by_ms, submitted_ms),
                end=_moved(end, by_ms, submitted_ms),
                of=shifted(of, by_ms, submitted_ms),
            )
        case Every(until=until, anchor=anchor):
            return replace(
                expression,
                until=None if until is None else _moved(until, by_ms, submitted_ms),
                anchor=None if anchor is None else _moved(anchor, by_ms, submitted_ms),
            )
        case AnyOf(options=options):
            moved = tuple(shifted(one, by_ms, submitted_ms) for one in options)
            return replace(expression, options=moved)
        case AllOf(children=children) | Order(children=children) | Graph(children=children):
            moved = tuple(shifted(one, by_ms, submitted_ms) for one in children)
            return replace(expression, children=moved)
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
