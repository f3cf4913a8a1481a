"""`average`: one admission that a window average binds, on a day of steps of a second.

A tenant may use a tenth of the pool on average over every hour, or over every day, and holds a
good part of that already, in pieces. It asks for nine tenths of the least that any window still
leaves for every window that fits alongside it, in leases of a minute or half an hour: most of what
capacity allows, the average does not. The reference is the same request of someone whom no average
binds. Times are processor time of the thread, of the agent and of the commit, the least of some.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from bench.workloads.server_memory import as_served
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

NAME = "average"

_DAY = 86_400
_SECOND_MS = 1_000
_BUNDLE = Resources.of({"cpu": 1000})
_MACHINES = MachineGroup("standard", 100, Resources.of({"cpu": 32_000}))
_SHARE = 320  # bundles: a tenth of the pool
_STANDING = 60


@dataclass(frozen=True, slots=True)
class _Case:
    """Lengths in steps: of the request's window and leases, and of the average's window."""

    columns: int
    window: int
    lease: int
    least: int = 1


def run(small: bool) -> dict[str, object]:
    """Measure admissions of a bound tenant by window of the average, lease and agent."""
    columns = _DAY // 4 if small else _DAY
    load_kernels()
    figures: dict[str, object] = {}
    for window in (3_600, columns):
        for lease in (60, 1_800):
            for agent in ("gree", "gree-l"):
                case = _Case(columns, window, lease)
                figures[f"{agent}_{window}_{lease}"] = _measure(case, agent, 1 if small else 5)
    return {"params": {"columns": columns, "standing": _STANDING}, "figures": figures}


def _measure(case: _Case, agent: str, rounds: int) -> dict[str, object]:
    plan = _plan_of(case)
    work = _most_work(plan, case)
    figures: dict[str, object] = {"work": work}
    with as_served():
        for label, tenant in (("bound", "t"), ("unbound", "free")):
            asked = _request(plan, label, case, work, tenant)
            asked_again = [replace(asked, id=f"{label}-{number}") for number in range(rounds)]
            times = [_admit(plan, agent, one) for one in asked_again]
            figures[f"{label}_agent_ms"] = round(min(one[0] for one in times), 2)
            figures[f"{label}_commit_ms"] = round(min(one[1] for one in times), 2)
            figures[f"{label}_rows"] = times[0][2]
    return figures


def _admit(plan: Plan, agent: str, asked: Request) -> tuple[float, float, int]:
    """Return milliseconds of the agent and of the commit, and the number of rows (0: refused)."""
    begin = time.thread_time()
    result = agent_named(agent).plan([asked], plan.view(), Limits())[0]
    placed = time.thread_time()
    if not result.placed:
        return 1e3 * (placed - begin), 0.0, 0
    _commit(plan, Admit(asked, result, agent))
    end = time.thread_time()
    _commit(plan, Cancel(asked.id))
    return 1e3 * (placed - begin), 1e3 * (end - placed), len(result.rows)


def _commit(plan: Plan, *changes: Admit | Cancel) -> None:
    prepared = plan.prepare(changes, plan.version)
    if prepared.record is None:
        raise AssertionError(f"the plan took nothing: {prepared.outcomes[0]}")
    plan.apply(prepared.record, prepared.takings)


def _plan_of(case: _Case) -> Plan:
    """Return a Plan in which the tenant holds blocks of a quarter of its average together."""
    policy = CapacityOverTime("fair", Scope("t"), None, Decimal("0.1"), case.window * _SECOND_MS)
    horizon = 3 * case.columns * _SECOND_MS
    plan = Plan(
        cluster := Cluster(_SECOND_MS, horizon, (_MACHINES,), policies=(policy,)), cluster.grid()
    )
    rng = np.random.default_rng(3)
    length = case.columns // 40
    height = _SHARE * case.columns // (_STANDING * length)
    zone = np.repeat([0, 1, 2], _STANDING // 3 * np.array([1, 1, 3]) // 2)
    for index, start in enumerate(
        (zone * case.columns + rng.integers(0, case.columns - length, len(zone))).tolist()
    ):
        gang = replace(case, lease=length, least=height)
        request = _request(plan, f"s{index}", gang, height * length, "t")
        rows = np.array([[start, start + length, height]], dtype=np.int64)
        result = PlacementResult(vertices=np.array([0]), first=np.array([0, 1]), rows=rows)
        prepared = plan.prepare([Admit(request, result, "gree")], plan.version)
        if prepared.record is not None:  # else a window is full: this one is left out
            plan.apply(prepared.record, prepared.takings)
    return plan


def _most_work(plan: Plan, case: _Case) -> int:
    """Return eight tenths of what windows side by side still leave of the average."""
    averages = plan.view().averages
    begin = averages.offset + case.columns
    return int(0.9 * averages.slack[0, begin : begin + case.columns : case.window].sum() / 1000)


def _request(plan: Plan, name: str, case: _Case, work: int, tenant: str) -> Request:
    begin = case.columns
    least = case.least
    most = max(least, 1200)
    bounds = (0, 3 * case.columns) if least > 1 else (begin, begin + case.columns)
    atom = Atom(
        _BUNDLE, least, most if least == 1 else least, case.lease * _SECOND_MS, work * _SECOND_MS
    )
    expression = Window(Offset(bounds[0] * _SECOND_MS), Offset(bounds[1] * _SECOND_MS), atom)
    graph = compile_expression(expression, plan.cluster.context(plan.grid, 0))
    return Request(name, tenant, "default", 0, 1.0, 0, graph)
