"""Calls of optimisations: start, watch and stop one, apply what it found, undo it, delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from rdl.durations import TimeTextError, parse_duration
from service.access.user import Role
from service.api.call import Call
from service.api.fields import (
    ID_SCHEMA,
    LENGTH_PATTERN,
    Field,
    choice,
    flag,
    instant,
    integer,
    read_identifier,
    schema_of,
)
from service.api.route import Body, Documented, Route, json_of, links_from
from service.api.views.events.events import STREAM_HEADERS, longest
from service.calls.jobs import optimization_events as events
from service.calls.jobs import optimizations
from service.problems import FieldError
from service.response import JSON, Response
from service.streaming.event_text import MEDIA
from service.streaming.live_stream import LONGEST_S

if TYPE_CHECKING:
    from service.runtime import Runtime


#: Longest that one may take, ms.
_LONGEST_MS: Final = 3_600_000

#: Most pins of one request.
_MOST_PINS: Final = 10_000

#: Agents that bound the value; the optimiser chooses where nobody names one.
_SOLVERS: Final = ("auto", "none", "exact", "hybrid", "milp")

WEIGHTS: Final = ("reject", "churn", "falls", "cost")


def time_limit(
    description: str = "Stop after this long and keep the best Plan found.",
) -> Field:
    """Return a field for how long a search may take: 60 s when absent, an hour at most; ms."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError("write seconds, or a duration such as 5m")
        try:
            length = parse_duration(str(value))
        except TimeTextError as error:
            raise FieldError(str(error)) from error
        if not 0 < length <= _LONGEST_MS:
            raise FieldError("must be above 0 and at most 1h")
        return length

    schema = {
        "type": ["string", "number"],
        "exclusiveMinimum": 0,
        "maximum": _LONGEST_MS // 1000,
        "pattern": LENGTH_PATTERN,
        "default": 60,
        "examples": [60, "5m"],
    }
    return Field("time_limit", description, schema, read, 60_000)


def _pins() -> Field:
    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > _MOST_PINS:
            raise FieldError(f"write an array of at most {_MOST_PINS} ids")
        return tuple(read_identifier(one) for one in value)

    schema = {"type": "array", "items": ID_SCHEMA, "maxItems": _MOST_PINS}
    return Field("pins", "Reservations that are not changed.", schema, read, ())


def _weights() -> Field:
    def read(value: object) -> dict[str, float]:
        if not isinstance(value, dict) or not value.keys() <= set(WEIGHTS):
            raise FieldError(f"write an object of {', '.join(WEIGHTS)}")
        for name, weight in value.items():
            number = isinstance(weight, int | float) and not isinstance(weight, bool)
            if not number or not 0 <= weight <= _MOST_WEIGHT:
                raise FieldError(f"{name} must be a number between 0 and {_MOST_WEIGHT:g}")
        return {name: float(weight) for name, weight in value.items()}

    weight = {"type": "number", "minimum": 0, "maximum": _MOST_WEIGHT}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(WEIGHTS, weight),
        "additionalProperties": False,
    }
    description = "Weights of the shares; absent ones are 1000, 1, 0.5 and 0.5 (docs/optimize.md)."
    return Field("weights", description, schema, read, {})


_MOST_WEIGHT: Final = 1e9

OPTIMIZATION: Final[tuple[Field, ...]] = (
    time_limit(),
    integer(
        "work",
        "Stop after this many trials; the same number finds the same Plan.",
        0,
        10**6,
        default=None,
    ),
    integer("seed", "Seed of the random choices.", 0, 2**31 - 1, default=0),
    instant(
        "frozen_until",
        "Rows before this time do not move; when absent, time_limit and five minutes from now.",
        None,
    ),
    _pins(),
    flag("admit_refused", "Whether refused requests may be admitted."),
    _weights(),
    flag(
        "lexicographic",
        "Compare Plans by value refused; on a tie by work moved, then drops, then price.",
    ),
    choice("solver", "The solver that bounds the value.", _SOLVERS, default="auto"),
)

STATES: Final = (
    "running",
    "stopping",
    "finished",
    "stopped",
    "interrupted",
    "failed",
    "lost",
    "applied",
    "undone",
)

_TEXT: Final = {"type": "string"}
_OPTIMIZATION: Final = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "state": {"type": "string", "enum": list(STATES)},
        "reason": {"type": "string", "description": "Why it is in this state."},
        "created_at": {"type": "string", "format": "date-time"},
        "ended_at": {"type": ["string", "null"], "format": "date-time"},
        "asked": {"type": "object", "description": "What it was asked to do; times in steps."},
        "progress": {
            "type": "object",
            "description": "Best so far: elapsed (s), value, bound, gap, source; trace holds "
            "[elapsed, value, bound, source] of each better plan; based_on is the Plan's version.",
        },
        "result": {
            "type": ["object", "null"],
            "description": "Status, value, bound, gap, parts of the score before and after, and "
            "diff: who moves, comes in or goes, by how much, with the rows [start, end, bundles] "
            "that each held before and holds after; its times are seconds from its origin, "
            "an instant. left_out names who waited and has no place: id, code, detail.",
        },
    },
    "required": [
        "id", "state", "reason", "created_at", "ended_at", "asked", "progress", "result",
    ],
    "additionalProperties": False,
}  # fmt: skip

SCHEMAS: Final[dict[str, Any]] = {
    "Optimization": _OPTIMIZATION,
    "OptimizationList": {
        "type": "object",
        "properties": {
            "optimizations": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Optimization"},
            }
        },
        "required": ["optimizations"],
        "additionalProperties": False,
    },
    "AppliedOptimization": {
        "type": "object",
        "properties": {
            "version": {
                "type": "integer",
                "description": "Version of the Plan that holds the changes.",
            },
            "merged": {
                "type": "boolean",
                "description": "Whether the Plan had moved on meanwhile.",
            },
            "changed": {
                "type": "integer",
                "description": "Reservations that it moved or admitted.",
            },
            "left_out": {
                "type": "array",
                "description": "Changes that no longer fit, or gain nothing without the others.",
                "items": {
                    "type": "object",
                    "properties": {"id": _TEXT, "code": _TEXT, "detail": _TEXT},
                    "required": ["id", "code", "detail"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["version", "merged", "changed", "left_out"],
        "additionalProperties": False,
    },
    "UndoneOptimization": {
        "type": "object",
        "properties": {
            "version": {
                "type": "integer",
                "description": "Version of the Plan in which the changes were taken back.",
            },
            "changed": {
                "type": "integer",
                "description": "Reservations that went back, or were cancelled again.",
            },
            "left": {
                "type": "array",
                "description": "Reservations that stay as they are.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": _TEXT,
                        "code": {"type": "string", "enum": ["begun", "changed", "gone", "partial"]},
                        "detail": _TEXT,
                    },
                    "required": ["id", "code", "detail"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["version", "changed", "left"],
        "additionalProperties": False,
    },
}


#: One event; before OpenAPI 3.2 the schema of a stream describes each of them.
_EVENT: Final = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "ended", "forgotten"]},
        "data": {"type": "string", "contentMediaType": JSON},
    },
    "required": ["event", "data"],
}

#: Where to go on from one that is sought.
_NEXT: Final = (
    "getOptimization",
    "watchOptimization",
    "stopOptimization",
    "applyOptimization",
    "undoOptimization",
    "forgetOptimization",
)


def _post(runtime: Runtime, call: Call) -> Response:
    body = optimizations.start(runtime, call.body)
    return Response(202, body, {"Location": f"/v1/optimizations/{body['id']}"})


def _list(runtime: Runtime, _call: Call) -> Response:
    return Response(200, optimizations.page(runtime))


def _get(runtime: Runtime, call: Call) -> Response:
    return Response(200, optimizations.one(runtime, call.path["id"]))


def _events(runtime: Runtime, call: Call) -> Response:
    wait = call.query["wait"]
    longest_s = LONGEST_S if wait is None else wait / 1000
    return Response(200, events.events(runtime, call.path["id"], longest_s), STREAM_HEADERS, MEDIA)


def _stop(runtime: Runtime, call: Call) -> Response:
    return Response(202, optimizations.stop(runtime, call.path["id"]))


def _apply(runtime: Runtime, call: Call) -> Response:
    return optimizations.apply(runtime, call.path["id"], partial=call.query["partial"])


def _undo(runtime: Runtime, call: Call) -> Response:
    return optimizations.undo(runtime, call.path["id"])


def _delete(runtime: Runtime, call: Call) -> Response:
    optimizations.OPTIMIZATIONS.forget(runtime, call.path["id"])
    return Response(204)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/optimizations",
        "startOptimization",
        "Look for a better Plan, in which no promise is lowered; nothing changes until applied.",
        _post,
        {
            202: Documented(
                "The search has begun.",
                json_of("Optimization"),
                {"Location": "Where to ask."},
                links=links_from("$response.body#/id", *_NEXT),
            )
        },
        problems=(Code.MALFORMED, "too_many"),
        body=Body(schema_of(OPTIMIZATION), OPTIMIZATION),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/optimizations",
        "listOptimizations",
        "The last 100 optimisations, newest first, without their results.",
        _list,
        {200: Documented("The optimisations.", json_of("OptimizationList"))},
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/optimizations/{id}",
        "getOptimization",
        "One optimisation: its progress and what it found.",
        _get,
        {200: Documented("The optimisation.", json_of("Optimization"))},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/optimizations/{id}/events",
        "watchOptimization",
        "The progress of an optimisation as server-sent events.",
        _events,
        {
            200: Documented(
                "`progress` at every better plan or bound, then `ended` or `forgotten`; each holds "
                "an Optimization without its result.",
                _EVENT,
                media=MEDIA,
            )
        },
        problems=("not_found", "too_many"),
        role=Role.OPERATOR,
        query=(longest(),),
    ),
    Route(
        "POST",
        "/v1/optimizations/{id}/stop",
        "stopOptimization",
        "Stop an optimisation and keep the best Plan found.",
        _stop,
        {202: Documented("The optimisation stops, or is over already.", json_of("Optimization"))},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
    Route(
        "POST",
        "/v1/optimizations/{id}/apply",
        "applyOptimization",
        "Apply what it found, merged with what happened meanwhile; one that runs is stopped first.",
        _apply,
        {200: Documented("The Plan holds what was applied.", json_of("AppliedOptimization"))},
        problems=("not_found", "wrong_state", Code.CONFLICT),
        query=(flag("partial", "Take what still fits where not all of it does, not nothing."),),
        role=Role.OPERATOR,
    ),
    Route(
        "POST",
        "/v1/optimizations/{id}/undo",
        "undoOptimization",
        "Take back what an applied one changed, as far as nothing of it has begun since.",
        _undo,
        {
            200: Documented(
                "The Plan holds what it held before, but for what is `left`.",
                json_of("UndoneOptimization"),
            )
        },
        problems=("not_found", "wrong_state", Code.CONFLICT),
        role=Role.OPERATOR,
    ),
    Route(
        "DELETE",
        "/v1/optimizations/{id}",
        "forgetOptimization",
        "Delete an optimisation and what it found; one that runs ends.",
        _delete,
        {204: Documented("The optimisation is deleted.")},
        problems=("not_found",),
        role=Role.OPERATOR,
    ),
)
