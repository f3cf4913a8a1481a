"""GET /v1/plan: capacity, allocated and free over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.placement import Code
from service.calls.plan import series as plan_series
from service.http.call import Call
from service.http.fields import flag, moment, span_of_time
from service.http.route import Documented, Header, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _plan(runtime: Runtime, call: Call) -> Response:
    start, end = runtime.resolve(call.query["from"]), runtime.resolve(call.query["to"])
    span = plan_series.PlanSpan(start, end, call.query["step"])
    with runtime.reading() as plan:
        tag = str(plan.version)
        headers = {"ETag": f'"{tag}"'}
        if {tag, "*"} & set(call.if_none_match()):
            return Response(304, headers=headers)
        series = plan_series.capture(plan, span, reservations=call.query["reservations"])
    held = series.reservations
    if held is not None and not call.user.sees_all:
        held = tuple(one for one in held if call.user.acts_for(one.tenant))
    return Response(200, replace(series, reservations=held).to_json(), headers)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/plan",
        "getPlan",
        "Capacity, allocated and free of each resource over time.",
        _plan,
        {
            200: Documented(
                "For each bucket the least capacity, the least free and the most allocated.",
                json_of("PlanSeries"),
                {"ETag": "Version of the Plan."},
            ),
            304: Documented("The Plan is at the version of If-None-Match."),
        },
        problems=(Code.MALFORMED,),
        query=(
            moment("from", "Start; now when absent. Rounded down to a step."),
            moment("to", "End; the horizon when absent. Rounded up to a step."),
            span_of_time("step", "Length of a bucket, a multiple of the Plan's step."),
            flag("reservations", "Also the reservations that hold something in that time."),
        ),
        headers=(Header("If-None-Match", "A version: answer 304 when the Plan is still there."),),
    ),
)
