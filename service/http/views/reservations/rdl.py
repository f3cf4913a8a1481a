"""POST /v1/rdl/check: what the compiler makes of a request, without any Plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.placement import Code
from service.calls.reservations.rdl import check_rdl
from service.http.call import Call
from service.http.fields import any_value, schema_of
from service.http.route import Body, Documented, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: RDL as text, as JSON, or as YARN's reservation-definition.
RDL: Final = any_value(
    "rdl",
    "RDL as text, as JSON, or as YARN's reservation-definition.",
    {
        "type": ["string", "object"],
        "examples": ["window(atom(<1 cpu>, 1, 4, 10m, 40m), +0, +6h)"],
    },
)

_FIELDS: Final = (RDL,)


def _check(runtime: Runtime, call: Call) -> Response:
    return Response(200, check_rdl(runtime, call.body["rdl"]))


ROUTES: Final = (
    Route(
        "POST",
        "/v1/rdl/check",
        "checkRdl",
        "Compile a request: its canonical text and notes, or all its problems with their places.",
        _check,
        {200: Documented("The request can be asked for.", json_of("Check"))},
        problems=(Code.MALFORMED, Code.UNSATISFIABLE, Code.BEYOND_HORIZON),
        body=Body(schema_of(_FIELDS), _FIELDS),
    ),
)
