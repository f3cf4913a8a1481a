"""GET /v1/plan/export: the whole Plan as a plan file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.access.user import Role
from service.calls.plan.export import exported_plan
from service.http.call import Call
from service.http.route import Documented, Route
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _export(runtime: Runtime, _call: Call) -> Response:
    document = exported_plan(runtime)
    headers = {"Content-Disposition": 'attachment; filename="plan.json"'}
    return Response(200, document.to_text().encode(), headers)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/plan/export",
        "exportPlan",
        "The whole Plan as the file that validate, optimize and plan-diff take.",
        _export,
        {200: Documented("A plan file.", {"type": "object"})},
        role=Role.OPERATOR,
    ),
)
