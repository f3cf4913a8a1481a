"""From the changes of a commit record to the rows of the audit that stand beside it."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plan.plan import Plan
from planner.plan.records.commit_records import Advanced, Archived, Reconfigured, RecordedChange
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    Noted,
    Refused,
    Updated,
)
from service.access.actor import Actor
from service.store import AuditRow


def audit_rows(
    changes: Iterator[tuple[Actor, RecordedChange]], plan: Plan, version: int, at_ms: int
) -> list[AuditRow]:
    """Return the rows of some changes, each by its actor.

    That the present moves on is nobody's change.

    Parameters
    ----------
    plan
        Before them; it knows whose the reservations are that they change.
    version, at_ms
        The version that they make, and now, Unix ms.
    """
    return [
        _row_of(actor, change, plan, version, at_ms)
        for actor, change in changes
        if not isinstance(change, Advanced | Archived)
    ]


def _row_of(actor: Actor, change: RecordedChange, plan: Plan, version: int, at_ms: int) -> AuditRow:
    match change:
        case Admitted():
            about, tenant, detail = change.id, change.tenant, ""
        case Refused(refusal=refusal):
            about, tenant, detail = refusal.id, refusal.tenant, str(refusal.code)
        case Advanced() | Archived() | Reconfigured():
            about = tenant = detail = ""
        case _:
            about, tenant, detail = change.id, _tenant_of(plan, change.id), _detail_of(change)
    return AuditRow(actor, at_ms, change.op, about, tenant, detail, version)


def _tenant_of(plan: Plan, id_: str) -> str:
    number = plan.table.number_of(id_)
    return "" if number is None else plan.table.scope(number)[0]


def _detail_of(change: RecordedChange) -> str:
    match change:
        case Ended(state=state):
            return state.value
        case Updated(cause=cause) | Degraded(cause=cause):
            return cause
        case Noted(what=what):
            return what
        case _:
            return ""
