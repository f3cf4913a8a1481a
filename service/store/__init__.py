"""The durable truth: an append-only log of commits, its snapshots and the answers given."""

from __future__ import annotations

from service.store.log import LogEntry, RememberedAnswer, Snapshot, Store, VersionTakenError

__all__ = ["LogEntry", "RememberedAnswer", "Snapshot", "Store", "VersionTakenError"]
