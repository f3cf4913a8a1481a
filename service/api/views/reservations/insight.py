"""Calls that answer why and when: explanations, estimates, and what became of promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dispatch.accounts.promises import Outcome
from planner.placement import Code
from service.api.call import Call
from service.api.fields import choice, flag, moment, span_of_time
from service.api.route import Documented, Route, json_of
from service.calls.plan.promises import PromiseSpan, promises
from service.calls.reservations.explanation import explanation
from service.calls.reservations.start_estimate import estimate
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

_OUTCOMES: Final = {
    "promised": {**_COUNT, "description": "Not given up by their owners."},
    "kept": {**_COUNT, "description": "Had their machines whenever they were due."},
    "degraded": {**_COUNT, "description": "Lacked machines while they were due."},
    "failed": {**_COUNT, "description": "Did not get back what they lost."},
    "moved": {**_COUNT, "description": "Stand elsewhere than at first."},
    "unused": {
        **_COUNT,
        "description": "Covered nothing for a time in which an application waited.",
    },
    "late": {**_COUNT, "description": "Work ended after the reservation; kept or not."},
    "below": {**_COUNT, "description": "Are owed machines now and lack some."},
    "cancelled": {**_COUNT, "description": "Given up by their owners."},
    "below_s": {
        **_NUMBER,
        "description": "Seconds below their entitlement, as observed.",
    },
}

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
    "StartEstimate": _object(
        {
            "id": _TEXT,
            "state": _TEXT,
            "start": {**_MAYBE, "description": "Seconds from the origin; null: cannot be told."},
            "start_at": _MAYBE_INSTANT,
            "basis": {
                "type": "string",
                "enum": ["started", "reservation", "queue", "none"],
                "description": "What it rests on: it has started, its reservation, or the queue.",
            },
            "detail": _TEXT,
            "before": {**_COUNT, "description": "Applications submitted before it, not over."},
            "without_size": {
                **_COUNT,
                "description": "Those of them without a size: counted as if they never ended.",
            },
        }
    ),
    "Promises": _object(
        {
            "version": _COUNT,
            "from": _NUMBER,
            "to": _NUMBER,
            "from_at": _INSTANT,
            "to_at": _INSTANT,
            "tenants": _list(
                _object(
                    {
                        "tenant": {
                            "type": ["string", "null"],
                            "description": "Null: all those that you do not see apart.",
                        },
                        **_OUTCOMES,
                    }
                )
            ),
            "times": _list(
                _object({"from": _NUMBER, "to": _NUMBER, "from_at": _INSTANT, **_OUTCOMES}),
                "Each part of the time, where `step` is given: of all tenants together.",
            ),
            "reservations": _list(
                _object(
                    {
                        "id": _TEXT,
                        "tenant": _TEXT,
                        "promise": {"type": "string", "enum": [str(one) for one in Outcome]},
                        "is_over": {"type": "boolean"},
                    }
                ),
                "Each that you act for, where `each` is given.",
            ),
        }
    ),
}


def _explain(runtime: Runtime, call: Call) -> Response:
    return Response(200, explanation(runtime, call.path["id"], call.user))


def _estimate(runtime: Runtime, call: Call) -> Response:
    return Response(200, estimate(runtime, call.path["id"], call.user))


def _promises(runtime: Runtime, call: Call) -> Response:
    start, end = runtime.resolve(call.query["from"]), runtime.resolve(call.query["to"])
    wanted = PromiseSpan(start, end, call.query["step"], call.query["each"])
    return Response(200, promises(runtime, call.user, wanted))


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
    Route(
        "GET",
        "/v1/applications/{id}/estimate",
        "estimateStart",
        "When an application may start: an estimate, from what the Plan leaves free.",
        _estimate,
        {200: Documented("The estimate, and what it rests on.", json_of("StartEstimate"))},
        problems=("not_found",),
    ),
    Route(
        "GET",
        "/v1/promises",
        "getPromises",
        "What became of promises, tenant by tenant: kept, degraded, unused, failed, late, below.",
        _promises,
        {200: Documented("The counts.", json_of("Promises"))},
        problems=(Code.MALFORMED,),
        query=(
            choice("by", "What is counted apart.", ("tenant",), default="tenant"),
            moment("from", "Start; the origin when absent."),
            moment("to", "End; now when absent."),
            span_of_time("step", "Count each part of that length apart, too."),
            flag("each", "Tell what became of each reservation, too."),
        ),
    ),
)
