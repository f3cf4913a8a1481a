"""GET /v1/plan/changes: which reservations have changed since a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.placement import Code
from service.calls.plan.changes import ChangeFilter, changes_since
from service.commits.screening.ownership import own_filter
from service.http.call import Call
from service.http.fields import integer, text
from service.http.route import Documented, Route, json_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _changes(runtime: Runtime, call: Call) -> Response:
    wanted = ChangeFilter(call.user, own_filter(call.user, call.query["tenant"]))
    return Response(200, changes_since(runtime, call.query["since"], wanted))


ROUTES: Final = (
    Route(
        "GET",
        "/v1/plan/changes",
        "getPlanChanges",
        "Which reservations have changed since a version of the Plan.",
        _changes,
        {
            200: Documented(
                "Each that has changed, as it is now. `reset`: the version lies too far back, or "
                "too much has changed; read the Plan anew.",
                json_of("PlanChanges"),
            )
        },
        problems=(Code.MALFORMED,),
        query=(
            integer("since", "The version that is known.", 0, 10**15),
            text("tenant", "Only its reservations.", default=None),
        ),
    ),
)
