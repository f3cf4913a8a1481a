"""GET /v1/user: who calls, so that a page offers what that user may do and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rdl.durations import rfc3339_text
from service.access.user import Role
from service.api.call import Call
from service.api.route import Documented, Route, json_of
from service.clock import instant_of
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

SCHEMAS: Final[dict[str, Any]] = {
    "Caller": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "role": {"type": "string", "enum": [role.word for role in Role]},
            "tenants": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Those a user acts for; empty where it acts for all.",
            },
            "all_tenants": {"type": "boolean", "description": "Whether it acts for all."},
            "auth": {
                "type": "string",
                "enum": ["none", "token"],
                "description": "Whether this server asks for tokens.",
            },
            "now_at": {
                "type": "string",
                "format": "date-time",
                "description": "The server's clock.",
            },
        },
        "required": ["name", "role", "tenants", "all_tenants", "auth", "now_at"],
        "additionalProperties": False,
    }
}


def _caller(runtime: Runtime, call: Call) -> Response:
    user = call.user
    body = {
        "name": user.name,
        "role": user.role.word,
        "tenants": sorted(user.tenants),
        "all_tenants": user.sees_all,
        "auth": runtime.config.auth,
        "now_at": rfc3339_text(instant_of(runtime.clock_ms())),
    }
    return Response(200, body, {"Cache-Control": "no-store"})


ROUTES: Final = (
    Route(
        "GET",
        "/v1/user",
        "getCaller",
        "Who calls: name, role and tenants.",
        _caller,
        {200: Documented("The user whose token was shown.", json_of("Caller"))},
        live=True,
    ),
)
