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
from service.store.log import CommitRow, LogEntry, Snapshot, Store, VersionTakenError
from service.store.optimizations import OptimizationRow, OptimizationRows, TooManyError
from service.store.yarn_reservations import YarnReservationRow, YarnReservationRows

__all__ = [
    "ApplicationRow",
    "ApplicationRows",
    "AuditRow",
    "CommitRow",
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
    "YarnReservationRow",
    "YarnReservationRows",
]
