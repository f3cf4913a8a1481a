"""Health and diagnostics of a server, for operators, support and tools."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Final

from msgspec import UNSET, UnsetType

from rdl.durations import rfc3339_text
from service.access.user import Role
from service.clock import instant_of
from service.diagnostics import plan_facts, settings_of, versions
from service.http.kit import Calls, Instant, OpenAnswer, doc
from service.problems import ApiProblemError
from service.response import Response
from service.runtime import Runtime

_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT: Final = {"type": "string"}


class Status(OpenAnswer):
    status: str


class Readiness(OpenAnswer):
    status: str
    adapter: str | UnsetType = UNSET


calls = Calls()


@calls.get("/healthz", "The process is alive.", live=True, role=None)
def health() -> Status:
    """Return whether the process is alive."""
    return Status(status="alive")


@calls.get(
    "/readyz",
    "The server is ready. `adapter` is there where the last repair of the Plan failed.",
    fails=("unavailable", "clock_unconfirmed", "plan_ahead"),
    live=True,
    role=None,
)
def ready(runtime: Runtime) -> Readiness:
    """Return whether the server is ready: the Plan is replayed, the database accepts
    changes, the clock agrees with the database's and the Plan, and a dispatcher on Slurm has read
    its state.
    """
    runtime.require_ready()
    runtime.require_clock()
    runtime.require_dispatcher()
    runtime.require_writable()
    failure = runtime.planner.adapter.failure
    with runtime.reading():  # this queries the database
        return Readiness(status="ready", adapter=failure or UNSET)


@calls.get("/metrics", "The metrics.", media="text/plain", live=True, role=Role.OPERATOR)
def metrics(runtime: Runtime) -> Annotated[Response, _TEXT]:
    """Metrics in the text format of Prometheus."""
    figures = runtime.telemetry.exposition()
    with suppress(ApiProblemError):  # there are no metrics of the Plan while it is replayed
        runtime.require_ready()
        figures += runtime.exposition.text()
    return Response(200, figures, media=_METRICS)


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
