"""Metrics of a process: calls, commits, and the planner's busyness and wait (Omega's terms)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from dispatch.accounts.promises import Outcome
from planner.placement import Code
from service.config import MULTIPROCESS_DIRECTORY

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: Outcomes of ended promises.
_OUTCOMES = ("kept", "broken")

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(slots=True)
class CallOutcome:
    """The status of a call; 500 until it has ended."""

    status: int = 500


class Telemetry:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        labels = ("method", "route")
        self._calls = Counter(
            "agenda_http_requests", "Calls answered.", (*labels, "status"), registry=registry
        )
        self._seconds = Histogram(
            "agenda_http_seconds", "Duration of calls.", labels, buckets=_SECONDS, registry=registry
        )
        self.answers = Counter(
            "agenda_answers", "Answers to changes by code.", ("code",), registry=registry
        )
        self.commits = Counter("agenda_commits", "Commits appended to the log.", registry=registry)
        self.group_size = Histogram(
            "agenda_group_size",
            "Number of changes appended together.",
            buckets=_SIZES,
            registry=registry,
        )
        self.conflicts = Counter(
            "agenda_conflicts",
            "Placements that no longer fitted at commit.",
            registry=registry,
        )
        self.admitted = Counter(
            "agenda_reservations_admitted",
            "Reservations admitted, by the level of their promise.",
            ("promise",),
            registry=registry,
        )
        self.without_machines = Counter(
            "agenda_refusals_without_machines",
            "Requests refused because machines, not totals, lacked capacity.",
            registry=registry,
        )
        self.lost_races = Counter(
            "agenda_lost_races",
            "Appends that lost a race against another process.",
            registry=registry,
        )
        self.busy = Counter(
            "agenda_planner_busy_seconds", "Time spent planning and committing.", registry=registry
        )
        self.wait = Histogram(
            "agenda_wait_seconds",
            "Time from a change's arrival to the start of its planning.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.refusals = Counter(
            "agenda_refusals", "Requests for reservations refused, by code.", ("code",),
            registry=registry,
        )  # fmt: skip
        for code in Code:  # so that the first of a code is an increase too
            self.refusals.labels(code.value)
        self.adaptations = Counter(
            "agenda_adaptations",
            "Repairs after machines were lost or returned: done, refused (in part; that part "
            "is degraded), late (the Plan kept changing), failed.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("done", "refused", "late", "failed"):
            self.adaptations.labels(outcome)
        self.commit = Histogram(
            "agenda_commit_seconds",
            "Time to make a commit durable.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.changes = Counter(
            "agenda_changes", "Changes in commits, by kind.", ("kind",), registry=registry
        )
        self.churn = Counter(
            "agenda_churn_cluster_seconds",
            "Work that changed reservations have at new places, in seconds of the whole cluster.",
            registry=registry,
        )
        self.version = Gauge(
            "agenda_plan_version",
            "Version of the Plan.",
            registry=registry,
            multiprocess_mode="max",
        )
        self._begin_dispatching(registry)

    def _begin_dispatching(self, registry: CollectorRegistry) -> None:
        """Add the metrics of the dispatcher and of the promises that it keeps."""
        self.leads = Gauge(
            "agenda_leads",
            "1 on the server that leads the dispatch.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.clock_ahead = Gauge(
            "agenda_clock_ahead_seconds",
            "How far this host's clock is ahead of the database's.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self.ticks = Histogram(
            "agenda_dispatch_tick_seconds",
            "Time of a tick of the dispatcher.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.below = Gauge(
            "agenda_reservations_below",
            "Reservations that have fewer machines now than they are entitled to.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self.time_below = Histogram(
            "agenda_reservation_below_seconds",
            "Total time a reservation was below its entitlement, counted when that ends.",
            buckets=(*_SECONDS, 60, 600, 3600),
            registry=registry,
        )
        self.unused = Counter(
            "agenda_entitlements_unused",
            "Times of reservations that passed while an application waited and none ran.",
            registry=registry,
        )
        self._ended = Counter(
            "agenda_promises_ended",
            "Ended promises: kept, or broken because they lacked machines while due.",
            ("outcome",),
            registry=registry,
        )
        for outcome in _OUTCOMES:
            self._ended.labels(outcome)
        self._used = Gauge(
            "agenda_used",
            "Capacity used by running components: cores, bytes or units.",
            ("resource", "group"),
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self.table_load = Gauge(
            "agenda_lotes_load",
            "Future work relative to what the dispatch table sustains; 0 without a table.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )

    def set_used(self, amounts: Mapping[tuple[str, str], float]) -> None:
        """Set the use by components, by resource and group of machines."""
        for (resource, group), amount in amounts.items():
            self._used.labels(resource, group).set(amount)

    def count_ended(self, outcomes: Iterable[Outcome]) -> None:
        """Count ended promises as kept or broken; a cancelled one is neither."""
        for outcome in outcomes:
            if outcome is not Outcome.CANCELLED:
                self._ended.labels("broken" if outcome.is_broken else "kept").inc()

    def observer(
        self, method: str, route: str
    ) -> Callable[[], AbstractContextManager[CallOutcome]]:
        """Return a context that counts and times one call of a route."""
        seconds = self._seconds.labels(method, route)

        @cache
        def calls_of(status: int) -> Counter:
            return self._calls.labels(method, route, str(status))

        @contextmanager
        def observe() -> Iterator[CallOutcome]:
            outcome = CallOutcome()
            began = time.perf_counter()
            try:
                yield outcome
            finally:
                seconds.observe(time.perf_counter() - began)
                calls_of(outcome.status).inc()

        return observe

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format, of all processes that share them."""
        if os.environ.get(MULTIPROCESS_DIRECTORY):
            everyone = CollectorRegistry()
            MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
            return generate_latest(everyone)
        return generate_latest(self.registry)
