"""YARN's reservation calls, under their own paths (docs/yarn.md says what differs)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rdl.text_file import name_form
from service.http.call import Call
from service.http.fields import Field, flag
from service.http.route import Body, Documented, FailureForm, Route, json_of
from service.problems import FieldError
from service.response import Response
from service.yarn import listing, submissions
from service.yarn.caller import YarnCaller, caller_of
from service.yarn.faults import YarnFault
from service.yarn.wire import answer, fault_response, problem_as_fault, read_body

if TYPE_CHECKING:
    from service.runtime import Runtime

_BASE: Final = "/ws/v1/cluster/reservation"

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": ["integer", "string"]}

_USER: Final = Field(
    "user.name", "Who calls, where no token says so.", _TEXT, lambda value: value, None
)

View: TypeAlias = "Callable[[Runtime, Call], Response]"


def _with_yarn_faults(view: Callable[[Runtime, Call, YarnCaller], Response]) -> View:
    """Return the view that knows its caller, and answers a fault in the form of YARN's."""

    @wraps(view)
    def once(runtime: Runtime, call: Call) -> Response:
        try:
            return view(runtime, call, caller_of(call.user, call.query["user.name"]))
        except YarnFault as fault:
            return fault_response(fault)

    return once


@_with_yarn_faults
def _new_reservation(runtime: Runtime, call: Call, _caller: YarnCaller) -> Response:
    made = {"reservation-id": submissions.new_reservation(runtime)}
    return answer(made)


@_with_yarn_faults
def _submit(runtime: Runtime, call: Call, caller: YarnCaller) -> Response:
    body = read_body(call.body, "reservation-submission-context")
    submissions.submit(runtime, caller, body)
    return Response(202, b"")


@_with_yarn_faults
def _update(runtime: Runtime, call: Call, caller: YarnCaller) -> Response:
    body = read_body(call.body, "reservation-update-context")
    submissions.update(runtime, caller, body)
    return answer({})


@_with_yarn_faults
def _delete(runtime: Runtime, call: Call, caller: YarnCaller) -> Response:
    body = read_body(call.body, "reservation-delete-context")
    submissions.delete(runtime, caller, body)
    return answer({})


@_with_yarn_faults
def _list(runtime: Runtime, call: Call, caller: YarnCaller) -> Response:
    query = call.query
    wanted = listing.YarnQuery(
        query["queue"],
        query["reservation-id"],
        query["start-time"],
        query["end-time"],
        query["include-resource-allocations"],
    )
    listed = listing.list_reservations(runtime, caller, wanted)
    return answer(listed)


def _moment(name: str, description: str, default: int) -> Field:
    """Return a query field for a time, Unix ms."""

    def read(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
            raise FieldError("write Unix time in ms, a whole number")
        return int(value)

    return Field(name, description, {"type": "integer"}, read, default)


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _closed_object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object in a body: other members are errors."""
    return {**_object(properties, *required), "additionalProperties": False}


_STAGE: Final = _closed_object(
    {
        "duration": _NUMBER,
        "num-containers": _NUMBER,
        "min-concurrency": _NUMBER,
        "capability": _closed_object({"memory": _NUMBER, "vCores": _NUMBER}),
    },
    "capability",
)

_DEFINITION: Final = _closed_object(
    {
        "arrival": _NUMBER,
        "deadline": _NUMBER,
        "reservation-name": _TEXT,
        "priority": _NUMBER,
        "recurrence-expression": _NUMBER,
        "reservation-requests": _closed_object(
            {
                "reservation-request-interpreter": _NUMBER,
                "reservation-request": {"anyOf": [_STAGE, {"type": "array", "items": _STAGE}]},
            },
            "reservation-request",
        ),
    },
    "arrival",
    "deadline",
    "reservation-requests",
)

_ID: Final = {"reservation-id": _TEXT}

#: Names of these schemas in OpenAPI's components.
SCHEMAS: Final[dict[str, Any]] = {
    "YarnDefinition": _DEFINITION,
    "YarnFault": _object(
        {
            "RemoteException": _object(
                {"exception": _TEXT, "message": _TEXT, "javaClassName": _TEXT},
                "exception",
                "message",
                "javaClassName",
            )
        },
        "RemoteException",
    ),
}


_FAILURE: Final = FailureForm(
    problem_as_fault,
    json_of("YarnFault"),
    {
        400: "What is wrong with the call, or why the Plan does not take it",
        401: "No user",
        403: "The user of YARN's pages where tokens are in force; a page from elsewhere",
        404: "An id that is none",
        500: "No queue takes reservations (new-reservation), or the server failed",
    },
)


def _change_answer(description: str) -> dict[int, Documented]:
    return {200: Documented(description, _object({}))}


def _route(
    method: str,
    path: str,
    name: str,
    summary: str,
    view: View,
    answers: dict[int, Documented],
    body: dict[str, Any] | None = None,
    query: tuple[Field, ...] = (),
) -> Route:
    return Route(
        method,
        f"{_BASE}/{path}",
        name,
        summary,
        view,
        answers,
        problems=("malformed", "not_found", "unavailable"),
        query=(_USER, *query),
        body=None if body is None else Body(body, None),
        failure=_FAILURE,
    )


ROUTES: Final = (
    _route(
        "POST",
        "new-reservation",
        "yarnNewReservation",
        "YARN: make the id of a reservation.",
        _new_reservation,
        {200: Documented("The id.", _object(_ID, "reservation-id"))},
    ),
    _route(
        "POST",
        "submit",
        "yarnSubmitReservation",
        "YARN: reserve; the same request under the same id again is answered alike.",
        _submit,
        {202: Documented("The reservation is promised and on disk; no body.")},
        _closed_object(
            {
                **_ID,
                "queue": _TEXT,
                "reservation-definition": json_of("YarnDefinition"),
            },
            "reservation-id",
            "queue",
            "reservation-definition",
        ),
    ),
    _route(
        "POST",
        "update",
        "yarnUpdateReservation",
        "YARN: swap the request of a reservation, or leave all as it was.",
        _update,
        _change_answer("The reservation holds what the new definition asks."),
        _closed_object(
            {**_ID, "queue": _TEXT, "reservation-definition": json_of("YarnDefinition")},
            "reservation-id",
            "reservation-definition",
        ),
    ),
    _route(
        "POST",
        "delete",
        "yarnDeleteReservation",
        "YARN: cancel a reservation.",
        _delete,
        _change_answer("The reservation is cancelled."),
        _closed_object(_ID, "reservation-id"),
    ),
    _route(
        "GET",
        "list",
        "yarnListReservations",
        "YARN: the reservations of a queue that a time touches.",
        _list,
        {
            200: Documented(
                "One reservation is an object, several are an array; numbers are strings.",
                _object({"reservations": {"type": ["object", "array"]}}),
            )
        },
        query=(
            Field("queue", "The queue.", _TEXT, name_form, "default"),
            Field(
                "reservation-id", "Only this one, at any time.", _TEXT, lambda value: value, None
            ),
            _moment("start-time", "Only what ends after this, Unix ms.", 0),
            _moment("end-time", "Only what begins by this, Unix ms; negative: no limit.", -1),
            flag("include-resource-allocations", "Say what each holds when."),
        ),
    ),
)
