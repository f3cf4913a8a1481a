"""The durable truth: an append-only log of commits, the answers given, and the applications."""

from __future__ import annotations

from service.store.applications import (
    ApplicationRow,
    ApplicationRows,
    IdTakenError,
    Judge,
    LeadershipLostError,
    PageOf,
    StatusRow,
    Submitted,
)
from service.store.audit import AuditRow
from service.store.idempotency import IdempotentAnswer
from service.store.log import LogEntry, Snapshot, Store, VersionTakenError
from service.store.optimizations import OptimizationRow, OptimizationRows, TooManyError

__all__ = [
    "ApplicationRow",
    "ApplicationRows",
    "AuditRow",
    "IdTakenError",
    "IdempotentAnswer",
    "Judge",
    "LeadershipLostError",
    "LogEntry",
    "OptimizationRow",
    "OptimizationRows",
    "PageOf",
    "Snapshot",
    "StatusRow",
    "Store",
    "Submitted",
    "TooManyError",
    "VersionTakenError",
]
