"""The dispatch table in the database, so that every process can show the leader's table."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dispatch.tables.live_tables import LiveTables
from planner.plan.plan import Plan
from service.store import Store

_SETTING: Final = "dispatch_table"


def keep_table(store: Store, tables: LiveTables, plan: Plan, at_ms: int) -> int:
    """Store the current table; return its version."""
    table, version = tables.table_at(plan, at_ms)
    record = {
        "version": version,
        "at_ms": at_ms,
        "load": tables.load,
        "problem": tables.problem,
        "table": None if table is None else table.to_json(),
    }
    store.replace_setting(_SETTING, msgspec.json.encode(record).decode())
    return version


def read_table_record(store: Store) -> dict[str, Any]:
    """Return the last stored record; empty before the first."""
    kept = store.find_setting(_SETTING)
    found: dict[str, Any] = {} if kept is None else msgspec.json.decode(kept)
    return found
