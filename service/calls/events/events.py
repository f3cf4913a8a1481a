"""Listen to what happens: commits, states of reservations, ticks and jobs."""

from __future__ import annotations

from collections.abc import Callable

from planner.placement import Code
from service.access.actor import present_actor
from service.access.user import User
from service.events.plan_event import KINDS, EventPosition, read_position
from service.problems import ApiError, FieldError, problem
from service.runtime import Runtime
from service.streaming.live_stream import LiveStream
from service.streaming.plan_stream import EventFilter, PlanEventSource


def read_kinds(text: str) -> frozenset[str]:
    """Return kinds of events, given with commas between them.

    Raises
    ------
    FieldError
        If one is none.
    """
    found = frozenset(text.split(","))
    unknown = sorted(found - set(KINDS))
    if unknown:
        raise FieldError(f"{unknown[0]!r} is not one of {', '.join(KINDS)}")
    return found


def position_of(header: str | None, after: EventPosition | None) -> EventPosition | None:
    """Return where a client goes on: behind its last event, or behind what it asks for first.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a header that is no id.
    """
    if header is None:
        return after
    position = read_position(header)
    if position is None:
        message = f"write the id of an event, such as 4711.3, not {header!r}"
        error = ApiError(message, pointer="Last-Event-ID")
        raise problem(Code.MALFORMED, "Last-Event-ID cannot be read", [error])
    return position


def listen(
    runtime: Runtime, wanted: EventFilter, position: EventPosition | None, longest_s: float
) -> LiveStream:
    """Return a stream of events: after a position, or from now on.

    Raises
    ------
    ApiProblemError
        ``too_many`` where as many listen as may.
    """
    with runtime.reading():
        newest = runtime.recent.newest
    source = PlanEventSource(
        runtime.stream_pieces, runtime.present, wanted, newest if position is None else position
    )
    return runtime.streams.open(source, longest_s, permit_of(runtime))


def permit_of(runtime: Runtime) -> Callable[[], bool]:
    """Return what tells whether the token of the present call is still good."""
    key = present_actor().key

    def may() -> bool:
        now_ms = runtime.clock_ms()
        token = runtime.token_book.of_key(key, now_ms)
        return token is not None and token.fault(now_ms) is None

    return may if key else lambda: True


def filter_of(
    user: User, kinds: frozenset[str] | None, tenant: str | None, reservation: str | None
) -> EventFilter:
    """Return what is told to somebody; None does not narrow."""
    return EventFilter(user, frozenset(KINDS) if kinds is None else kinds, tenant, reservation)
