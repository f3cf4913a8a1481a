"""Health: liveness, readiness and metrics of a server, for operators and tools."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from service.access.user import Role
from service.http.kit import Calls, OpenAnswer
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
