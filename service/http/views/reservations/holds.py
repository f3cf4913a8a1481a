"""Calls of holds: keep room for a short while, then accept it or give it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from rdl.durations import TimeTextError, parse_duration
from service.calls.reservations import holds
from service.http.call import Call
from service.http.fields import Field, schema_of
from service.http.kinds import LENGTH_PATTERN
from service.http.route import Body, Documented, Route, json_of, links_from
from service.http.views.reservations.reservations import ASK, EXAMPLE, PLACING
from service.problems import FieldError
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _time() -> Field:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError("write seconds, or a duration such as 30s")
        try:
            length = parse_duration(str(value))
        except TimeTextError as error:
            raise FieldError(str(error)) from error
        if not 0 < length <= holds.LONGEST_MS:
            raise FieldError(f"must be above 0 and at most {holds.LONGEST_MS // 1000} s")
        return length

    schema = {
        "type": ["string", "number"],
        "exclusiveMinimum": 0,
        "maximum": holds.LONGEST_MS // 1000,
        "pattern": LENGTH_PATTERN,
        "default": 60,
        "examples": [30, "45s"],
    }
    return Field("time", "For how long it is held.", schema, read, holds.LONGEST_MS)


_FIELDS: Final[tuple[Field, ...]] = (*ASK, _time())

_HOLD: Final = {
    "id": {"type": "string", "description": "Of the hold, and of its reservation."},
    "holder": {"type": "string", "description": "For whom it is held."},
    "until": {"type": "number", "description": "Seconds from the origin."},
    "until_at": {"type": "string", "format": "date-time"},
}

SCHEMAS: Final[dict[str, Any]] = {
    "Hold": {
        "type": "object",
        "properties": {
            **_HOLD,
            "version": {"type": "integer", "minimum": 0},
            "reservation": json_of("Reservation"),
        },
        "required": [*_HOLD, "version", "reservation"],
        "additionalProperties": False,
    },
    "HoldList": {
        "type": "object",
        "properties": {
            "version": {"type": "integer", "minimum": 0},
            "holds": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": _HOLD,
                    "required": list(_HOLD),
                    "additionalProperties": False,
                },
            },
        },
        "required": ["version", "holds"],
        "additionalProperties": False,
    },
}


def _post(runtime: Runtime, call: Call) -> Response:
    return holds.take(runtime, call.body, call.user)


def _list(runtime: Runtime, call: Call) -> Response:
    return Response(200, holds.page(runtime, call.user))


def _get(runtime: Runtime, call: Call) -> Response:
    return Response(200, holds.one(runtime, call.path["id"], call.user))


def _accept(runtime: Runtime, call: Call) -> Response:
    return holds.accept(runtime, call.path["id"], call.user)


def _delete(runtime: Runtime, call: Call) -> Response:
    return holds.give_back(runtime, call.path["id"], call.user)


_REVISION: Final = {"ETag": "Revision of the reservation."}

ROUTES: Final = (
    Route(
        "POST",
        "/v1/holds",
        "createHold",
        "Place a request and keep its room for up to 60 s; a refusal is not kept.",
        _post,
        {
            201: Documented(
                "The room is held, on disk, and counts in quotas.",
                json_of("Hold"),
                {"Location": "Path of the hold."},
                links=links_from("$response.body#/id", "getHold", "acceptHold", "releaseHold"),
            )
        },
        problems=(
            Code.MALFORMED,
            *PLACING,
            Code.DUPLICATE_ID,
            "forbidden",
            "too_many",
            "unavailable",
            "clock_unconfirmed",
            "plan_ahead",
        ),
        body=Body(schema_of(_FIELDS), _FIELDS, examples={"half a minute": {**EXAMPLE, "time": 30}}),
    ),
    Route(
        "GET",
        "/v1/holds",
        "listHolds",
        "What is held for your tenants, the first to end first.",
        _list,
        {200: Documented("The holds.", json_of("HoldList"))},
    ),
    Route(
        "GET",
        "/v1/holds/{id}",
        "getHold",
        "One hold, with what its reservation holds.",
        _get,
        {200: Documented("The hold.", json_of("Hold"))},
        problems=("not_found",),
    ),
    Route(
        "POST",
        "/v1/holds/{id}/accept",
        "acceptHold",
        "Keep what is held: it is a reservation like others from now on.",
        _accept,
        {200: Documented("The reservation is promised.", json_of("Reservation"), _REVISION)},
        problems=(
            "not_found",
            "wrong_state",
            Code.CONFLICT,
            "unavailable",
            "clock_unconfirmed",
            "plan_ahead",
        ),
    ),
    Route(
        "DELETE",
        "/v1/holds/{id}",
        "releaseHold",
        "Give back what is held; its reservation is cancelled.",
        _delete,
        {200: Documented("The reservation is cancelled.", json_of("Reservation"), _REVISION)},
        problems=("not_found", "wrong_state", Code.CONFLICT, "unavailable"),
    ),
)
