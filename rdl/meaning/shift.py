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
    Together,
    Window,
)


def shifted(expression: Expression, by_ms: int, submitted_ms: int = 0) -> Expression:
    """Return a request with every instant of its windows and periods moved.

    What counts from the submission becomes an instant, so that the result may be submitted at any
    time. Times of day stay what they are, and so does what is in a period: it counts from
    there.

    Parameters
    ----------
    by_ms
        How much later, in ms; below 0 earlier.
    submitted_ms
        When it was submitted, in ms from the origin.
    """

    def move(instant: Instant) -> Instant:
        return _moved(instant, by_ms, submitted_ms)

    return with_instants(expression, move, move)


def with_instants(
    expression: Expression,
    start_of: Callable[[Instant], Instant],
    end_of: Callable[[Instant], Instant],
) -> Expression:
    """Return a request with the instants of its windows and periods changed.

    What is in a period stays as it is: its times count from there.

    Parameters
    ----------
    start_of
        Returns another start of a window, and another anchor of a recurrence.
    end_of
        Returns another end of a window, and another end of a recurrence.
    """

    def changed(child: Expression) -> Expression:
        return with_instants(child, start_of, end_of)

    match expression:
        case Window(start=start, end=end, of=of):
            return replace(
                expression,
                start=None if start is None else start_of(start),
                end=end_of(end),
                of=changed(of),
            )
        case Every(until=until, anchor=anchor):
            return replace(
                expression,
                until=None if until is None else end_of(until),
                anchor=None if anchor is None else start_of(anchor),
            )
        case AnyOf(options=options):
            return replace(expression, options=tuple(changed(one) for one in options))
        case AllOf() | Order() | Graph() | Together():
            parts = tuple(changed(one) for one in expression.children)
            return replace(expression, children=parts)
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
