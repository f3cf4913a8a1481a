"""Replica: this process's copy of the Plan, kept equal to the log."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from planner.capacity.shortage import Taking
from planner.cluster.cluster import Cluster
from planner.files import cluster_from_json, cluster_to_json, read_cluster_document
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from service.clock import Clock, instant_of, unix_ms
from service.commits.replay import LogReplay
from service.config import ConfigError, ServiceConfig
from service.events import PlanEvent, RecentEvents, decode_events
from service.store import CommitRow, LogEntry, Snapshot, Store, VersionTakenError
from service.store.archive import ArchivedRow
from service.store.store import NotSkippableError

logger = logging.getLogger("agenda.service")

_DAY_MS = 86_400_000


class Replica:
    """The Plan of one process and the store that all processes share.

    Attributes
    ----------
    store
        The log.
    offered
        The cluster file given at this start as plain JSON, with the ids of outages; or None.
    recent
        Events of the newest commits.
    """

    def __init__(
        self, config: ServiceConfig, store: Store, first: Cluster, offered: dict[str, Any] | None
    ) -> None:
        assert first.origin is not None
        self.store = store
        self.offered = offered
        self._config = config
        self._first = first
        self._origin_ms = unix_ms(first.origin)
        self._lock = threading.RLock()
        self.recent = RecentEvents()
        self._begin(Plan(first, first.grid()))
        self._kept = 0

    def plan_ms(self, clock_ms: int) -> int:
        """Return Unix ms as ms from the Plan's origin."""
        return clock_ms - self._origin_ms

    def replay(self) -> None:
        """Build the Plan from the newest snapshot and the later log."""
        with self._lock:
            self._restart()
            self._follow()

    def follow(self) -> int:
        """Catch up with the log; return the version reached."""
        with self.newest() as plan:
            return plan.version

    @contextmanager
    def locked(self) -> Iterator[Plan]:
        """Lock the Plan in its current state in this process."""
        with self._lock:
            self._replaying.require_whole()
            yield self._plan

    @contextmanager
    def newest(self) -> Iterator[Plan]:
        """Lock the Plan after applying all commits of any process."""
        with self._lock:
            self._replaying.require_whole()
            self._follow()
            yield self._plan

    def commit(
        self,
        record: CommitRecord,
        at_ms: int,
        remembered: Sequence[CommitRow] = (),
        takings: Sequence[Taking] | None = None,
        tenure: int | None = None,
        durable: Callable[[], None] | None = None,
    ) -> bool:
        """Append a record to the log, then apply it; False if another process was first.

        Parameters
        ----------
        takings
            Takings that `Plan.prepare` found with the record.
        tenure
            Tenure of the leader that makes the change.
        durable
            Called when the record is on disk, before it is applied.

        Raises
        ------
        service.store.LeadershipLostError
            If another tenure has begun.

        Returns
        -------
        bool
            False: nothing was written; the Plan has caught up with the other process.
        """
        entry = LogEntry(record.version, at_ms, msgspec.json.encode(record.to_json()))

        def append() -> None:
            self.store.append([entry], remembered, tenure)
            if durable is not None:
                durable()

        return self._append(record, append, takings)

    def archive(self, record: CommitRecord, at_ms: int, left: Sequence[ArchivedRow]) -> bool:
        """Append a record that moves rows to the archive; see `commit`."""
        entry = LogEntry(record.version, at_ms, msgspec.json.encode(record.to_json()))
        return self._append(record, lambda: self.store.append([entry], left=left))

    def _append(
        self,
        record: CommitRecord,
        append: Callable[[], None],
        takings: Sequence[Taking] | None = None,
    ) -> bool:
        """Append a record and apply it; False if another process was first."""
        try:
            append()
        except VersionTakenError:
            with self.newest():
                return False
        with self._lock:
            # A reader may have applied the record from the log first.
            if self._plan.version < record.version:
                self._replaying.apply(record, takings)
        return True

    def adapted_since(self, version: int) -> list[Mapping[str, Any]] | None:
        """Return the adaptations in the records after `version`, by any process.

        None if some of the records were pruned.
        """
        tail = self.store.tail(version)
        if tail is None:
            return None
        adaptations = [msgspec.json.decode(entry.record).get("adapted") for entry in tail]
        return [one for one in adaptations if one is not None]

    def keep_snapshot_if_due(self, clock_ms: int) -> None:
        """Store a snapshot if the log has grown by `snapshot_every` records since the last one."""
        if self._plan.version - self._kept >= self._config.snapshot_every:
            self._kept = self.store.snapshot_version()
            if self._plan.version - self._kept >= self._config.snapshot_every:
                self.keep_snapshot(clock_ms)

    def keep_snapshot(self, clock_ms: int) -> None:
        """Store a snapshot of the Plan, unless its version is already stored."""
        forget_ms = clock_ms - self._config.refused_days * _DAY_MS
        with self._lock:
            kept = self.store.snapshot_version()
            if not self._replaying.is_whole or kept >= self._plan.version:
                return
            state, events = take_checkpoint(self._plan), self.recent.encode()
        body = state.encode()
        snapshot = Snapshot(state.version, clock_ms, body, events)
        kept = self.store.save_snapshot(snapshot, forget_ms)
        self._kept = state.version
        if kept:
            logger.info("kept a snapshot of version %d, %d bytes", state.version, len(body))

    def last_offer(self) -> dict[str, Any]:
        """Return the last cluster file that the Plan changed to, in the form of `offered`."""
        known = self.store.find_setting("cluster_file")
        document: dict[str, Any] = (
            cluster_to_json(self._first) if known is None else json.loads(known)
        )
        return document

    def note_offer(self) -> None:
        """Store the cluster file, so that it is not adopted again after later changes."""
        self.store.replace_setting("cluster_file", json.dumps(self.offered))

    def close(self, clock_ms: int, *, snapshot: bool = True) -> None:
        """Store a snapshot and close the database."""
        if snapshot:
            self.keep_snapshot(clock_ms)
        self.store.close()

    def _restart(self) -> None:
        snapshot = self.store.snapshot()
        if snapshot is None:
            self._begin(Plan(self._first, self._first.grid()), self.store.skipped.versions())
            return
        plan = read_checkpoint(snapshot.body)
        self._begin(plan, self.store.skipped.versions(), decode_events(snapshot.events))
        self._kept = snapshot.version

    def _begin(
        self,
        plan: Plan,
        skipped: frozenset[int] = frozenset(),
        events: Sequence[PlanEvent] = (),
    ) -> None:
        self._plan = plan
        self.recent.begin(plan.version, events)
        self._replaying = LogReplay(plan, skipped, self.recent)

    def _follow(self) -> None:
        tail = self.store.tail(self._plan.version)
        while tail is None:
            # The log was pruned past this process's version: restart from the snapshot.
            self._restart()
            tail = self.store.tail(self._plan.version)
        for entry in tail:
            self._replaying.apply_entry(entry)


@dataclass(frozen=True, slots=True)
class Offer:
    """The cluster file of a start: as plain JSON with the ids of outages, and as a cluster."""

    document: dict[str, Any]
    cluster: Cluster


def read_offer(config: ServiceConfig) -> Offer | None:
    """Read the cluster file in the settings of a server, if any.

    Raises
    ------
    FileError
        If it cannot be read.
    """
    return None if config.cluster is None else Offer(*read_cluster_document(config.cluster))


def open_replica(config: ServiceConfig, clock: Clock, offer: Offer | None = None) -> Replica:
    """Open the store; at the first start, store the cluster and the origin of all steps.

    Parameters
    ----------
    offer
        The cluster file, if it has already been read.

    Raises
    ------
    ConfigError
        If there is no cluster to plan, the file's step or origin differs from the Plan's, or a
        record cannot be skipped.
    FileError
        If the cluster file cannot be read.
    """
    offer = offer or read_offer(config)
    store = Store(config.database)
    known = store.find_setting("cluster")
    if known is None:
        if offer is None:
            store.close()
            raise ConfigError("this database has no plan yet; start with a cluster file")
        first = _with_origin(offer.cluster, clock.now_ms())
        known = store.setting("cluster", json.dumps(cluster_to_json(first)))
    first = cluster_from_json(json.loads(known), "the stored cluster")
    if offer is not None:
        _require_compatible(offer.cluster, first)
    for version in config.skip_records:
        _skip(store, version, clock.now_ms())
    return Replica(config, store, first, None if offer is None else offer.document)


def _skip(store: Store, version: int, now_ms: int) -> None:
    """Skip a record in every replay from now on."""
    try:
        if store.skipped.mark(version, now_ms):
            logger.warning("record %d is skipped from now on; the database keeps it", version)
    except NotSkippableError as error:
        store.close()
        raise ConfigError(f"record {version} cannot be skipped: {error}") from error


def _with_origin(cluster: Cluster, clock_ms: int) -> Cluster:
    """Return the cluster with an origin: the present, rounded down to a step."""
    if cluster.origin is not None:
        return cluster
    return replace(cluster, origin=instant_of(clock_ms - clock_ms % cluster.step_ms))


def _require_compatible(offered: Cluster, first: Cluster) -> None:
    if offered.step_ms != first.step_ms:
        raise ConfigError(
            f"the plan of this database has steps of {first.step_ms} ms, the cluster file "
            f"{offered.step_ms} ms; the step of a plan cannot change"
        )
    if offered.origin not in (None, first.origin):
        raise ConfigError(
            f"the plan of this database begins at {first.origin}, the cluster file says "
            f"{offered.origin}; the origin of a plan cannot change"
        )
