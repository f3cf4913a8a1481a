"""The durable truth: an append-only log of commits, the answers given, and the applications."""

from __future__ import annotations

from service.store.answers import IdempotentAnswer
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
from service.store.optimizations import (
    OptimizationRow,
    OptimizationRows,
    TooManyError,
    UndoRow,
)
from service.store.pipelines import PipelineRow, PipelineRows
from service.store.store import (
    CommitRow,
    CompanionRow,
    LogEntry,
    Snapshot,
    Store,
    VersionTakenError,
)
from service.store.yarn_reservations import YarnReservationRow, YarnReservationRows

__all__ = [
    "ApplicationRow",
    "ApplicationRows",
    "AuditRow",
    "CommitRow",
    "CompanionRow",
    "IdTakenError",
    "IdempotentAnswer",
    "Judge",
    "LeadershipLostError",
    "LogEntry",
    "OptimizationRow",
    "OptimizationRows",
    "PageOf",
    "PipelineRow",
    "PipelineRows",
    "Snapshot",
    "StatusRow",
    "Store",
    "Submitted",
    "TooManyError",
    "UndoRow",
    "VersionTakenError",
    "YarnReservationRow",
    "YarnReservationRows",
]
