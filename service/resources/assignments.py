"""Assignments of components to machines."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from planner.placement import Code
from service.access.user import User
from service.http.kinds import Word, text
from service.http.kit import Calls, Count, Instant, OpenAnswer, doc
from service.http.route import json_of
from service.runtime import Runtime

_NOTHING: Final[dict[str, Any]] = {
    "at": None,
    "plan_version": 0,
    "table_version": 0,
    "policy": None,
    "below": [],
    "rows": [],
}


class AssignedComponent(OpenAnswer):
    execution: str
    component: str
    index: Count
    machine: Annotated[str, doc("GROUP-INDEX.")]
    since: float
    covered: Annotated[bool, doc("False: it may be preempted at any time.")]


class AssignmentView(OpenAnswer):
    at: Annotated[
        float | None,
        doc("Time of the assignment, seconds from the origin; null before the first one."),
    ]
    plan_version: Count
    table_version: Annotated[Count, doc("Version of the dispatch table; 0 without one.")]
    policy: Annotated[
        Any,
        msgspec.Meta(
            description="The policy of the assignment; null before the first one.",
            extra_json_schema={"anyOf": [json_of("DispatchPolicy"), {"type": "null"}]},
        ),
    ]
    below: Annotated[
        list[str], doc("Reservations that have fewer machines now than they are entitled to.")
    ]
    rows: list[AssignedComponent]
    at_calendar: Annotated[Instant | None, doc("The same time as an instant.")]


calls = Calls()


@calls.get("/v1/assignments", "The virtual assignment.", fails=(Code.MALFORMED,))
def get_assignments(
    runtime: Runtime,
    user: User,
    execution: Annotated[Word | None, doc("Only of this application.")] = None,
    machine: Annotated[str | None, text(256), doc("Only on this machine.")] = None,
) -> AssignmentView:
    """The machine of each component, as of the last change."""
    found = _NOTHING | msgspec.json.decode(runtime.dispatcher.rows.assignment())
    for shown_elsewhere in ("running", "quotas"):  # by `/v1/dispatch/table` and `/v1/policies`
        found.pop(shown_elsewhere, None)
    for name, wanted in (("execution", execution), ("machine", machine)):
        if wanted is not None:
            found["rows"] = [row for row in found["rows"] if row[name] == wanted]
    if user.scope is not None:
        _leave_out_others(runtime, user, found)
    at = found["at"]
    return AssignmentView(
        **found, at_calendar=None if at is None else runtime.calendar(round(1000 * at))
    )


def _leave_out_others(runtime: Runtime, user: User, found: dict[str, Any]) -> None:
    """Remove the entries of tenants for which the user does not act."""
    own = runtime.dispatcher.rows.open_ids_of(user.tenants)
    found["rows"] = [row for row in found["rows"] if row["execution"] in own]
    with runtime.reading() as plan:
        numbers = {id_: plan.table.number_of(id_) for id_ in found["below"]}
        found["below"] = [
            id_
            for id_, number in numbers.items()
            if number is not None and user.acts_for(plan.table.scope(number)[0])
        ]
