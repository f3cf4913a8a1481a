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
from service.store.log import LogEntry, RememberedAnswer, Snapshot, Store, VersionTakenError

__all__ = [
    "ApplicationRow",
    "ApplicationRows",
    "IdTakenError",
    "LeaseLostError",
    "LogEntry",
    "PageOf",
    "RememberedAnswer",
    "Snapshot",
    "StatusRow",
    "Store",
    "VersionTakenError",
]
