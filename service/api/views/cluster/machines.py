"""GET /v1/machines: each machine, what is promised of it, and what runs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.call import Call
from service.api.fields import flag, integer, moment, text
from service.api.route import Documented, Route, json_of
from service.calls.cluster.machines import MachineSpan, machines
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _get(runtime: Runtime, call: Call) -> Response:
    query = call.query
    wanted = MachineSpan(
        group=query["group"],
        name=query["name"],
        at_ms=runtime.resolve(query["at"]),
        first=query["first"],
        most=query["most"],
        brief=query["brief"],
    )
    return Response(200, machines(runtime, call.user, wanted))


_TEXT: Final = {"type": "string"}
_WORD: Final = {"type": ["string", "null"], "description": "Null where you do not see it."}
_NUMBER: Final = {"type": "number"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_AMOUNTS: Final = {"type": "object", "additionalProperties": {"type": ["number", "string"]}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_SLOT: Final = _object(
    {
        "reservation": _WORD,
        "tenant": _WORD,
        "start": _NUMBER,
        "end": _NUMBER,
        "bundles": _COUNT,
        "bundle": _AMOUNTS,
    }
)
_COMPONENT: Final = _object(
    {
        "execution": _WORD,
        "component": _WORD,
        "index": {"type": ["integer", "null"]},
        "covered": {"type": "boolean", "description": "Whether a reservation covers it."},
    }
)

SCHEMAS: Final[dict[str, Any]] = {
    "Machines": _object(
        {
            "version": _COUNT,
            "at": {"type": "number", "description": "Seconds from the origin."},
            "at_at": {"type": "string", "format": "date-time"},
            "left_out": {**_COUNT, "description": "Machines before `first` and after `most`."},
            "machines": {
                "type": "array",
                "items": _object(
                    {
                        "name": _TEXT,
                        "group": _TEXT,
                        "index": _COUNT,
                        "up": {"type": "boolean"},
                        "outage": {"type": ["object", "null"]},
                        "capacity": _AMOUNTS,
                        "used": {**_AMOUNTS, "description": "By the components that are there."},
                        "promised": {**_AMOUNTS, "description": "By the Plan's slots."},
                        "used_share": {
                            "type": "number",
                            "description": "Of the resource of which most is used; 1 is all.",
                        },
                        "promised_share": {
                            "type": "number",
                            "description": "Of the resource of which most is promised.",
                        },
                        "slots": {"type": "array", "items": _SLOT},
                        "components": {"type": "array", "items": _COMPONENT},
                    }
                ),
            },
        }
    )
}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/machines",
        "listMachines",
        "Each machine: up or away, its slots in the Plan, and the components on it.",
        _get,
        {200: Documented("The machines, by group.", json_of("Machines"))},
        problems=(Code.MALFORMED,),
        query=(
            text("group", "Only of this group.", default=None),
            text("name", "Only this machine.", default=None),
            integer("first", "How many are left out at the start.", 0, 10**9, default=0),
            integer("most", "How many are told; all when absent.", 1, 10**9, default=None),
            flag("brief", "Amounts only: slots and components are left empty."),
            moment("at", "The instant of slots and outages; now when absent."),
        ),
    ),
)
