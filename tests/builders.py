"""Fluent builders of clusters, requests and plans, with defaults a test need not repeat.

cluster = a_cluster().machines("plain", 100, cpu=1).build()
request = a_request("r1", "window(atom(<1 cpu>, 1, 10, 60, 600), 0, 800)").on(cluster)
plan = a_plan(cluster).holding(request).build()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.workload_file import WorkloadLine
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Prepared, Refuse
from planner.request import Request
from planner.workload.compile import CompiledWorkload, compile_line, compile_workload
from rdl.durations import read_duration
from rdl.errors import RdlError
from rdl.time_grid import TimeGrid


@dataclass(frozen=True, slots=True)
class ClusterBuilder:
    """A cluster file in the making; steps of 1 s and a horizon of 800 s unless said otherwise."""

    document: Mapping[str, Any]

    def _with(self, **changes: Any) -> ClusterBuilder:
        return ClusterBuilder({**self.document, **changes})

    def _more(self, key: str, entry: Mapping[str, Any]) -> ClusterBuilder:
        return self._with(**{key: [*self.document.get(key, ()), entry]})

    def step(self, step: str | float) -> ClusterBuilder:
        """Set the length of a step."""
        return self._with(step=step)

    def horizon(self, horizon: str | float) -> ClusterBuilder:
        """Set how far ahead is planned."""
        return self._with(horizon=horizon)

    def origin(self, origin: str) -> ClusterBuilder:
        """Set the instant of step 0."""
        return self._with(origin=origin)

    def zone(self, name: str) -> ClusterBuilder:
        """Set the zone in which people read times."""
        return self._with(zone=name)

    def max_period(self, period: str | float) -> ClusterBuilder:
        """Set the period of endless requests."""
        return self._with(max_period=period)

    def machines(
        self, name: str, count: int, labels: tuple[str, ...] = (), **resources: Any
    ) -> ClusterBuilder:
        """Add a group; resources as keywords, each per machine."""
        entry: dict[str, Any] = {"name": name, "count": count, "resources": resources}
        return self._more("machines", entry | ({"labels": list(labels)} if labels else {}))

    def outage(self, machines: str, count: int, start: object, end: object) -> ClusterBuilder:
        """Take the highest `count` machines of a group away."""
        return self._more(
            "outages", {"machines": machines, "count": count, "start": start, "end": end}
        )

    def queue(self, name: str, *, reservable: bool = True) -> ClusterBuilder:
        """Add a queue."""
        return self._more("queues", {"name": name, "reservable": reservable})

    def policy(self, kind: str, **keys: Any) -> ClusterBuilder:
        """Add a policy; `start` and `end` stand for the keys ``from`` and ``to``."""
        renamed = {{"start": "from", "end": "to"}.get(key, key): keys[key] for key in keys}
        return self._more("policies", {"type": kind, **renamed})

    def price(self, start: object, end: object, factor: float) -> ClusterBuilder:
        """Make steps cost `factor` times as much."""
        return self._more("prices", {"start": start, "end": end, "factor": factor})

    def build(self) -> Cluster:
        """Return the cluster; without machines, 100 of one core."""
        if "machines" not in self.document:
            return self.machines("plain", 100, cpu=1).build()
        return cluster_from_json(self.document)


def a_cluster() -> ClusterBuilder:
    """Start a cluster of 1 s steps and 800 s horizon."""
    return ClusterBuilder({"step": "1s", "horizon": "800s"})


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """A workload line in the making."""

    line: WorkloadLine

    def tenant(self, tenant: str) -> RequestBuilder:
        """Set who asks."""
        return RequestBuilder(replace(self.line, tenant=tenant))

    def queue(self, queue: str) -> RequestBuilder:
        """Set under which queue."""
        return RequestBuilder(replace(self.line, queue=queue))

    def submitted(self, at: str | float) -> RequestBuilder:
        """Set when, from the origin."""
        return RequestBuilder(replace(self.line, submitted_ms=read_duration(at)))

    def weight(self, weight: float) -> RequestBuilder:
        """Set the factor of its value."""
        return RequestBuilder(replace(self.line, weight=weight))

    def priority(self, priority: int) -> RequestBuilder:
        """Set its priority."""
        return RequestBuilder(replace(self.line, priority=priority))

    def on(self, cluster: Cluster, grid: TimeGrid | None = None) -> Request:
        """Compile it."""
        return compile_line(self.line, cluster, cluster.grid() if grid is None else grid)

    def if_possible(self, cluster: Cluster) -> Request | None:
        """Compile it; None if no plan can hold it, as a window that is too short cannot."""
        try:
            return self.on(cluster)
        except RdlError:
            return None


def a_request(id_: str, source: str | Mapping[str, Any]) -> RequestBuilder:
    """Start a request of tenant and queue ``default``, submitted at 0."""
    return RequestBuilder(WorkloadLine(id_, source))


def a_workload(cluster: Cluster, *requests: RequestBuilder) -> CompiledWorkload:
    """Compile requests as one workload."""
    return compile_workload([one.line for one in requests], cluster)


@dataclass(frozen=True, slots=True)
class PlanBuilder:
    """A Plan with requests placed one after the other."""

    cluster: Cluster
    requests: tuple[Request, ...] = ()
    agent: Agent = field(default_factory=lambda: agent_named("gree"))

    def holding(self, *requests: Request) -> PlanBuilder:
        """Add requests; each must find a place."""
        return replace(self, requests=(*self.requests, *requests))

    def placed_by(self, name: str) -> PlanBuilder:
        """Choose the agent."""
        return replace(self, agent=agent_named(name))

    def build(self) -> Plan:
        """Return the Plan, one version a request."""
        plan = Plan(self.cluster, self.cluster.grid())
        for request in self.requests:
            prepared = ask(plan, request, self.agent)
            assert prepared.record is not None, prepared.outcomes
            assert plan.reservation(request.id) is not None, plan.refusal(request.id)
        return plan


def a_plan(cluster: Cluster) -> PlanBuilder:
    """Start an empty Plan."""
    return PlanBuilder(cluster)


def ask(plan: Plan, request: Request, agent: Agent | None = None) -> Prepared:
    """Place one request on a Plan as it is now, and commit the answer."""
    chosen = agent_named("gree") if agent is None else agent
    result = chosen.plan([request], plan.view(), Limits())[0]
    change: Change = Admit(request, result, chosen.name)
    if result.code is not None:
        change = Refuse(request, result.code, result.detail, result.binding)
    return commit(plan, change)


def commit(plan: Plan, *changes: Change, atomic: bool = False, at_ms: int = 0) -> Prepared:
    """Prepare changes on the present version and apply what comes of them."""
    prepared = plan.prepare(changes, plan.version, atomic=atomic, at_ms=at_ms)
    if prepared.record is not None:
        plan.apply(prepared.record)
    return prepared
