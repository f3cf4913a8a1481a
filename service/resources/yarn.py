"""YARN's reservation calls, under their own paths (docs/yarn.md lists the differences)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final, TypeVar

import msgspec

from rdl.text_file import name_form
from service.access.user import User
from service.http.kinds import Flag, MemberKind
from service.http.kit import Calls, Input, doc
from service.http.route import FailureForm, json_of
from service.problems import FieldError
from service.response import Response
from service.runtime import Runtime
from service.yarn import listing, submissions
from service.yarn.caller import caller_of
from service.yarn.faults import YarnFault, answer, fault_response, problem_as_fault, read_body

_BASE: Final = "/ws/v1/cluster/reservation"

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": ["integer", "string"]}

_PLAIN: Final = MemberKind(_TEXT, lambda value: value)


def _read_time(value: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
        raise FieldError("write Unix time in ms, a whole number")
    return int(value)


_TIME: Final = MemberKind({"type": "integer"}, _read_time)


class YarnCallQuery(Input):
    user: Annotated[str | None, _PLAIN, doc("Name of the caller, if no token identifies it.")] = (
        msgspec.field(default=None, name="user.name")
    )


class YarnListQuery(YarnCallQuery):
    queue: Annotated[str, MemberKind(_TEXT, name_form), doc("The queue.")] = "default"
    id: Annotated[str | None, _PLAIN, doc("Only this reservation, at any time.")] = msgspec.field(
        default=None, name="reservation-id"
    )
    start: Annotated[int, _TIME, doc("Only reservations that end after this time, Unix ms.")] = (
        msgspec.field(default=0, name="start-time")
    )
    end: Annotated[
        int, _TIME, doc("Only reservations that begin by this time, Unix ms; negative: no limit.")
    ] = msgspec.field(default=-1, name="end-time")
    allocations: Annotated[Flag, doc("Add the allocation of each reservation over time.")] = (
        msgspec.field(default=False, name="include-resource-allocations")
    )


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _closed_object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object in a body, in which other members are errors."""
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

_FAILURE: Final = FailureForm(
    problem_as_fault,
    json_of("YarnFault"),
    {
        400: "The error in the call, or the reason of the refusal",
        401: "No user",
        403: "The user of YARN's pages if tokens are required; a page of another site",
        404: "An invalid id",
        500: "No queue accepts reservations (new-reservation), or the server failed",
    },
)

_CALL: Final[dict[str, Any]] = {
    "fails": ("malformed", "not_found", "unavailable"),
    "failure": _FAILURE,
}
_SUBMISSION: Final = _closed_object(
    {**_ID, "queue": _TEXT, "reservation-definition": json_of("YarnDefinition")},
    "reservation-id",
    "queue",
    "reservation-definition",
)
_UPDATE: Final = {**_SUBMISSION, "required": ["reservation-id", "reservation-definition"]}
_DELETION: Final = _closed_object(_ID, "reservation-id")
_MADE: Final = _object(_ID, "reservation-id")
_LISTED: Final = _object({"reservations": {"type": ["object", "array"]}})
_NOTHING: Final = _object({})

calls = Calls(
    schemas={
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
)

Handler = TypeVar("Handler", bound=Callable[..., Response])


def _with_yarn_faults(handler: Handler) -> Handler:
    """Return the handler with faults in YARN's format."""

    @wraps(handler)
    def once(**given: Any) -> Response:
        try:
            return handler(**given)
        except YarnFault as fault:
            return fault_response(fault)

    return once  # type: ignore[return-value]


@calls.post(f"{_BASE}/new-reservation", "The id.", **_CALL)
@_with_yarn_faults
def yarn_new_reservation(
    runtime: Runtime, user: User, query: YarnCallQuery
) -> Annotated[Response, _MADE]:
    """YARN: create the id of a reservation."""
    caller_of(user, query.user)
    return answer({"reservation-id": submissions.new_reservation(runtime)})


@calls.post(
    f"{_BASE}/submit", "The reservation is promised and on disk; no body.", status=202, **_CALL
)
@_with_yarn_faults
def yarn_submit_reservation(
    runtime: Runtime, user: User, query: YarnCallQuery, body: Annotated[Any, _SUBMISSION]
) -> Annotated[Response, None]:
    """YARN: submit a reservation; repeating the call with the same id returns the same answer."""
    caller = caller_of(user, query.user)
    submissions.submit(runtime, caller, read_body(body, "reservation-submission-context"))
    return Response(202, b"")


@calls.post(f"{_BASE}/update", "The reservation has the allocation of the new definition.", **_CALL)
@_with_yarn_faults
def yarn_update_reservation(
    runtime: Runtime, user: User, query: YarnCallQuery, body: Annotated[Any, _UPDATE]
) -> Annotated[Response, _NOTHING]:
    """YARN: replace the request of a reservation, or leave everything unchanged."""
    caller = caller_of(user, query.user)
    submissions.update(runtime, caller, read_body(body, "reservation-update-context"))
    return answer({})


@calls.post(f"{_BASE}/delete", "The reservation is cancelled.", **_CALL)
@_with_yarn_faults
def yarn_delete_reservation(
    runtime: Runtime, user: User, query: YarnCallQuery, body: Annotated[Any, _DELETION]
) -> Annotated[Response, _NOTHING]:
    """YARN: cancel a reservation."""
    caller = caller_of(user, query.user)
    submissions.delete(runtime, caller, read_body(body, "reservation-delete-context"))
    return answer({})


@calls.get(
    f"{_BASE}/list",
    "One reservation is an object, several are an array; numbers are strings.",
    **_CALL,
)
@_with_yarn_faults
def yarn_list_reservations(
    runtime: Runtime, user: User, query: YarnListQuery
) -> Annotated[Response, _LISTED]:
    """YARN: the reservations of a queue that overlap a period."""
    wanted = listing.YarnQuery(query.queue, query.id, query.start, query.end, query.allocations)
    return answer(listing.list_reservations(runtime, caller_of(user, query.user), wanted))
