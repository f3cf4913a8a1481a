"""GET /v1/events: what happens, as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.call import Call
from service.api.fields import Field, span_of_time, text
from service.api.route import Documented, Header, Route
from service.calls.events.events import filter_of, listen, position_of, read_kinds
from service.events.plan_event import ID_PATTERN, KINDS, EventPosition, read_position
from service.problems import FieldError
from service.response import JSON, Response
from service.streaming.event_text import MEDIA
from service.streaming.live_stream import LONGEST_S

if TYPE_CHECKING:
    from service.runtime import Runtime

#: What keeps caches and proxies from holding events back.
STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def longest(name: str = "wait") -> Field:
    """Return a query field: after which time a stream ends."""
    return span_of_time(name, "End the stream after this time; an hour when absent.")


def _read_after(value: str) -> EventPosition:
    position = read_position(value)
    if position is None:
        raise FieldError("write a version, or the id of an event, such as 4711.3")
    return position


def _events(runtime: Runtime, call: Call) -> Response:
    query = call.query
    position = position_of(call.headers.get("last-event-id"), query["after"])
    wanted = filter_of(call.user, query["kinds"], query["tenant"], query["reservation"])
    longest_s = LONGEST_S if query["wait"] is None else query["wait"] / 1000
    return Response(200, listen(runtime, wanted, position, longest_s), STREAM_HEADERS, MEDIA)


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

ROUTES: Final = (
    Route(
        "GET",
        "/v1/events",
        "listenToEvents",
        "Commits, states of reservations, ticks and jobs as they happen, as server-sent events.",
        _events,
        {
            200: Documented(
                "`start` first, then each event under its kind; `reset` where what came after "
                "the client's last event is forgotten: read the Plan anew.",
                _EVENT,
                media=MEDIA,
            )
        },
        problems=(Code.MALFORMED, "too_many"),
        query=(
            Field(
                "after",
                "Begin behind this version or event; now when absent. Last-Event-ID goes before.",
                {"type": "string", "pattern": f"^{ID_PATTERN}$"},
                _read_after,
                None,
            ),
            text("tenant", "Of reservations: only those of this tenant.", default=None),
            text("reservation", "Of reservations: only this one.", default=None),
            Field(
                "kinds",
                "Only these kinds, with commas between them.",
                {"type": "string", "pattern": f"^({_KIND})(,({_KIND}))*$"},
                read_kinds,
                None,
            ),
            longest(),
        ),
        headers=(Header("Last-Event-ID", "The id of the last event that was read."),),
    ),
)
