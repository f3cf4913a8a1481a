"""Calls that answer why and when: explanations, estimates, and what became of promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.calls.reservations.explanation import explanation
from service.http.call import Call
from service.http.route import Documented, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_MAYBE: Final = {"type": ["number", "null"]}
_COUNT: Final = {"type": "integer", "minimum": 0}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_MAYBE_INSTANT: Final = {"type": ["string", "null"], "format": "date-time"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required or properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], description: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": items}
    return schema | {"description": description} if description else schema


_HOLDER: Final = _object(
    {
        "tenant": {
            "type": ["string", "null"],
            "description": "Null: all those that you do not see apart.",
        },
        "count": {**_COUNT, "description": "Reservations."},
        "amount": {"type": ["number", "string", "null"], "description": "Of the resource."},
        "reservations": {
            "type": ["array", "null"],
            "items": _TEXT,
            "description": "The largest of them, 20 at most; null where you do not see them.",
        },
    }
)

SCHEMAS: Final[dict[str, Any]] = {
    "Explanation": _object(
        {
            "id": _TEXT,
            "version": _COUNT,
            "state": _TEXT,
            "detail": {"type": "string", "description": "Why, in a sentence."},
            "code": {"type": "string", "description": "Of a refusal."},
            "agent": {"type": "string", "description": "Which placed it."},
            "window": {"type": ["array", "null"], "items": _NUMBER},
            "begin": _NUMBER,
            "finish": _NUMBER,
            "slack": {
                "type": "object",
                "description": "Seconds of the window before it begins and after it ends.",
            },
            "bound": {
                "type": "string",
                "enum": ["window", "capacity", "choice"],
                "description": "What keeps it from beginning earlier: its window, what others "
                "hold now, or only the preference of its agent.",
            },
            "binding": {
                "type": ["object", "null"],
                "description": "What is short, where and when; as of a refusal.",
            },
            "at_at": _MAYBE_INSTANT,
            "holders": _list(_HOLDER, "Who holds the resource of the binding at its instant."),
            "held_by": {"type": "string", "description": "The same in words; empty: nobody."},
            "options": _list(
                _object({"path": _TEXT, "taken": _COUNT, "options": _COUNT}),
                "Of each `any` that was reached: the option taken, and how many there were.",
            ),
            "alternatives": _list(
                _object(
                    {
                        "agent": _TEXT,
                        "begin": _NUMBER,
                        "finish": _NUMBER,
                        "taken": {
                            "type": "boolean",
                            "description": "Whether this agent placed it.",
                        },
                    }
                ),
                "Where quick agents would put it now, without itself; empty once it has begun.",
            ),
        },
        "id",
        "version",
        "state",
        "detail",
        "binding",
        "at_at",
        "holders",
    ),
}


def _explain(runtime: Runtime, call: Call) -> Response:
    return Response(200, explanation(runtime, call.path["id"], call.user))


ROUTES: Final = (
    Route(
        "GET",
        "/v1/reservations/{id}/explanation",
        "explainReservation",
        "Why a reservation stands where it does, or who holds what a refused request needed.",
        _explain,
        {200: Documented("The explanation, by the Plan as it is now.", json_of("Explanation"))},
        problems=("not_found",),
    ),
)
