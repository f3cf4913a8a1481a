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
        doc("Value of all current reservations: weight x core-hours x preference."),
    ]
    asked: Annotated[
        float | None,
        doc(
            "Value of all current reservations and of the refused requests that could still be "
            "accepted."
        ),
    ]
    bound: Annotated[
        float | None,
        doc("Upper bound on the value of any plan of these requests; null if they are too many."),
    ]
    gap: Annotated[float | None, doc("(bound - value) / bound.")]
    better: Annotated[
        float | None, doc("bound / value - 1, the largest possible gain; null if value is 0.")
    ]
    held: Annotated[Count, doc("Number of current reservations.")]
    waiting: Annotated[Count, doc("Number of refused requests that could still be accepted.")]
    sentence: Annotated[str, doc("The value and the possible gain as text.")]
    proof: Annotated[
        str,
        one_of(("all", "load", "columns", "none")),
        doc(
            "Method: all (sum of all requests), load (totals), columns (prices), none (too many "
            "requests)."
        ),
    ]


calls = Calls()


@calls.get(
    "/v1/plan/bound",
    "Value and bound of all tenants together.",
    also={304: "The Plan is at the version of If-None-Match."},
    headers=PLAN_TAG,
)
def get_plan_bound(runtime: Runtime, tags: IfNoneMatch) -> Annotated[Response, PlanBoundView]:
    """The value of the Plan, and an upper bound for any plan of the same requests."""
    found = runtime.bounds.newest()
    tag = str(found.version)
    body = PlanBoundView(**_body_of(found))
    return unchanged(tags, tag) or Response(200, body, {"ETag": f'"{tag}"'})


def with_bound(runtime: Runtime, response: Response) -> Response:
    """Return an admission, or a refusal, with the bound of the Plan that shows it.

    The promises are already on disk: if no bound can be found the member is null.
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
        logger.exception("a bound is below the value of the Plan and is omitted")
        return None
