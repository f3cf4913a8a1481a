"""Exposition: the figures of the Plan, of the last optimisation and of the build, for Prometheus.

They are the same in every process, because all have the same Plan: the process that is queried
computes them, at most once a second and only if the Plan has changed.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from planner.plan.plan import Plan
from service.clock import Clock
from service.commits.replica import Replica
from service.monitoring.plan_figures import PlanFigures, figures_of
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: Seconds for which computed figures are reported again without a check.
_FRESH_S: Final = 1.0

_GROUP: Final = ("resource", "group")
_POLICY: Final = ("policy", "tenant", "queue", "agent", "resource", "measure")


class PlanExposition:
    """Exports the figures of a process's Plan in Prometheus' text format.

    Parameters
    ----------
    replica, clock
        The Plan and the time.
    steady_s
        Monotonic clock, seconds.
    """

    def __init__(
        self, replica: Replica, clock: Clock, steady_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._steady_s = steady_s
        self._lock = threading.Lock()
        self._made_s = float("-inf")
        self._seen: tuple[Plan, int, int] | None = None
        self._figures: PlanFigures | None = None
        self._text = b""
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the figures, cached for a second."""
        with self._lock:
            if self._steady_s() - self._made_s >= _FRESH_S:
                self._text = generate_latest(self._registry)
                self._made_s = self._steady_s()
            return self._text

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every figure, for prometheus_client."""
        yield _family("agenda_build", "Version of the server.", _build(), 1.0, info=True)
        try:
            figures = self._read()
            gap = self._gap()
        except UNAVAILABLE:
            logger.exception("the figures of the Plan wait for the database")
            return
        yield from _plan_families(figures)
        if gap is not None:
            text = "Gap of the newest optimisation: bound / value - 1."
            yield _family("agenda_optimization_gap", text, {}, gap)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing, so that the Plan is not read while it is being replayed."""
        return iter(())

    def _read(self) -> PlanFigures:
        """Return the figures of the current Plan, computed again only if it has changed."""
        now_ms = self._replica.plan_ms(self._clock.now_ms())
        with self._replica.newest() as plan:
            seen = plan, plan.version, now_ms // plan.grid.step_ms
            if self._figures is None or self._seen != seen:
                self._figures, self._seen = figures_of(plan, now_ms), seen
            return self._figures

    def _gap(self) -> float | None:
        """Return the gap of the newest optimisation with one."""
        for row in self._replica.store.optimizations.page():
            gap = msgspec.json.decode(row.progress).get("gap")
            if gap is not None:
                return float(gap)
        return None


def _build() -> dict[str, str]:
    return {"version": product_version(), "python": platform.python_version()}


def product_version() -> str:
    """Return the version of the installed product; ``unknown`` if it runs from source."""
    try:
        return metadata.version("cluster-agenda")
    except metadata.PackageNotFoundError:
        return "unknown"


def _plan_families(figures: PlanFigures) -> Iterator[GaugeMetricFamily]:
    resource = ("resource",)
    yield _many("agenda_capacity", "Capacity of machines that are up: cores, bytes or units.",
                _GROUP, figures.capacity)  # fmt: skip
    yield _many("agenda_allocated", "Capacity reserved now, on all machines.",
                resource, figures.allocated)  # fmt: skip
    yield _many("agenda_free", "Capacity that is free now, on all machines.",
                resource, figures.free)  # fmt: skip
    yield _many("agenda_promised", "Capacity reserved now on named machines.",
                _GROUP, figures.promised)  # fmt: skip
    yield _many("agenda_machines", "Machines of the cluster.", ("group",), figures.machines)
    yield _many("agenda_machines_out", "Machines that are down now.",
                ("group",), figures.machines_out)  # fmt: skip
    yield _many("agenda_reservations", "Reservations by state; the largest tenants by name.",
                ("state", "tenant"), figures.reservations)  # fmt: skip
    promises = {level.value: count for level, count in figures.promises.items()}
    yield _many("agenda_promises", "Current reservations by promise level.",
                ("promise",), promises)  # fmt: skip
    limits = {one.labels: one.limit for one in figures.policies}
    used = {one.labels: one.used for one in figures.policies}
    peaks = {one.labels: one.peak for one in figures.policies}
    yield _many("agenda_policy_limit", "Limits of policies: cores, bytes, units or reservations.",
                _POLICY, limits)  # fmt: skip
    yield _many("agenda_policy_used", "Present use of a limit.", _POLICY, used)
    yield _many("agenda_policy_peak", "Peak of the reserved use of a limit from now on.",
                _POLICY, peaks)  # fmt: skip
    yield _family("agenda_plan_behind_seconds",
                  "How far the Plan is behind the clock, beyond a step.",
                  {}, figures.behind_s)  # fmt: skip


def _many(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return family


def _family(
    name: str, text: str, labels: Mapping[str, str], value: float, *, info: bool = False
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{name}_info" if info else name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family
