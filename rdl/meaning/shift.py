"""Shift a request to another submission time, or the ends of its windows."""

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

#: A day of the clock, in ms.
_DAY_MS = 86_400_000


def with_margin(expression: Expression, margin_ms: int) -> Expression:
    """Return a request whose outermost windows end earlier; one without windows is unchanged.

    A time of day moves on the clock: past midnight it is that of another day, which the caller has
    to find out.
    """

    def changed(child: Expression) -> Expression:
        return with_margin(child, margin_ms)

    match expression:
        case Window(end=TimeOfDay(ms=ms)):
            return replace(expression, end=TimeOfDay((ms - margin_ms) % _DAY_MS))
        case Window(end=Absolute(at=at)):
            return replace(expression, end=Absolute(at - timedelta(milliseconds=margin_ms)))
        case Window(end=Offset() | AfterSubmission() as end):
            return replace(expression, end=replace(end, ms=end.ms - margin_ms))
        case Every(of=of):
            return replace(expression, of=changed(of))
        case AnyOf(options=options):
            return replace(expression, options=tuple(map(changed, options)))
        case AllOf() | Order() | Graph():
            return replace(expression, children=tuple(map(changed, expression.children)))
        case _:
            return expression


def shifted(expression: Expression, by_ms: int, submitted_ms: int = 0) -> Expression:
    """Return a request with every instant of its windows and periods moved.

    Times that count from the submission become instants, so that the result may be submitted at any
    time. Times of day do not change, nor do times inside a period, which count from its start.

    Parameters
    ----------
    by_ms
        Shift in ms; negative is earlier.
    submitted_ms
        Time of submission, in ms from the origin.
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

    Times inside a period do not change, since they count from its start.

    Parameters
    ----------
    start_of
        Returns the new start of a window, or the new anchor of a recurrence.
    end_of
        Returns the new end of a window or of a recurrence.
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
