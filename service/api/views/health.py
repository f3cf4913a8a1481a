"""Calls for operators and tools: liveness, readiness, metrics."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from service.access.user import Role
from service.api.call import Call
from service.api.route import Documented, Route, json_of
from service.problems import ApiProblemError
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


def _health(_runtime: Runtime, _call: Call) -> Response:
    return Response(200, {"status": "alive"})


def _ready(runtime: Runtime, _call: Call) -> Response:
    runtime.require_ready()
    runtime.require_clock()
    runtime.require_writable()
    failure = runtime.planner.adapter.failure
    with runtime.reading():  # the database answers
        return Response(200, {"status": "ready"} | ({"adapter": failure} if failure else {}))


def _metrics(runtime: Runtime, _call: Call) -> Response:
    figures = runtime.telemetry.exposition()
    with suppress(ApiProblemError):  # the Plan has none while it is being replayed
        runtime.require_ready()
        figures += runtime.exposition.text()
    return Response(200, figures, media=_TEXT)


ROUTES: Final = (
    Route(
        "GET",
        "/healthz",
        "health",
        "Tell whether the process is alive.",
        _health,
        {200: Documented("The process is alive.", json_of("Status"))},
        live=True,
        role=None,
    ),
    Route(
        "GET",
        "/readyz",
        "ready",
        "Tell whether the Plan is replayed, the database answers and takes changes, and the clock "
        "agrees with the database's and the Plan.",
        _ready,
        {
            200: Documented(
                "The server is ready. `adapter` is there where the last repair of the Plan failed.",
                json_of("Readiness"),
            )
        },
        problems=("unavailable", "clock_unconfirmed", "plan_ahead"),
        live=True,
        role=None,
    ),
    Route(
        "GET",
        "/metrics",
        "metrics",
        "Metrics in the text format of Prometheus.",
        _metrics,
        {200: Documented("The metrics.", {"type": "string"}, media="text/plain")},
        live=True,
        role=Role.OPERATOR,
    ),
)
