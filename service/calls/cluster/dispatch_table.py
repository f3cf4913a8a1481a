"""The dispatch table (LoTES) that the leading process made last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.dispatching.table_record import read_table_record

if TYPE_CHECKING:
    from service.runtime import Runtime


def dispatch_table(runtime: Runtime) -> dict[str, Any]:
    """Return the table, whether the present policy uses one, and when it was made."""
    found = read_table_record(runtime.dispatcher.store)
    with runtime.reading() as plan:
        used = plan.cluster.dispatch.tables
    at_ms = found.pop("at_ms", None)
    return {
        "used": used,
        "version": 0,
        "load": None,
        "problem": "",
        "table": None,
        **found,
        "at": None if at_ms is None else at_ms / 1000,
        "at_at": None if at_ms is None else runtime.calendar(at_ms),
    }
