"""Calls of comparisons: agents side by side on the Plan's requests, or on a workload sent along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.agents import COMPARED_AGENTS
from planner.placement import Code
from service.access.user import Role
from service.api.call import Call
from service.api.fields import Field, instant, integer, schema_of
from service.api.route import Body, Documented, Route, json_of, links_from
from service.api.views.jobs.optimizations import time_limit
from service.calls.jobs import comparisons
from service.problems import FieldError
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Most agents of one comparison.
_MOST_AGENTS: Final = 14


#: Agents of a comparison that names none.
_USUAL: Final = list(COMPARED_AGENTS)


def _agents() -> Field:
    def read(value: object) -> list[str]:
        named = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not isinstance(value, list) or not named or not 0 < len(value) <= _MOST_AGENTS:
            raise FieldError("write an array of names of agents")
        return value

    schema = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": _MOST_AGENTS,
        "default": _USUAL,
        "examples": [_USUAL],
    }
    return Field("agents", "Names of agents, each once.", schema, read, _USUAL)


def _workload() -> Field:
    def read(value: object) -> list[Any]:
        if not isinstance(value, list) or not 0 < len(value) <= comparisons.MOST_LINES:
            raise FieldError(f"write an array of 1 to {comparisons.MOST_LINES} lines of a workload")
        return value

    schema = {
        "type": "array",
        "items": {"type": "object"},
        "minItems": 1,
        "maxItems": comparisons.MOST_LINES,
    }
    told = "Lines of a workload file; when absent, the requests that the Plan remembers."
    return Field("workload", told, schema, read, None)


COMPARISON: Final[tuple[Field, ...]] = (
    _agents(),
    time_limit("Stop each agent after this long and keep its best Plan."),
    integer("seed", "Seed of the random choices.", 0, 2**31 - 1, default=0),
    instant("since", "Of the Plan only requests submitted from then on.", None),
    _workload(),
)

_TEXT: Final = {"type": "string"}
_STATES: Final = ("running", "stopping", "finished", "stopped", "interrupted", "failed", "lost")
_FIELDS: Final = {
    "id": _TEXT,
    "state": {"type": "string", "enum": list(_STATES)},
    "reason": {"type": "string", "description": "Why it is in this state."},
    "created_at": {"type": "string", "format": "date-time"},
    "ended_at": {"type": ["string", "null"], "format": "date-time"},
    "asked": {"type": "object"},
    "phase": {"type": "string", "description": "How far it is, in words."},
    "result": {
        "type": ["object", "null"],
        "description": "baseline, bound_by (the agent that gave the least bound), agents (basis, "
        "metrics, work, relative to the baseline, differences), disagreements: what `agenda "
        "compare -o json` prints; with requests, how many were planned, based_on, the version of "
        "the Plan, and skylines: what each agent's Plan holds over time, by resource and tenant, "
        "on one axis. Basis is plan (the Plan as it stands, value and bound of /v1/plan/bound), "
        "arrival (requests answered one by one, as a server does) or hindsight (all requests known "
        "at once).",
    },
}

SCHEMAS: Final[dict[str, Any]] = {
    "Comparison": {
        "type": "object",
        "properties": _FIELDS,
        "required": list(_FIELDS),
        "additionalProperties": False,
    },
    "ComparisonList": {
        "type": "object",
        "properties": {
            "comparisons": {"type": "array", "items": {"$ref": "#/components/schemas/Comparison"}}
        },
        "required": ["comparisons"],
        "additionalProperties": False,
    },
}


def _post(runtime: Runtime, call: Call) -> Response:
    body = comparisons.start(runtime, call.body)
    return Response(202, body, {"Location": f"/v1/comparisons/{body['id']}"})


def _list(runtime: Runtime, _call: Call) -> Response:
    return Response(200, comparisons.page(runtime))


def _get(runtime: Runtime, call: Call) -> Response:
    return Response(200, comparisons.one(runtime, call.path["id"]))


def _stop(runtime: Runtime, call: Call) -> Response:
    return Response(202, comparisons.stop(runtime, call.path["id"]))


def _delete(runtime: Runtime, call: Call) -> Response:
    comparisons.COMPARISONS.forget(runtime, call.path["id"])
    return Response(204)


_NEXT: Final = ("getComparison", "stopComparison", "forgetComparison")

ROUTES: Final = (
    Route(
        "POST",
        "/v1/comparisons",
        "startComparison",
        "Plan the same requests from nothing with several agents, beside the service.",
        _post,
        {
            202: Documented(
                "It has begun.",
                json_of("Comparison"),
                {"Location": "Where to ask."},
                links=links_from("$response.body#/id", *_NEXT),
            )
        },
        problems=(Code.MALFORMED, "too_many"),
        body=Body(
            schema_of(COMPARISON),
            COMPARISON,
            examples={"two heuristics": {"agents": ["gree", "headroom"], "time_limit": 5}},
        ),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/comparisons",
        "listComparisons",
        "The comparisons that are remembered, newest first, without their results.",
        _list,
        {200: Documented("The comparisons.", json_of("ComparisonList"))},
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/comparisons/{id}",
        "getComparison",
        "One comparison: where it is, and what it found.",
        _get,
        {200: Documented("The comparison.", json_of("Comparison"))},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
    Route(
        "POST",
        "/v1/comparisons/{id}/stop",
        "stopComparison",
        "Stop a comparison: the agent at work ends with its best, those after it are left out.",
        _stop,
        {202: Documented("It stops, or is over already.", json_of("Comparison"))},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
    Route(
        "DELETE",
        "/v1/comparisons/{id}",
        "forgetComparison",
        "Delete a comparison and what it found; one that runs ends.",
        _delete,
        {204: Documented("The comparison is deleted.")},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
)
