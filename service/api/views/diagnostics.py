"""GET /v1/diagnostics: what a server says of itself to who is to help with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rdl.durations import rfc3339_text
from service.access.user import Role
from service.api.call import Call
from service.api.route import Documented, Route
from service.clock import instant_of
from service.monitoring.diagnostics import plan_facts, settings_of, versions
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_OBJECT: Final = {"type": "object"}

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "versions": _OBJECT,
        "settings": {**_OBJECT, "description": "Without secrets."},
        "plan": _OBJECT,
        "database": _OBJECT,
        "dispatch": {
            "type": "object",
            "properties": {
                "leads": {"type": "boolean", "description": "Whether this process dispatches."},
                "faults": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Where what the dispatcher keeps from tick to tick is not what "
                    "follows from executions, Plan and backend. Empty unless Agenda has a fault.",
                },
            },
            "required": ["leads", "faults"],
        },
        "metrics": {"type": "string", "description": "What /metrics answers."},
    },
    "required": ["at", "versions", "settings", "plan", "database", "dispatch", "metrics"],
}


def _diagnostics(runtime: Runtime, _call: Call) -> Response:
    with runtime.reading() as plan:
        facts = plan_facts(plan)
    faults = runtime.dispatcher.check()
    metrics = runtime.telemetry.exposition() + runtime.exposition.text()
    body = {
        "at": rfc3339_text(instant_of(runtime.clock_ms())),
        "versions": versions(),
        "settings": settings_of(runtime.config),
        "plan": facts,
        "database": runtime.database_facts(),
        "dispatch": {"leads": faults is not None, "faults": faults or []},
        "metrics": metrics.decode(),
    }
    return Response(200, body)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/diagnostics",
        "getDiagnostics",
        "Versions, settings without secrets, counts of Plan and database, metrics.",
        _diagnostics,
        {200: Documented("What the server says of itself.", _SCHEMA)},
        problems=("unavailable",),
        role=Role.OPERATOR,
    ),
)
