"""Read the audit: who changed what, when and from where."""

from __future__ import annotations

from typing import Any

from rdl.durations import rfc3339_text
from service.clock import instant_of
from service.runtime import Runtime
from service.store.log.audit import AuditFilter, KeptAuditRow


def page(runtime: Runtime, wanted: AuditFilter, before: int | None, limit: int) -> dict[str, Any]:
    """Return up to `limit` changes with numbers below `before`, the newest first."""
    rows = runtime.audit.page(wanted, before, limit + 1)
    here = rows[:limit]
    more = len(rows) > limit
    return {
        "changes": [_json_of(row) for row in here],
        "next": str(here[-1].number) if more else None,
    }


def _json_of(row: KeptAuditRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "at": rfc3339_text(instant_of(row.at_ms)),
        "user": row.name,
        "address": row.address,
        "call": row.call,
        "kind": row.kind,
        "tenant": row.tenant,
        "about": row.about,
        "detail": row.detail,
        "version": row.version,
    }
