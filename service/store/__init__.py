"""The durable truth: an append-only log of commits, the answers given, and the applications."""

from __future__ import annotations

from service.store.applications import (
    ApplicationRow,
    ApplicationRows,
    IdTakenError,
    LeaseLostError,
    PageOf,
    StatusRow,
)
from service.store.log import LogEntry, Snapshot, Store, VersionTakenError
from service.store.optimizations import OptimizationRow, OptimizationRows, TooManyError
from service.store.remembered import RememberedAnswer

__all__ = [
    "ApplicationRow",
    "ApplicationRows",
    "IdTakenError",
    "LeaseLostError",
    "LogEntry",
    "OptimizationRow",
    "OptimizationRows",
    "PageOf",
    "RememberedAnswer",
    "Snapshot",
    "StatusRow",
    "Store",
    "TooManyError",
    "VersionTakenError",
]
