"""GET /v1/machines: each machine, what is promised of it, and what runs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.call import Call
from service.api.fields import moment, text
from service.api.route import Documented, Route, json_of
from service.calls.cluster.machines import machines
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _get(runtime: Runtime, call: Call) -> Response:
    at_ms = runtime.resolve(call.query["at"])
    return Response(200, machines(runtime, call.user, call.query["group"], at_ms))


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
            moment("at", "The instant of slots and outages; now when absent."),
        ),
    ),
)
