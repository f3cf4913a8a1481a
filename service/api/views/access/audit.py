"""GET /v1/audit: who changed what, for operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from rdl.expressions import Instant
from service.access.user import Role
from service.api.call import Call
from service.api.fields import Field, choice, integer, moment, text
from service.api.route import Documented, Route, json_of
from service.calls.access import audit
from service.problems import FieldError
from service.response import Response
from service.store.log.audit import AUDIT_KINDS, AuditFilter

if TYPE_CHECKING:
    from service.runtime import Runtime

_CURSOR: Final = re.compile(r"[0-9]{1,18}")


def _read_cursor(given: str) -> int:
    if not _CURSOR.fullmatch(given):
        raise FieldError(f"{given!r} is no cursor; send the `next` of the page before")
    return int(given)


def _list(runtime: Runtime, call: Call) -> Response:
    query = call.query

    def unix(instant: Instant | None) -> int | None:
        plan_ms = runtime.resolve(instant)
        return None if plan_ms is None else runtime.unix_of(plan_ms)

    wanted = AuditFilter(
        name=query["user"],
        tenant=query["tenant"],
        kind=query["kind"],
        about=query["about"],
        start_ms=unix(query["from"]),
        end_ms=unix(query["to"]),
    )
    return Response(200, audit.page(runtime, wanted, query["cursor"], query["limit"]))


_TEXT: Final = {"type": "string"}

SCHEMAS: Final[dict[str, Any]] = {
    "AuditPage": {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "number": {"type": "integer", "description": "Counts the changes."},
                        "at": {"type": "string", "format": "date-time"},
                        "user": {**_TEXT, "description": "Who; `server` is the server itself."},
                        "address": {**_TEXT, "description": "From where; empty: this machine."},
                        "call": {**_TEXT, "description": "The call or the command that did it."},
                        "kind": {"type": "string", "enum": list(AUDIT_KINDS)},
                        "tenant": {**_TEXT, "description": "Whose it is, where it is somebody's."},
                        "about": {**_TEXT, "description": "Id of what was changed."},
                        "detail": {
                            **_TEXT,
                            "description": "Code of a refusal, state of an end, cause of an "
                            "update, rights of a token.",
                        },
                        "version": {
                            "type": ["integer", "null"],
                            "description": "The version of the Plan that it made.",
                        },
                    },
                    "required": [
                        "number", "at", "user", "address", "call", "kind", "tenant", "about",
                        "detail", "version",
                    ],
                    "additionalProperties": False,
                },
            },
            "next": {"type": ["string", "null"], "description": "Cursor of the next page."},
        },
        "required": ["changes", "next"],
        "additionalProperties": False,
    }
}  # fmt: skip

ROUTES: Final = (
    Route(
        "GET",
        "/v1/audit",
        "listAudit",
        "Changes with who, when, from where and what; newest first, a page at a time.",
        _list,
        {200: Documented("A page of changes.", json_of("AuditPage"))},
        problems=(Code.MALFORMED,),
        query=(
            text("user", "Only by this user.", default=None),
            text("tenant", "Only of what belongs to this tenant.", default=None),
            choice("kind", "Only of this kind.", AUDIT_KINDS, default=None),
            text("about", "Only of this reservation, application or token.", default=None),
            moment("from", "Only at or after this time."),
            moment("to", "Only before this time."),
            Field(
                "cursor",
                "The `next` of the page before.",
                {"type": "string", "pattern": f"^{_CURSOR.pattern}$"},
                _read_cursor,
                None,
            ),
            integer("limit", "Largest number of entries.", 1, 1000, default=100),
        ),
        role=Role.OPERATOR,
    ),
)
