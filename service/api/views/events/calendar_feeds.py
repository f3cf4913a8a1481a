"""The calls around calendars: feeds, and the calendar that a feed's token reads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.call import Call
from service.api.fields import schema_of, text
from service.api.route import Body, Documented, Header, Route, json_of, links_from
from service.calls.events import calendar_feeds
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_MEDIA: Final = "text/calendar; charset=utf-8"

_FEED: Final = (text("tenant", "Whose reservations it shows.", default=None),)

_TEXT: Final = {"type": "string"}
_SHOWN: Final[dict[str, Any]] = {
    "id": _TEXT,
    "tenant": _TEXT,
    "created_at": {"type": "string", "format": "date-time"},
    "stopped": {
        "type": ["string", "null"],
        "description": "Why it is read no longer: the token of who made it is not good.",
    },
    "token": {**_TEXT, "description": "Only where it is created: reads the calendar."},
    "path": {**_TEXT, "description": "Only where it is created: where the calendar is."},
}
SCHEMAS: Final[dict[str, Any]] = {
    "CalendarFeed": {
        "type": "object",
        "properties": _SHOWN,
        "required": ["id", "tenant", "created_at", "stopped"],
    },
    "CalendarFeedList": {
        "type": "object",
        "properties": {"feeds": {"type": "array", "items": json_of("CalendarFeed")}},
        "required": ["feeds"],
    },
}


def _create(runtime: Runtime, call: Call) -> Response:
    return Response(201, calendar_feeds.create(runtime, call.user, call.body["tenant"]))


def _list(runtime: Runtime, call: Call) -> Response:
    return Response(200, calendar_feeds.page(runtime, call.user))


def _delete(runtime: Runtime, call: Call) -> Response:
    calendar_feeds.delete(runtime, call.user, call.path["id"])
    return Response(204)


def _read(runtime: Runtime, call: Call) -> Response:
    body = calendar_feeds.read(runtime, call.query["token"])
    tag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, max-age=60"}
    if {tag, "*"} & set(call.if_none_match()):
        return Response(304, headers=headers)
    return Response(200, body, headers, _MEDIA)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/calendar/feeds",
        "createCalendarFeed",
        "A secret address under which calendars read a tenant's reservations.",
        _create,
        {
            201: Documented(
                "The feed; its token is told only here.",
                json_of("CalendarFeed"),
                links={
                    "getCalendar": {
                        "operationId": "getCalendar",
                        "parameters": {"token": "$response.body#/token"},
                    },
                    **links_from("$response.body#/id", "deleteCalendarFeed"),
                },
            )
        },
        problems=(Code.MALFORMED, "too_many"),
        body=Body(schema_of(_FEED), _FEED),
    ),
    Route(
        "GET",
        "/v1/calendar/feeds",
        "listCalendarFeeds",
        "All feeds that the caller may see, oldest first.",
        _list,
        {200: Documented("The feeds.", json_of("CalendarFeedList"))},
    ),
    Route(
        "DELETE",
        "/v1/calendar/feeds/{id}",
        "deleteCalendarFeed",
        "Let nobody read a feed any more.",
        _delete,
        {204: Documented("The feed is deleted.")},
        problems=("not_found",),
    ),
    Route(
        "GET",
        "/v1/calendar.ics",
        "getCalendar",
        "A tenant's reservations as a calendar (iCalendar).",
        _read,
        {
            200: Documented(
                "One event an occurrence; what was cancelled or has failed is marked so.",
                {"type": "string"},
                {"ETag": "Hash of the calendar."},
                media=_MEDIA,
            ),
            304: Documented("The calendar is as in If-None-Match."),
        },
        problems=(Code.MALFORMED, "not_found", "gone"),
        query=(text("token", "The token of a feed."),),
        headers=(Header("If-None-Match", "A tag: answer 304 when nothing has changed."),),
        role=None,
    ),
)
