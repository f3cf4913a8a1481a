"""`admit`: one request against a Plan that holds many reservations, at a week of 60 s steps.

Every admission is a batch of one from its WorkGraph: the agent reads the live view, `prepare`
re-checks capacity and policies, `apply` takes the rows; then it is cancelled, untimed. The
reference is the same on the Plan of 10,000 reservations: the cost must not grow with their number.
Times are processor time of the thread: pauses of the garbage collector count, others do not.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster import Cluster, MachineGroup
from planner.commit import Admit, Cancel
from planner.placement import PlacementResult
from planner.plan import Plan
from planner.policy import CapacityOverTime, Scope
from planner.request import Request
from rdl.compiler import CompileContext, compile_expression
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources

NAME = "admit"

_STEP_MS = 60_000
_WEEK = 10_080
_DAY = 1_440
_BUNDLE = Resources.of({"cpu": 1000, "memory": 2048})
_MACHINES = MachineGroup("standard", 4000, Resources.of({"cpu": 32_000, "memory": 65_536}))
_CAPACITY = 4000 * 32
_TENANTS = 20


def run(small: bool) -> dict[str, object]:
    """Measure admissions at growing numbers of standing reservations."""
    sizes = [1000, 10_000] if small else [1000, 10_000, 100_000, 1_000_000]
    count = 300 if small else 1500
    figures: dict[str, object] = {}
    typical: dict[int, float] = {}
    for size in sizes:
        before = _resident()
        plan = _standing(size)
        figures[f"bytes_each_{size}"] = round((_resident() - before) / size)
        gc.collect()
        gc.freeze()
        for agent in ("gree", "gree-l"):
            whole, placing = _admissions(plan, agent, count)
            typical[size] = float(np.median(whole)) if agent == "gree-l" else 0.0
            for part, times in (("", whole), ("_agent", placing)):
                figures[f"{agent}{part}_us_{size}"] = _told(times)
        gc.unfreeze()
        del plan
    for size in sizes[2:]:
        figures[f"gree-l_{size}_over_10000"] = round(typical[size] / typical[10_000], 2)
    return {"params": {"steps": _WEEK, "admissions": count, "load": 0.7}, "figures": figures}


def _told(times: Sequence[float]) -> dict[str, float]:
    parts = np.percentile(times, (50, 99, 100))
    return dict(zip(("p50", "p99", "max"), (round(float(part), 1) for part in parts), strict=True))


def _resident() -> int:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _standing(size: int) -> Plan:
    """Return a Plan of `size` reservations: lognormal lengths, 70 % of the capacity together."""
    policy = CapacityOverTime("fair", Scope("*"), Decimal("0.9"), Decimal("0.8"), 86_400_000)
    cluster = Cluster(_STEP_MS, _WEEK * _STEP_MS, (_MACHINES,), policies=(policy,))
    plan = Plan(cluster, cluster.grid())
    rng = np.random.default_rng(size)
    lengths = np.clip(rng.lognormal(4, 1, size), 5, 2000).astype(np.int64)
    starts = (rng.random(size) * (_WEEK - lengths)).astype(np.int64)
    tall = rng.lognormal(0, 1, size)
    free = np.full(_WEEK, int(0.95 * _CAPACITY), dtype=np.int64)
    tall *= 0.7 * _CAPACITY * _WEEK / float((tall * lengths).sum())
    template = _request(plan, "s", (0, _WEEK), (1, 1, 1, 1), "t0").graph
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
    start = int(np.argmax(free[: _WEEK - length]))
    return start, start + 1


def _commit(plan: Plan, changes: Sequence[Admit | Cancel]) -> None:
    prepared = plan.prepare(changes, plan.version)
    if prepared.record is None:
        raise AssertionError(f"the plan took nothing: {prepared.outcomes[0]}")
    plan.apply(prepared.record)


def _request(
    plan: Plan,
    name: str,
    window: tuple[int, int],
    numbers: tuple[int, int, int, int],
    tenant: str,
) -> Request:
    least, most, lease, work = numbers
    atom = Atom(_BUNDLE, least, most, lease * _STEP_MS, work * _STEP_MS)
    expression = Window(Offset(window[0] * _STEP_MS), Offset(window[1] * _STEP_MS), atom)
    context = CompileContext(plan.grid, 0, plan.cluster.shapes())
    graph = compile_expression(expression, context)
    return Request(name, tenant, "default", 0, 1.0, 0, graph)


def _asked(plan: Plan, name: str, count: int) -> list[Request]:
    """Return requests with windows up to a day, three in ten of them gangs."""
    rng = np.random.default_rng(7)
    found = []
    for index in range(count):
        lease = int(rng.integers(2, 181))
        most = int(np.exp(rng.uniform(0, np.log(1500))))
        least = most if rng.random() < 0.3 else 1
        leases = int(rng.integers(1, 4))
        length = int(rng.integers(min(leases * lease, _DAY), _DAY + 1))
        start = int(rng.integers(0, _WEEK - length))
        numbers = (least, most, lease, most * lease * leases)
        tenant = f"t{index % _TENANTS}"
        found.append(_request(plan, f"{name}-{index}", (start, start + length), numbers, tenant))
    return found


def _admissions(plan: Plan, name: str, count: int) -> tuple[list[float], list[float]]:
    """Return microseconds of each admission, and of the agent's part of it."""
    agent = agent_named(name)
    limits = Limits()
    whole, placing = [], []
    for request in _asked(plan, name, count):
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
