"""The Plan as pictures need it: a skyline in layers, bars in columns, and who its tenants are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.calls.plan.bar_choice import ORDERS, BarChoice
from service.calls.plan.bars import MOST_BARS, BarSpan, bars
from service.calls.plan.counts import counts
from service.calls.plan.series import PlanSpan
from service.calls.plan.skyline import DIVISIONS, skyline
from service.calls.plan.tenants import tenants
from service.commits.screening.ownership import own_filter
from service.http.call import Call
from service.http.fields import Field, choice, flag, integer, moment, span_of_time, text
from service.http.route import Documented, Header, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_SLOT: Final = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Order of first appearance among all tenants; it never changes.",
}


def _list(items: dict[str, Any], description: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": items}
    return schema | {"description": description} if description else schema


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


_SPAN: Final = {
    "version": _COUNT,
    "from": _NUMBER,
    "to": _NUMBER,
    "step": _NUMBER,
    "from_at": _INSTANT,
    "to_at": _INSTANT,
    "now": _NUMBER,
}
_NUMBERS: Final = _list(_NUMBER)

SCHEMAS: Final[dict[str, Any]] = {
    "Skyline": _object(
        {
            **_SPAN,
            "resource": _TEXT,
            "unit": _TEXT,
            "by": {"type": "string", "enum": list(DIVISIONS)},
            "capacity": _NUMBERS,
            "free": _NUMBERS,
            "layers": _list(
                _object(
                    {
                        "name": {
                            "type": ["string", "null"],
                            "description": "Null: all that you do not see apart.",
                        },
                        "slot": _SLOT,
                        "amounts": _NUMBERS,
                    }
                ),
                "Of each bucket what is held at the step at which most is held in all.",
            ),
        }
    ),
    "Bars": _object(
        {
            **_SPAN,
            "tenants": _list(_object({"name": _TEXT, "slot": _SLOT})),
            "states": _list(_TEXT, "Words of `state`, by number."),
            "id": _list(_TEXT),
            "tenant": _list(_COUNT, "Place in `tenants`."),
            "state": _list(_COUNT, "Place in `states`."),
            "begin": _list(_NUMBER, "Seconds from the origin."),
            "finish": _list(_NUMBER, "The horizon for what has no end."),
            "endless": _list(_COUNT, "Places of the bars that have no end."),
            "window_from": _list({"type": ["number", "null"]}, "Start of the request's window."),
            "window_until": _list({"type": ["number", "null"]}, "End of the request's window."),
            "rows": _list(_COUNT, "How many of the rows below each bar has, in order."),
            "row_after": _list(
                _NUMBER,
                "Seconds after the end of the bar's row before it, or after the bar's begin; below "
                "0 where atoms run beside each other.",
            ),
            "row_length": _list(_NUMBER, "Seconds."),
            "row_bundles": _list(_COUNT),
            "total": {**_COUNT, "description": "How many there are, sent or not."},
            "others": {**_COUNT, "description": "Reservations there that you do not see."},
        },
        "rows",
        "row_after",
        "row_length",
        "row_bundles",
    ),
    "PlanCounts": _object(
        {
            **{name: schema for name, schema in _SPAN.items() if name != "step"},
            "states": {
                "type": "object",
                "description": "How many of each state; `refused` counts by submission.",
                "additionalProperties": _COUNT,
            },
        }
    ),
    "TenantList": _object(
        {
            "version": _COUNT,
            "tenants": _list(_object({"name": _TEXT, "slot": _SLOT})),
            "others": {**_COUNT, "description": "Tenants that you do not see."},
        }
    ),
}


def _is_known(runtime: Runtime, call: Call) -> Response | None:
    """Return 304 where the client has the Plan's version already."""
    tags = call.if_none_match()
    if not tags:
        return None
    with runtime.reading() as plan:
        tag = str(plan.version)
    return Response(304, headers={"ETag": f'"{tag}"'}) if {tag, "*"} & set(tags) else None


def _with_tag(body: dict[str, Any]) -> Response:
    return Response(200, body, {"ETag": f'"{body["version"]}"'})


def _skyline(runtime: Runtime, call: Call) -> Response:
    known = _is_known(runtime, call)
    if known is not None:
        return known
    query = call.query
    start, end = runtime.resolve(query["from"]), runtime.resolve(query["to"])
    span = PlanSpan(start, end, query["step"])
    with runtime.reading() as plan:
        body = skyline(plan, span, query["resource"], query["by"], call.user)
    return _with_tag(body)


def _bars(runtime: Runtime, call: Call) -> Response:
    tenant = own_filter(call.user, call.query["tenant"])
    known = _is_known(runtime, call)
    if known is not None:
        return known
    query = call.query
    start, end = runtime.resolve(query["from"]), runtime.resolve(query["to"])
    part = BarChoice(query["most"], query["order"], query["spread"], query["find"])
    wanted = BarSpan(start, end, tenant, query["rows"], part)
    return _with_tag(bars(runtime.reading, runtime.windows, wanted, call.user))


def _counts(runtime: Runtime, call: Call) -> Response:
    start, end = runtime.resolve(call.query["from"]), runtime.resolve(call.query["to"])
    with runtime.reading() as plan:
        return Response(200, counts(plan, BarSpan(start, end), call.user))


def _tenants(runtime: Runtime, call: Call) -> Response:
    return Response(200, tenants(runtime, call.user))


_TAG: Final = {"ETag": "Version of the Plan."}
_MATCH: Final = (Header("If-None-Match", "A version: answer 304 when the Plan is still there."),)
_UNCHANGED: Final = Documented("The Plan is at the version of If-None-Match.")
_TIMES: Final[tuple[Field, ...]] = (
    moment("from", "Start; now when absent. Rounded down to a step."),
    moment("to", "End; the horizon when absent. Rounded up to a step."),
)

ROUTES: Final = (
    Route(
        "GET",
        "/v1/plan/skyline",
        "getSkyline",
        "What holds a resource over time, apart by tenant, queue or state.",
        _skyline,
        {200: Documented("The layers of one resource.", json_of("Skyline"), _TAG), 304: _UNCHANGED},
        problems=(Code.MALFORMED,),
        query=(
            text("resource", "Of which resource; the scarcest when absent.", default=None),
            choice("by", "What layers stand for.", DIVISIONS, default="tenant"),
            *_TIMES,
            span_of_time("step", "Length of a bucket, a multiple of the Plan's step."),
        ),
        headers=_MATCH,
    ),
    Route(
        "GET",
        "/v1/plan/bars",
        "getBars",
        "The reservations that hold something in a time, as columns.",
        _bars,
        {
            200: Documented("One entry a bar in each column.", json_of("Bars"), _TAG),
            304: _UNCHANGED,
        },
        problems=(Code.MALFORMED,),
        query=(
            *_TIMES,
            text("tenant", "Only of this tenant.", default=None),
            flag("rows", "Also what each holds over time."),
            integer("most", "Send at most so many of them.", 1, MOST_BARS, default=None),
            choice("order", "Of many, send the first by this.", ORDERS, default="admission"),
            flag("spread", "Of many, send those that lie evenly over all in that order."),
            text("find", "Only those with this in their id.", default=""),
        ),
        headers=_MATCH,
    ),
    Route(
        "GET",
        "/v1/plan/counts",
        "getPlanCounts",
        "How many reservations of each state a time holds, and how many requests it refused.",
        _counts,
        {200: Documented("Counts by state.", json_of("PlanCounts"))},
        problems=(Code.MALFORMED,),
        query=_TIMES,
    ),
    Route(
        "GET",
        "/v1/tenants",
        "listTenants",
        "The tenants that ever had a reservation, each with its lasting place among them.",
        _tenants,
        {200: Documented("The tenants, in order of first appearance.", json_of("TenantList"))},
    ),
)
