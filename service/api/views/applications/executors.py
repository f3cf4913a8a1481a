"""Calls of executors: they register, report, and are told what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dispatch.backends.run_records import ExecutorState, RunState
from planner.placement import Code
from service.access.user import Role
from service.api.call import Call
from service.api.fields import (
    Field,
    choice,
    identifier,
    integer,
    read_fields,
    read_identifier,
    schema_of,
    text,
)
from service.api.route import Body, Documented, Route, links_from
from service.calls.applications import applications, executors
from service.problems import ApiError, FieldError, malformed_problem
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Most machines of one executor, and most runs in one report.
_MOST: Final = 10_000

_LONGEST_ID: Final = 64

_INSTANCE: Final = identifier(
    "instance",
    "Made once and kept beside what it runs: an executor that has lost its state is another one.",
)


def _array(name: str, description: str, entry: Field, least: int) -> Field:
    """Return a field for an array of values that `entry` reads."""

    def read(value: object) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= _MOST:
            raise FieldError(f"write an array of {least} to {_MOST:,} entries")
        return [entry.read(one) for one in value]

    schema = {"type": "array", "items": entry.schema, "minItems": least, "maxItems": _MOST}
    return Field(name, description, schema, read)


_REGISTRATION: Final = (
    _INSTANCE,
    _array("machines", "Machines that it runs components on.", text("name", "", longest=255), 1),
    text(
        "installation",
        "That of the server it works for, from an earlier answer: another server refuses it. "
        "Absent: any.",
        "",
        longest=64,
    ),
)

_REPORT: Final[tuple[Field, ...]] = (
    identifier("id", "The run."),
    choice(
        "state",
        "assigned: not begun yet; running; exited: code 0; failed: another code, or never begun; "
        "stopped: ended because it was not wanted any more; lost: ended by no fault of its own.",
        [state.value for state in RunState],
    ),
    integer("code", "Exit code; of a signal its number, negative.", -255, 2**31 - 1, None),
    text("detail", "What a person should know.", "", longest=1000),
)


def _report(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FieldError("write an object for each run")
    return read_fields(_REPORT, value, lambda name: f"/runs/{name}")


_SYNC: Final = (
    _INSTANCE,
    _array(
        "runs",
        "Everything it has begun and whose end was not settled: all of it in each report.",
        Field("run", "", schema_of(_REPORT), _report),
        0,
    ),
    integer(
        "after",
        "Number of the newest answer it has: a report that comes late is refused. Absent: nobody "
        "looks.",
        0,
        2**53,
        None,
    ),
)

_LEASE: Final = {
    "type": "number",
    "description": "Seconds without a report after which it is lost; by then it has stopped all.",
}
_NUMBER: Final = {
    "type": "integer",
    "description": "Number of this answer; the next report gives it back as `after`.",
}
_REGISTERED: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "lease": _LEASE,
        "installation": {
            "type": "string",
            "description": "Tells the database, and all servers on it, from others.",
        },
        "number": _NUMBER,
    },
    "required": ["id", "lease", "installation", "number"],
    "additionalProperties": False,
}
_ORDER: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "execution": {"type": "string"},
        "component": {"type": "string"},
        "index": {"type": "integer"},
        "machine": {"type": "string"},
        "application": {"type": "string"},
        "tenant": {"type": "string"},
        "command": {"type": ["string", "null"]},
        "image": {"type": ["string", "null"]},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "resources": {
            "type": "object",
            "description": "cpu in thousandths of a core, memory in MiB, others in units.",
            "additionalProperties": {"type": "integer"},
        },
    },
}
_TOLD: Final = {
    "type": "object",
    "properties": {
        "lease": _LEASE,
        "wanted": {
            "type": "array",
            "items": _ORDER,
            "description": "All that is to run; what else runs is to be stopped.",
        },
        "settled": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Runs whose end is recorded; they need not be reported again.",
        },
        "number": _NUMBER,
    },
    "required": ["lease", "wanted", "settled", "number"],
    "additionalProperties": False,
}
_EXECUTORS: Final = {
    "type": "object",
    "properties": {
        "executors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "machines": {"type": "array", "items": {"type": "string"}},
                    "state": {"enum": [state.value for state in ExecutorState]},
                    "registered_at": {"type": "string"},
                    "lost_at": {"type": ["string", "null"]},
                },
            },
        },
        "lease": {
            "type": "number",
            "description": "Seconds without a report after which one of them is lost.",
        },
    },
    "required": ["executors", "lease"],
    "additionalProperties": False,
}
_RUNS: Final = {
    "type": "object",
    "properties": {"runs": {"type": "array", "items": {"type": "object"}}},
    "required": ["runs"],
    "additionalProperties": False,
}


def _register(runtime: Runtime, call: Call) -> Response:
    new, answer = executors.register(runtime, _id_of(call), call.body)
    return Response(201 if new else 200, answer)


def _sync(runtime: Runtime, call: Call) -> Response:
    return Response(200, executors.sync(runtime, call.path["id"], call.body))


def _remove(runtime: Runtime, call: Call) -> Response:
    executors.remove(runtime, call.path["id"])
    return Response(200, {})


def _list(runtime: Runtime, _call: Call) -> Response:
    return Response(200, executors.list_executors(runtime))


def _runs(runtime: Runtime, call: Call) -> Response:
    applications.one(runtime, call.path["id"])
    return Response(200, executors.runs_of(runtime, call.path["id"]))


def _id_of(call: Call) -> str:
    """Return the id of an executor that registers.

    Raises
    ------
    ApiProblemError
        ``malformed`` for one that is too long or has other characters.
    """
    try:
        if len(call.path["id"]) > _LONGEST_ID:
            raise FieldError(f"write at most {_LONGEST_ID} characters")
        return read_identifier(call.path["id"])
    except FieldError as error:
        raise malformed_problem([ApiError(f"id: {error}", pointer="id")]) from error


_LINKS: Final = links_from(
    "$response.body#/id", "registerExecutor", "syncExecutor", "removeExecutor"
)
_EXAMPLE: Final = {"instance": "5f0c", "machines": ["plain-0"]}

ROUTES: Final = (
    Route(
        "PUT",
        "/v1/executors/{id}",
        "registerExecutor",
        "Say on which machines an executor runs components.",
        _register,
        {
            201: Documented("It is registered.", _REGISTERED, links=_LINKS),
            200: Documented("It was registered before.", _REGISTERED),
        },
        problems=(Code.MALFORMED, "wrong_state"),
        body=Body(schema_of(_REGISTRATION), _REGISTRATION, examples={"one machine": _EXAMPLE}),
        role=Role.OPERATOR,
    ),
    Route(
        "POST",
        "/v1/executors/{id}/sync",
        "syncExecutor",
        "Report all runs of an executor, and read what it is to run.",
        _sync,
        {200: Documented("What it is to run.", _TOLD)},
        problems=(Code.MALFORMED, "not_found", "wrong_state"),
        body=Body(schema_of(_SYNC), _SYNC),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/executors",
        "listExecutors",
        "What runs components on machines, and whether it reports.",
        _list,
        {200: Documented("The executors.", _EXECUTORS)},
        role=Role.OPERATOR,
    ),
    Route(
        "DELETE",
        "/v1/executors/{id}",
        "removeExecutor",
        "Forget an executor that runs nothing; its machines take nothing any more.",
        _remove,
        {200: Documented("It is forgotten.", {"type": "object", "maxProperties": 0})},
        problems=("not_found", "wrong_state"),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/applications/{id}/runs",
        "listRuns",
        "Every start of a component of an application: where, since when, how it ended.",
        _runs,
        {200: Documented("The runs, the oldest first.", _RUNS)},
        problems=("not_found",),
    ),
)
