"""Events: a stream of commits, states of reservations, ticks and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from planner.placement import Code
from service.access.user import User, present_actor
from service.events import ID_PATTERN, KINDS, EventPosition, read_position
from service.http.kinds import MemberKind, QueryLength, Word
from service.http.kit import STREAM_HEADERS, Calls, Input, LastEventId, doc
from service.ownership import own_filter
from service.problems import ApiError, FieldError, problem
from service.response import JSON, Response
from service.runtime import Runtime
from service.streaming.live_stream import LONGEST_S, LiveStream
from service.streaming.plan_stream import MEDIA, EventFilter, PlanEventSource

_KIND: Final = "|".join(KINDS)
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["start", "reset", *KINDS]},
        "id": {"type": "string", "pattern": f"^{ID_PATTERN}$"},
        "data": {"type": "string", "contentMediaType": JSON},
    },
    "required": ["event", "data"],
}


def _read_after(value: str) -> EventPosition:
    position = read_position(value)
    if position is None:
        raise FieldError("write a version, or the id of an event, such as 4711.3")
    return position


def _read_kinds(value: str) -> frozenset[str]:
    found = frozenset(value.split(","))
    unknown = sorted(found - set(KINDS))
    if unknown:
        raise FieldError(f"{unknown[0]!r} is not one of {', '.join(KINDS)}")
    return found


class EventQuery(Input):
    after: Annotated[
        EventPosition | None,
        MemberKind({"type": "string", "pattern": f"^{ID_PATTERN}$"}, _read_after),
        doc("Start after this version or event; default: now. Last-Event-ID takes precedence."),
    ] = None
    tenant: Annotated[Word | None, doc("Only events of this tenant's reservations.")] = None
    reservation: Annotated[Word | None, doc("Only events of this reservation.")] = None
    kinds: Annotated[
        frozenset[str],
        MemberKind({"type": "string", "pattern": f"^({_KIND})(,({_KIND}))*$"}, _read_kinds),
        doc("Only these kinds, separated by commas."),
    ] = frozenset(KINDS)
    wait: Annotated[
        QueryLength | None, doc("End the stream after this time; default: an hour.")
    ] = None


calls = Calls()


@calls.get(
    "/v1/events",
    "`start` first, then each event under its kind; `reset` if events since the client's last "
    "one are no longer stored: read the Plan again.",
    media=MEDIA,
    fails=(Code.MALFORMED, "too_many"),
)
def listen_to_events(
    runtime: Runtime, user: User, query: EventQuery, last: LastEventId
) -> Annotated[Response, _EVENT]:
    """Commits, states of reservations, ticks and jobs as they happen, as server-sent events."""
    position = _position(last, query.after)
    wanted = EventFilter(user, query.kinds, own_filter(user, query.tenant), query.reservation)
    stream = listen(runtime, wanted, position, longest_s(query.wait))
    return Response(200, stream, STREAM_HEADERS, MEDIA)


def longest_s(wait_ms: int | None) -> float:
    """Return the duration of a stream in seconds."""
    return LONGEST_S if wait_ms is None else wait_ms / 1000


def _position(header: str | None, after: EventPosition | None) -> EventPosition | None:
    """Return the position after which a client continues: its last event, or its first request."""
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
        ``too_many`` if the limit of streams is reached.
    """
    with runtime.reading():
        newest = runtime.recent.newest
    source = PlanEventSource(
        runtime.stream_pieces, runtime.present, wanted, newest if position is None else position
    )
    return runtime.streams.open(source, longest_s, permit_of(runtime))


def permit_of(runtime: Runtime) -> Callable[[], bool]:
    """Return a function that checks whether the token of the present call is still valid."""
    key = present_actor().key

    def may() -> bool:
        now_ms = runtime.clock_ms()
        token = runtime.token_book.of_key(key, now_ms)
        return token is not None and token.fault(now_ms) is None

    return may if key else lambda: True
