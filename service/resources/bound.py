"""The bound: how much more any plan of the same requests could hold, also alongside an answer."""

from __future__ import annotations

import logging
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from planner.agent import BoundError
from planner.optimization.plan_bound import PlanBound
from service.http.kit import PLAN_TAG, Answer, Calls, Count, IfNoneMatch, doc, one_of, unchanged
from service.response import Response
from service.runtime import Runtime
from service.sentences import bound_sentence

logger = logging.getLogger("agenda.bound")

#: The member of an answer that holds the bound of the Plan.
_MEMBER: Final = "plan_bound"


class PlanBoundView(Answer):
    version: Annotated[Count, doc("Of the Plan.")]
    value: Annotated[
        float | None,
        doc("Of all reservations that hold something: weight x core-hours x preference."),
    ]
    asked: Annotated[
        float | None,
        doc("Of all that is held, and of all that was refused and could still come in."),
    ]
    bound: Annotated[
        float | None, doc("No plan of these requests holds more; null if they are too many.")
    ]
    gap: Annotated[float | None, doc("(bound - value) / bound.")]
    better: Annotated[
        float | None, doc("bound / value - 1: no plan is better by more; null where value is 0.")
    ]
    held: Annotated[Count, doc("How many reservations hold something.")]
    waiting: Annotated[Count, doc("How many requests were refused and could still come in.")]
    sentence: Annotated[str, doc("The same for people: the value, and how much more is possible.")]
    proof: Annotated[
        str,
        one_of(("all", "load", "columns", "none")),
        doc("all: what is asked; load: amounts; columns: prices; none: too many."),
    ]


calls = Calls()


@calls.get(
    "/v1/plan/bound",
    "Value and bound of all tenants together.",
    also={304: "The Plan is at the version of If-None-Match."},
    headers=PLAN_TAG,
)
def get_plan_bound(runtime: Runtime, tags: IfNoneMatch) -> Annotated[Response, PlanBoundView]:
    """What the Plan holds, and the most that any plan of the same requests could hold."""
    found = runtime.bounds.newest()
    tag = str(found.version)
    body = PlanBoundView(**_body_of(found))
    return unchanged(tags, tag) or Response(200, body, {"ETag": f'"{tag}"'})


def with_bound(runtime: Runtime, response: Response) -> Response:
    """Return an admission, or a refusal, with the bound of the Plan that shows it.

    What is promised is on disk by now: where no bound can be found the member is null.
    """
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return response
    body: dict[str, Any] = msgspec.json.decode(response.payload())
    if response.status >= HTTPStatus.BAD_REQUEST and "refusal" not in body:
        return response
    return replace(response, body=body | {_MEMBER: _found(runtime)})


def _body_of(found: PlanBound) -> dict[str, Any]:
    requests = found.holders + found.candidates
    return {
        **found.to_json(),
        "sentence": bound_sentence(found.value, found.bound, requests),
    }


def _found(runtime: Runtime) -> dict[str, Any] | None:
    try:
        return _body_of(runtime.bounds.newest())
    except BoundError:
        logger.exception("a bound lies below the Plan: it is left out")
        return None
