"""GET /v1/plan/bound: how much more any plan of the same requests could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.http.call import Call
from service.http.route import Documented, Header, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_COUNT: Final = {"type": "integer", "minimum": 0}


def _value(description: str) -> dict[str, Any]:
    return {"type": ["number", "null"], "description": description}


_PROPERTIES: Final[dict[str, Any]] = {
    "version": {**_COUNT, "description": "Of the Plan."},
    "value": _value("Of all reservations that hold something: weight x core-hours x preference."),
    "asked": _value("Of all that is held, and of all that was refused and could still come in."),
    "bound": _value("No plan of these requests holds more; null where they are too many."),
    "gap": _value("(bound - value) / bound."),
    "better": _value("bound / value - 1: no plan is better by more; null where value is 0."),
    "held": {**_COUNT, "description": "How many reservations hold something."},
    "waiting": {**_COUNT, "description": "How many requests were refused and could still come in."},
    "proof": {
        "type": "string",
        "enum": ["all", "load", "columns", "none"],
        "description": "all: what is asked; load: amounts; columns: prices; none: too many.",
    },
}

SCHEMAS: Final[dict[str, Any]] = {
    "PlanBound": {
        "type": "object",
        "properties": _PROPERTIES,
        "required": list(_PROPERTIES),
        "additionalProperties": False,
    }
}


def _bound(runtime: Runtime, call: Call) -> Response:
    found = runtime.bounds.newest()
    tag = str(found.version)
    headers = {"ETag": f'"{tag}"'}
    if {tag, "*"} & set(call.if_none_match()):
        return Response(304, headers=headers)
    return Response(200, found.to_json(), headers)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/plan/bound",
        "getPlanBound",
        "What the Plan holds, and the most that any plan of the same requests could hold.",
        _bound,
        {
            200: Documented(
                "Value and bound of all tenants together.",
                json_of("PlanBound"),
                {"ETag": "Version of the Plan."},
            ),
            304: Documented("The Plan is at the version of If-None-Match."),
        },
        headers=(Header("If-None-Match", "A version: answer 304 when the Plan is still there."),),
    ),
)
