"""GET /v1/assignments: which component is on which machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from planner.placement import Code
from service.access.user import User
from service.api.call import Call
from service.api.fields import text
from service.api.route import Documented, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_NOTHING: Final[dict[str, Any]] = {
    "at": None,
    "plan_version": 0,
    "table_version": 0,
    "policy": None,
    "below": [],
    "rows": [],
}


def _get(runtime: Runtime, call: Call) -> Response:
    found = _NOTHING | msgspec.json.decode(runtime.dispatcher.rows.assignment())
    for name in ("execution", "machine"):
        wanted = call.query[name]
        if wanted is not None:
            found["rows"] = [row for row in found["rows"] if row[name] == wanted]
    if call.user.scope is not None:
        _leave_out_others(runtime, call.user, found)
    at = found["at"]
    found["at_calendar"] = None if at is None else runtime.calendar(round(1000 * at))
    return Response(200, found)


def _leave_out_others(runtime: Runtime, user: User, found: dict[str, Any]) -> None:
    """Keep what is of the tenants that a user acts for."""
    own = runtime.dispatcher.rows.open_ids_of(user.tenants)
    found["rows"] = [row for row in found["rows"] if row["execution"] in own]
    with runtime.reading() as plan:
        numbers = {id_: plan.table.number_of(id_) for id_ in found["below"]}
        found["below"] = [
            id_
            for id_, number in numbers.items()
            if number is not None and user.acts_for(plan.table.scope(number)[0])
        ]


_COUNT: Final = {"type": "integer", "minimum": 0}

SCHEMAS: Final[dict[str, Any]] = {
    "Assignment": {
        "type": "object",
        "properties": {
            "at": {
                "type": ["number", "null"],
                "description": "When it was made, seconds from the origin; null before the first.",
            },
            "at_calendar": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "The same instant by the calendar.",
            },
            "plan_version": _COUNT,
            "table_version": {
                **_COUNT,
                "description": "Version of the dispatch table; 0 without one.",
            },
            "policy": {
                "oneOf": [json_of("DispatchPolicy"), {"type": "null"}],
                "description": "The policy by which it was made; null before the first.",
            },
            "below": {
                "type": "array",
                "description": "Reservations that are owed machines now and lack some.",
                "items": {"type": "string"},
            },
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "execution": {"type": "string"},
                        "component": {"type": "string"},
                        "index": _COUNT,
                        "machine": {"type": "string", "description": "GROUP-INDEX."},
                        "since": {"type": "number"},
                        "covered": {
                            "type": "boolean",
                            "description": "False: it may be stopped at any time.",
                        },
                    },
                    "required": [
                        "execution",
                        "component",
                        "index",
                        "machine",
                        "since",
                        "covered",
                    ],
                },
            },
        },
        "required": [
            "at",
            "at_calendar",
            "plan_version",
            "table_version",
            "policy",
            "below",
            "rows",
        ],
    }
}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/assignments",
        "getAssignments",
        "Which component is on which machine, as of the last change.",
        _get,
        {200: Documented("The virtual assignment.", json_of("Assignment"))},
        problems=(Code.MALFORMED,),
        query=(
            text("execution", "Only of this application.", default=None),
            text("machine", "Only on this machine.", default=None, longest=256),
        ),
    ),
)
