"""The audit log for operators: who changed what, when and from where."""

from __future__ import annotations

import re
from typing import Annotated, Final

from planner.placement import Code
from rdl.durations import rfc3339_text
from rdl.expressions import Moment
from service.access.user import Role
from service.clock import instant_of
from service.http.kinds import QueryTime, Word, choice, integer, matching
from service.http.kit import Answer, Calls, Input, Instant, doc, one_of
from service.runtime import Runtime
from service.store.audit import AUDIT_KINDS, AuditFilter, KeptAuditRow

_CURSOR: Final = matching(
    re.compile(r"[0-9]{1,18}"),
    "is not a cursor; send the `next` of the previous page",
    lambda match: int(match[0]),
)


class AuditQuery(Input):
    user: Annotated[Word | None, doc("Only by this user.")] = None
    tenant: Annotated[Word | None, doc("Only for objects of this tenant.")] = None
    kind: Annotated[str | None, choice(AUDIT_KINDS), doc("Only of this kind.")] = None
    about: Annotated[Word | None, doc("Only of this reservation, application or token.")] = None
    from_: Annotated[QueryTime | None, doc("Only at or after this time.")] = None
    to: Annotated[QueryTime | None, doc("Only before this time.")] = None
    cursor: Annotated[int | None, _CURSOR, doc("The `next` of the previous page.")] = None
    limit: Annotated[int, integer(1, 1000), doc("Maximum number of entries.")] = 100


class AuditedChange(Answer):
    number: Annotated[int, doc("Counts the changes.")]
    at: Instant
    user: Annotated[str, doc("Name of the user; `server` is the server itself.")]
    address: Annotated[str, doc("Address of the client; empty: this machine.")]
    call: Annotated[str, doc("The call or the command of the change.")]
    kind: Annotated[str, one_of(AUDIT_KINDS)]
    tenant: Annotated[str, doc("Tenant of the object, if it has one.")]
    about: Annotated[str, doc("Id of the changed object.")]
    detail: Annotated[
        str, doc("Code of a refusal, final state, cause of an update, or rights of a token.")
    ]
    version: Annotated[int | None, doc("The version of the Plan after the change.")]


class AuditPage(Answer):
    changes: list[AuditedChange]
    next: Annotated[str | None, doc("Cursor of the next page.")]


calls = Calls()


@calls.get("/v1/audit", "A page of changes.", fails=(Code.MALFORMED,), role=Role.OPERATOR)
def list_audit(runtime: Runtime, query: AuditQuery) -> AuditPage:
    """Changes with user, time, address and object; newest first, a page at a time."""

    def unix(instant: Moment | None) -> int | None:
        plan_ms = runtime.resolve(instant)
        return None if plan_ms is None else runtime.unix_of(plan_ms)

    start_ms, end_ms = unix(query.from_), unix(query.to)
    wanted = AuditFilter(query.user, query.tenant, query.kind, query.about, start_ms, end_ms)
    rows = runtime.audit.page(wanted, query.cursor, query.limit + 1)
    here = rows[: query.limit]
    more = len(rows) > query.limit
    return AuditPage(
        changes=[_shown(row) for row in here], next=str(here[-1].number) if more else None
    )


def _shown(row: KeptAuditRow) -> AuditedChange:
    return AuditedChange(
        number=row.number,
        at=rfc3339_text(instant_of(row.at_ms)),
        user=row.name,
        address=row.address,
        call=row.call,
        kind=row.kind,
        tenant=row.tenant,
        about=row.about,
        detail=row.detail,
        version=row.version,
    )
