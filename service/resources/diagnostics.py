"""Diagnostics: information about a server for support."""

from __future__ import annotations

from typing import Annotated, Any

from rdl.durations import rfc3339_text
from service.access.user import Role
from service.clock import instant_of
from service.http.kit import Calls, Instant, OpenAnswer, doc
from service.monitoring.diagnostics import plan_facts, settings_of, versions
from service.runtime import Runtime


class DispatchCheck(OpenAnswer):
    leads: Annotated[bool, doc("Whether this process dispatches.")]
    faults: Annotated[
        list[str],
        doc(
            "Differences between the dispatcher's incremental state and a full "
            "recomputation from executions, Plan and backend. Empty unless Agenda has a bug."
        ),
    ]


class Diagnostics(OpenAnswer):
    at: Instant
    versions: dict[str, Any]
    settings: Annotated[dict[str, Any], doc("Without secrets.")]
    plan: dict[str, Any]
    database: dict[str, Any]
    dispatch: DispatchCheck
    metrics: Annotated[str, doc("The answer of /metrics.")]


calls = Calls()


@calls.get(
    "/v1/diagnostics",
    "The diagnostics of the server.",
    fails=("unavailable",),
    role=Role.OPERATOR,
)
def get_diagnostics(runtime: Runtime) -> Diagnostics:
    """Versions, settings without secrets, sizes of the Plan and the database, and metrics."""
    with runtime.reading() as plan:
        facts = plan_facts(plan)
    faults = runtime.dispatcher.check()
    metrics = runtime.telemetry.exposition() + runtime.exposition.text()
    return Diagnostics(
        at=rfc3339_text(instant_of(runtime.clock_ms())),
        versions=versions(),
        settings=settings_of(runtime.config),
        plan=facts,
        database=runtime.database_facts(),
        dispatch=DispatchCheck(leads=faults is not None, faults=faults or []),
        metrics=metrics.decode(),
    )
