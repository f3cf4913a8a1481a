"""`admit`: one request against a Plan that holds many reservations; weeks of 60 s and 1 s steps.

Every admission is a batch of one from its WorkGraph: the agent reads the live view, `prepare`
re-checks capacity and policies, `apply` takes the rows; then it is cancelled, untimed. The
reference is the same on the Plan of 10,000 reservations: the cost must not grow with their number.
Times are processor time of the thread: pauses of the garbage collector count, others do not. Every
request is admitted three times: what is slow once only is the machine's doing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from bench.workloads.server_memory import as_served, resident_bytes
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.cluster.policy import CapacityOverTime, Scope
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel
from planner.request import Request
from planner.workload.warm_up import load_kernels
from rdl.compile.compiler import compile_expression
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources

NAME = "admit"

_MINUTE_MS = 60_000
_SECOND_MS = 1_000
_BUNDLE = Resources.of({"cpu": 1000, "memory": 2048})
_MACHINES = MachineGroup("standard", 4000, Resources.of({"cpu": 32_000, "memory": 65_536}))
_CAPACITY = 4000 * 32
_TENANTS = 20

#: Times that every request is admitted.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Week:
    """A week of steps of `step_ms`; lengths below are drawn in minutes."""

    step_ms: int = _MINUTE_MS

    @property
    def minute(self) -> int:
        """Steps of a minute."""
        return _MINUTE_MS // self.step_ms

    @property
    def steps(self) -> int:
        """Steps of the week."""
        return 10_080 * self.minute

    @property
    def day(self) -> int:
        """Steps of a day."""
        return 1_440 * self.minute


def run(small: bool) -> dict[str, object]:
    """Measure admissions at growing numbers of standing reservations."""
    sizes = [1000, 10_000] if small else [1000, 10_000, 100_000, 1_000_000]
    count = 300 if small else 1500
    figures: dict[str, object] = {}
    typical: dict[int, float] = {}
    load_kernels()  # compiled code is no reservation's memory, and no admission's time
    for size in sizes:
        before = resident_bytes()
        plan = _standing(Week(), size)
        figures[f"bytes_each_{size}"] = round((resident_bytes() - before) / size)
        typical[size] = _measure(plan, Week(), count, size, figures)
        del plan
    for size in sizes[2:]:
        figures[f"gree-l_{size}_over_10000"] = round(typical[size] / typical[10_000], 2)
    fine = Week(_SECOND_MS)
    for size in sizes[1:3]:
        plan = _standing(fine, size)
        _measure(plan, fine, count // 3, f"{size}_1s", figures)
        del plan
    return {"params": {"steps": Week().steps, "admissions": count, "load": 0.7}, "figures": figures}


def _measure(
    plan: Plan, week: Week, count: int, label: object, figures: dict[str, object]
) -> float:
    """Note the figures of both agents; return the median of GREE-L in microseconds."""
    median = 0.0
    for agent in ("gree", "gree-l"):
        asked = _asked(plan, week, agent, count)
        with as_served():
            rounds = [_admissions(plan, agent, asked, number) for number in range(_ROUNDS)]
        whole, placing = (np.array([one[part] for one in rounds]) for part in (0, 1))
        median = float(np.median(whole))
        for part, times in (("", whole), ("_agent", placing)):
            figures[f"{agent}{part}_us_{label}"] = _percentiles(times)
    return median


def _percentiles(times: NDArray[np.float64]) -> dict[str, float]:
    """Return percentiles of float64[round, request], and the 99th of each request's least time.

    What a request costs by itself comes again in every round; what the machine adds does not.
    """
    figures = dict(zip(("p50", "p99", "max"), np.percentile(times, (50, 99, 100)), strict=True))
    figures["p99_of_least"] = np.percentile(times.min(axis=0), 99)
    return {name: round(float(value), 1) for name, value in figures.items()}


def _standing(week: Week, size: int) -> Plan:
    """Return a Plan of `size` reservations: lognormal lengths, 70 % of the capacity together."""
    policy = CapacityOverTime("fair", Scope("*"), Decimal("0.9"), Decimal("0.8"), 86_400_000)
    cluster = Cluster(week.step_ms, 7 * 86_400_000, (_MACHINES,), policies=(policy,))
    plan = Plan(cluster, cluster.grid())
    rng = np.random.default_rng(size)
    minutes = np.clip(rng.lognormal(4, 1, size), 5, 2000)
    lengths = (minutes * week.minute).astype(np.int64)
    starts = (rng.random(size) * (week.steps - lengths)).astype(np.int64)
    tall = rng.lognormal(0, 1, size)
    free = np.full(week.steps, int(0.95 * _CAPACITY), dtype=np.int64)
    tall *= 0.7 * _CAPACITY * week.steps / float((tall * lengths).sum())
    template = _request(plan, "s", (0, week.steps), (1, 1, 1, 1), "t0").graph
    changes: list[Admit] = []
    for index in range(size):
        start, end = int(starts[index]), int(starts[index] + lengths[index])
        height = int(min(max(1, round(tall[index])), free[start:end].min()))
        if height < 1:
            height, (start, end) = 1, _room(free, int(lengths[index]))
        free[start:end] -= height
        tenant = f"t{index % _TENANTS}"
        request = Request(f"s{index}", tenant, "default", 0, 1.0, 0, template)
        rows = np.array([[start, end, height]], dtype=np.int64)
        result = PlacementResult(vertices=np.array([0]), first=np.array([0, 1]), rows=rows)
        changes.append(Admit(request, result, "gree"))
        if len(changes) == 10_000 or index == size - 1:
            _commit(plan, changes)
            changes = []
    return plan


def _room(free: np.ndarray, length: int) -> tuple[int, int]:
    start = int(np.argmax(free[: len(free) - length]))
    return start, start + 1


def _commit(plan: Plan, changes: Sequence[Admit | Cancel]) -> None:
    prepared = plan.prepare(changes, plan.version)
    if prepared.record is None:
        raise AssertionError(f"the plan took nothing: {prepared.outcomes[0]}")
    plan.apply(prepared.record, prepared.takings)


def _request(
    plan: Plan,
    name: str,
    window: tuple[int, int],
    numbers: tuple[int, int, int, int],
    tenant: str,
) -> Request:
    least, most, lease, work = numbers
    step = plan.grid.step_ms
    atom = Atom(_BUNDLE, least, most, lease * step, work * step)
    expression = Window(Offset(window[0] * step), Offset(window[1] * step), atom)
    context = plan.cluster.context(plan.grid, 0)
    graph = compile_expression(expression, context)
    return Request(name, tenant, "default", 0, 1.0, 0, graph)


def _asked(plan: Plan, week: Week, name: str, count: int) -> list[Request]:
    """Return requests with windows up to a day, three in ten of them gangs."""
    rng = np.random.default_rng(7)
    found = []
    for index in range(count):
        lease = int(rng.integers(2 * week.minute, 181 * week.minute))
        most = int(np.exp(rng.uniform(0, np.log(1500))))
        least = most if rng.random() < 0.3 else 1
        leases = int(rng.integers(1, 4))
        length = int(rng.integers(min(leases * lease, week.day), week.day + 1))
        start = int(rng.integers(0, week.steps - length))
        numbers = (least, most, lease, most * lease * leases)
        tenant = f"t{index % _TENANTS}"
        found.append(_request(plan, f"{name}-{index}", (start, start + length), numbers, tenant))
    return found


def _admissions(
    plan: Plan, name: str, asked: Sequence[Request], number: int
) -> tuple[list[float], list[float]]:
    """Return microseconds of each admission, and of the agent's part of it, in one round."""
    agent = agent_named(name)
    limits = Limits()
    whole, placing = [], []
    for request in (replace(one, id=f"{one.id}-{number}") for one in asked):
        begin = time.thread_time()
        result = agent.plan([request], plan.view(), limits)[0]
        placed = time.thread_time()
        if result.placed:
            _commit(plan, [Admit(request, result, name)])
        end = time.thread_time()
        whole.append(1e6 * (end - begin))
        placing.append(1e6 * (placed - begin))
        if result.placed:
            _commit(plan, [Cancel(request.id)])
    return whole[20:], placing[20:]
