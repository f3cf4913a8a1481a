"""`slots_admit`: whole admissions that promise machines: agent, `prepare` and `apply`.

Requests of four shapes fill 460 machines at load 1.2, one after the other, as a service admits
them: bundles small or large against the machines, machines of two kinds, and identical bundles of
which some requests want an eighth of the cluster. Then admissions on 4,000 machines and a day of
minutes, with 100,000 reservations standing: if there is capacity, and where the day is full. Told:
the share of requests that is accepted, by count and by work, and what one admission takes while the
first quarter of the capacity is requested (`room`) and again than all of it is (`full`).

Times are processor time of the thread. What is measured is admitted three times and cancelled in
between, untimed; `p99_of_least` is of the least of the three: what a request costs by itself comes
again, what the machine adds does not. The reference is each time the same request, asked to promise
totals, on the same Plan at the same moment (`pooled`). Memory is that of the machine room, of its
arrays and as the process grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bench.papers.promises import (
    CASES,
    PromiseOptions,
    draw_requests,
    promise_cluster,
)
from bench.workloads.generator import Mix, cluster_of, requests_of
from bench.workloads.server_memory import as_served, resident_bytes
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel
from planner.promise import PromiseLevel
from planner.request import Request
from planner.workload.warm_up import load_kernels
from rdl.work_graph import BUNDLE, WORK

NAME = "slots_admit"

AGENT = "gree-l"

#: Times that every request that is measured is admitted.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class CellSize:
    """A cluster, and what is asked of it."""

    machines: int
    requests: int
    steps: int = 480
    load: float = 1.2


#: A cluster that promises machines, and requests in their order.
Asked = tuple[Cluster, list[Request]]

SHAPES: dict[str, Callable[[CellSize], Asked]] = {
    "small_alike": lambda size: promised(size, "small bundles, identical machines"),
    "large_alike": lambda size: promised(size, "large bundles, identical machines"),
    "two_kinds": lambda size: promised(size, "large bundles, two kinds of machines"),
    "wide": lambda size: generated(size, ("malleable", "gangs")),
}


def promised(size: CellSize, case: str, seed: int = 1) -> Asked:
    """Return machines and requests of a case of the promise levels."""
    options = PromiseOptions(size.machines, size.requests, size.steps, size.load)
    cluster = replace(promise_cluster(options, CASES[case]), promise=PromiseLevel.PLACED)
    drawn = draw_requests(options, cluster, CASES[case], np.random.default_rng(seed))
    return cluster, [request for request, _ in drawn]


def generated(size: CellSize, kinds: Sequence[str]) -> Asked:
    """Return machines alike and requests of kinds of the one generator, as many of each, mixed."""
    each = size.requests // len(kinds)
    mixes = [
        Mix(each, size.steps, size.machines, kind, number, size.load / len(kinds))
        for number, kind in enumerate(kinds)
    ]
    drawn = [
        replace(one, id=f"{mix.kind}-{one.id}", submitted_ms=0)
        for mix in mixes
        for one in requests_of(mix)
    ]
    order = np.random.default_rng(1).permutation(len(drawn))
    cluster = replace(cluster_of(mixes[0]), promise=PromiseLevel.PLACED)
    return cluster, [drawn[index] for index in order]


def run(small: bool) -> dict[str, object]:
    """Fill the clusters, and measure admissions on them."""
    load_kernels()
    _warm()
    filled = CellSize(16, 160) if small else CellSize(460, 9200)
    roomy, full = (
        (CellSize(40, 400, 240, 0.25), CellSize(40, 600, 240))
        if small
        else (CellSize(4000, 101_500, 1440, 0.25), CellSize(4000, 130_000, 1440))
    )
    figures: dict[str, object] = {"memory": room_memory(roomy)}
    for name, draw in SHAPES.items():
        figures[f"fill_{name}"] = Fill(*draw(filled)).figures(ends=True)
    figures["standing_room"] = standing(roomy, last=200 if small else 1500)
    figures["standing_full"] = standing(full, last=100 if small else 3000)
    params = {
        "agent": AGENT,
        **{
            name: f"{size.machines} machines, {size.steps} steps, {size.requests} requests, "
            f"load {size.load}"
            for name, size in (("fill", filled), ("room", roomy), ("full", full))
        },
    }
    return {"params": params, "figures": figures}


def _warm() -> None:
    """Load the kernels of slots: promises of every shape on a few machines that fill."""
    for draw in SHAPES.values():
        Fill(*draw(CellSize(8, 60, 240))).figures(ends=False)


def room_memory(size: CellSize) -> dict[str, float]:
    """Return what the machine room of a cluster takes, in MB (millions of bytes)."""
    options = PromiseOptions(size.machines, 0, size.steps)
    cluster = promise_cluster(options, CASES["large bundles, two kinds of machines"])
    plan = Plan(cluster, cluster.grid())
    before = resident_bytes()
    arrays = plan.room.nbytes
    return {
        "arrays_mb": round(arrays / 1e6, 1),
        "process_grew_mb": round((resident_bytes() - before) / 1e6, 1),
    }


def standing(size: CellSize, last: int) -> dict[str, object]:
    """Admit requests until all but the last ones stand; measure those."""
    fill = Fill(*promised(size, "large bundles, identical machines"))
    with as_served():
        fill.admit(len(fill.requests) - last)
        fill.measure("whole", last)
    return {"standing": fill.stood, **fill.told()}


@dataclass
class Fill:
    """A Plan that is filled request by request.

    Attributes
    ----------
    times
        Microseconds of whole admissions, of the agent's part and of the reference, by request and
        round, by name of what was measured.
    """

    cluster: Cluster
    requests: list[Request]
    agent: Agent = field(default_factory=lambda: agent_named(AGENT))
    times: dict[str, list[list[tuple[float, float, float]]]] = field(default_factory=dict)
    done: int = 0
    accepted: int = 0
    asked_work: float = 0.0
    accepted_work: float = 0.0
    stood: int = 0

    def __post_init__(self) -> None:
        self.plan = Plan(self.cluster, self.cluster.grid())

    def figures(self, *, ends: bool) -> dict[str, object]:
        """Admit all; return what came of it, with times while the cluster is empty and full."""
        with as_served():
            while self.done < len(self.requests):
                part = self.asked_work / self.plan.grid.horizon
                if ends and (part < 0.25 or part > 1):
                    self.measure("room" if part < 0.25 else "full", 1)
                else:
                    self.admit(1)
        return self.told()

    def admit(self, count: int) -> None:
        """Admit the next requests, once."""
        for request in self.requests[self.done : self.done + count]:
            self._note(request, accepted=self._admission(request)[0])

    def measure(self, name: str, count: int) -> None:
        """Admit the next requests, some times each; note what each time took."""
        self.stood = self.stood or self.accepted
        for request in self.requests[self.done : self.done + count]:
            times = []
            for number in range(ROUNDS):
                asked = replace(request, id=f"{request.id}-{number}")
                accepted, whole, agent = self._admission(asked)
                if accepted and number < ROUNDS - 1:
                    self._commit(Cancel(asked.id))
                times.append((whole, agent, self._pooled(asked)))
            self.times.setdefault(name, []).append(times)
            self._note(request, accepted=accepted)

    def _pooled(self, request: Request) -> float:
        """Return microseconds of the admission of the same request on totals; it is cancelled."""
        totals = replace(request, id=f"{request.id}-pooled", promise=PromiseLevel.POOLED)
        stands, whole, _ = self._admission(totals)
        if stands:
            self._commit(Cancel(totals.id))
        return whole

    def _note(self, request: Request, *, accepted: bool) -> None:
        graph, nominal = request.graph, self.cluster.nominal
        work = sum(
            int(row[WORK]) * graph.bundles[int(row[BUNDLE])].dominant_share(nominal)
            for row in graph.vertices
        )
        self.done += 1
        self.accepted += accepted
        self.asked_work += work
        self.accepted_work += work * accepted

    def _admission(self, request: Request) -> tuple[bool, float, float]:
        """Return whether a request is promised, and microseconds of all of it and of the agent."""
        plan, agent = self.plan, self.agent
        begin = time.thread_time()
        result = agent.plan([request], plan.view(), Limits())[0]
        placed = time.thread_time()
        accepted = result.placed
        if accepted:
            accepted = self._commit(Admit(request, result, agent.name, planner=agent))
        end = time.thread_time()
        return accepted, 1e6 * (end - begin), 1e6 * (placed - begin)

    def _commit(self, change: Admit | Cancel) -> bool:
        prepared = self.plan.prepare([change], self.plan.version)
        if prepared.record is not None:
            self.plan.apply(prepared.record, prepared.takings)
        return prepared.record is not None

    def told(self) -> dict[str, object]:
        """Return what was accepted, how many pieces that is, and percentiles of the times."""
        slots = [
            atom.slots
            for one in self.plan.reservations()
            if one.state != "cancelled"
            for atom in one.atoms
            if atom.slots is not None
        ]
        figures: dict[str, object] = {
            "requests": len(self.requests),
            "accepted": round(self.accepted / max(self.done, 1), 3),
            "by_work": round(self.accepted_work / max(self.asked_work, 1e-9), 3),
            "pieces": int(sum(one[:, 2].sum() for one in slots)),
        }
        for name, measured in self.times.items():
            whole, agent, pooled = np.moveaxis(np.array(measured), 2, 0)
            figures[f"{name}_us"] = {
                **percentiles(whole),
                "agent_p50": round(float(np.median(agent)), 1),
                "pooled": percentiles(pooled),
                "over_pooled": {
                    "p50": round(float(np.median(whole) / np.median(pooled)), 2),
                    "p99_of_least": round(_p99_of_least(whole) / _p99_of_least(pooled), 2),
                },
            }
        return figures


def percentiles(times: NDArray[np.float64]) -> dict[str, float]:
    """Return percentiles of float64[request, round], and the 99th of each request's least time."""
    middle, high = np.percentile(times, (50, 99))
    return {
        "p50": round(float(middle), 1),
        "p99": round(float(high), 1),
        "p99_of_least": round(_p99_of_least(times), 1),
    }


def _p99_of_least(times: NDArray[np.float64]) -> float:
    return float(np.percentile(times.min(axis=1), 99))
