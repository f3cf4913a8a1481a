"""POST, GET and DELETE /v1/applications: submit, look at and end what runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dispatch.applications.document import COVERS
from dispatch.executions.states import ExecutionState
from planner.placement import Code
from service.api.call import Call
from service.api.fields import Field, any_value, choice, flag, identifier, integer, schema_of, text
from service.api.idempotency import KEY, with_key
from service.api.route import Body, Documented, Route, json_of, links_from
from service.calls.applications import applications
from service.commits.changes.commands import Key
from service.commits.screening.ownership import own_filter
from service.problems import FieldError
from service.response import Response
from service.store import PageOf

if TYPE_CHECKING:
    from service.runtime import Runtime

_EXAMPLE: Final = {
    "name": "workers",
    "components": [{"name": "worker", "count": 2, "core": True, "resources": {"cpu": 1}}],
}

_SUBMISSION: Final[tuple[Field, ...]] = (
    identifier("id", "Unique among applications; made by the server when absent.", default=None),
    text(
        "tenant",
        "The tenant that submits it; the caller's only one, or `default`, when absent.",
        default=None,
    ),
    text(
        "queue",
        "The queue that policies count it in; that of its reservation, or `default`, when absent.",
        None,
    ),
    text(
        "reservation",
        "The reservation it runs under; the one that the application names when absent.",
        None,
    ),
    text("atom", "Path of the atom of the reservation that it runs under.", None),
    flag(
        "close_on_end",
        "Close its reservation once it has completed and no other application names it.",
    ),
    choice(
        "cover",
        "Whether its reservation is to cover it; with `none` it runs as best effort. As the "
        "application says when absent.",
        COVERS,
        default=None,
    ),
    any_value(
        "application",
        "Agenda's own form (docs/dispatch.md), or a ZApp of format 3.",
        {"type": "object", "examples": [_EXAMPLE]},
    ),
)


@with_key
def _post(runtime: Runtime, call: Call, key: Key | None) -> Response:
    return applications.submit(runtime, call.body, key)


def _list(runtime: Runtime, call: Call) -> Response:
    query = call.query
    tenant = own_filter(call.user, query["tenant"])
    wanted = PageOf(query["cursor"], query["state"], tenant, query["limit"], call.user.scope)
    return Response(200, applications.page(runtime, wanted))


_CURSOR: Final = re.compile(r"(-?[0-9]{1,17}):([A-Za-z0-9_.:@+~-]{1,128})")


def _read_cursor(text: str) -> tuple[int, str]:
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise FieldError(f"{text!r} is no cursor; send the `next` of the page before")
    return int(match[1]), match[2]


def _get(runtime: Runtime, call: Call) -> Response:
    return Response(200, applications.one(runtime, call.path["id"]))


def _delete(runtime: Runtime, call: Call) -> Response:
    return Response(202, applications.end(runtime, call.path["id"]))


_STATES: Final = tuple(state.value for state in ExecutionState)

_TIME: Final = {"type": ["number", "null"], "description": "Seconds from the origin."}
_COUNT: Final = {"type": "integer", "minimum": 0}

SCHEMAS: Final[dict[str, Any]] = {
    "Application": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "tenant": {"type": "string"},
            "queue": {"type": "string", "description": "Policies count it in this queue."},
            "submitted": {"type": "number", "description": "Seconds from the origin."},
            "submitted_at": {"type": "string", "format": "date-time"},
            "state": {"type": "string", "enum": list(_STATES)},
            "reason": {"type": "string", "description": "Why it waits, or how it ended."},
            "started": _TIME,
            "ended": _TIME,
            "components": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "core": {"type": "boolean"},
                        "wanted": _COUNT,
                        "grown": {**_COUNT, "description": "Above what was asked for."},
                        "assigned": {**_COUNT, "description": "Components that have a machine."},
                        "running": {**_COUNT, "description": "Components that have started."},
                        "covered": {**_COUNT, "description": "Components under a reservation."},
                        "reason": {"type": "string", "description": "Why not all of them can run."},
                    },
                    "required": ["name", "core", "wanted", "assigned", "running", "covered"],
                },
            },
            "notes": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What its owner should know of how it runs.",
            },
            "application": {"type": "object", "description": "As submitted, in Agenda's form."},
        },
        "required": [
            "id", "tenant", "queue", "submitted", "submitted_at", "state", "reason", "started",
            "ended", "components", "notes", "application",
        ],
    },
    "ApplicationPage": {
        "type": "object",
        "properties": {
            "applications": {"type": "array", "items": json_of("Application")},
            "next": {"type": ["string", "null"], "description": "Cursor of the next page."},
        },
        "required": ["applications", "next"],
    },
}  # fmt: skip

ROUTES: Final = (
    Route(
        "POST",
        "/v1/applications",
        "createApplication",
        "Submit an application; 201 means it is on disk and will be dispatched.",
        _post,
        {
            201: Documented(
                "The application is on disk and will be dispatched.",
                json_of("Application"),
                {"Location": "Path of the application."},
                links=links_from(
                    "$response.body#/id",
                    "getApplication",
                    "endApplication",
                    "listRuns",
                    "estimateStart",
                ),
            )
        },
        problems=(
            Code.MALFORMED,
            "not_found",
            Code.DUPLICATE_ID,
            "wrong_state",
            "not_covered",
            Code.UNSATISFIABLE,
            Code.QUOTA,
            Code.COUNT_LIMIT,
            "idempotency_mismatch",
        ),
        headers=KEY,
        body=Body(
            schema_of(_SUBMISSION), _SUBMISSION, examples={"two workers": {"application": _EXAMPLE}}
        ),
    ),
    Route(
        "GET",
        "/v1/applications",
        "listApplications",
        "Applications by submission, a page at a time.",
        _list,
        {200: Documented("A page of applications.", json_of("ApplicationPage"))},
        problems=(Code.MALFORMED,),
        query=(
            choice("state", "Only in this state.", _STATES, default=None),
            text("tenant", "Only of this tenant.", default=None),
            Field(
                "cursor",
                "The `next` of the page before.",
                {"type": "string", "pattern": f"^{_CURSOR.pattern}$"},
                _read_cursor,
                None,
            ),
            integer("limit", "Largest number of entries.", 1, 1000, default=100),
        ),
    ),
    Route(
        "GET",
        "/v1/applications/{id}",
        "getApplication",
        "One application and its state.",
        _get,
        {200: Documented("The application.", json_of("Application"))},
        problems=("not_found",),
    ),
    Route(
        "DELETE",
        "/v1/applications/{id}",
        "endApplication",
        "End an application: its components are stopped at the next tick.",
        _delete,
        {202: Documented("The application is ending, or is over already.", json_of("Application"))},
        problems=("not_found",),
    ),
)
