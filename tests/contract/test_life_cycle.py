"""A plan stays valid through its life: begun, closed, cancelled, rolled on."""

from __future__ import annotations

import json
from typing import Any

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.files import WorkloadLine
from planner.metrics import measure
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel, Change, Close
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import document_of
from rdl.resources import Resources

CLUSTER = Cluster(1000, 100_000, (MachineGroup("m", 10, Resources.of({"cpu": 1000})),))

UNIT = "atom(<1 cpu>, 1, 1, 1, 1)"
REQUESTS = {
    "finite": "every(10, window(atom(<1 cpu>, 2, 4, 2, 12), 0, 8), times=5)",
    "chain": "window(order(atom(<1 cpu>, 1, 5, 5, 50), atom(<1 cpu>, 1, 5, 5, 50)), 0, 40)",
    "endless": "every(20, atom(<1 cpu>, 1, 1, 5, 5))",
    "other": "every(20, atom(<1 cpu>, 2, 2, 5, 10))",
    "nested": f"every(10, any(atom(<1 cpu>, 11, 11, 1, 11), every(5, any({UNIT}, {UNIT}), "
    "times=2)), times=2)",
}


def step(plan: Plan, *changes: Change) -> dict[str, Any]:
    """Commit changes and return the plan file they make."""
    prepared = plan.prepare(changes, plan.version, atomic=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    figures = measure([], CLUSTER.nominal, 1)
    document = document_of(plan, "gree-l", "submitted", figures).to_json() | {"metrics": None}
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def judged(plan: Plan, document: dict[str, Any]) -> list[PlanViolation]:
    """Hold a plan file against the plan's own grid, which rolls on."""
    return validate(document, cluster=plan.cluster, grid=plan.grid)


def test_every_step_of_a_life_is_valid() -> None:
    """Admitted, begun, closed and cancelled in the middle, rolled past: no violation."""
    lines = [WorkloadLine(name, rdl) for name, rdl in REQUESTS.items()]
    requests = compile_workload(lines, CLUSTER).requests
    assert len(requests) == len(lines)
    plan = Plan(CLUSTER, CLUSTER.grid())
    results = agent_named("gree-l").plan(requests, plan.view(), Limits())
    admitted = [Admit(q, r, "gree-l") for q, r in zip(requests, results, strict=True)]
    assert judged(plan, step(plan, *admitted)) == []
    assert judged(plan, step(plan, Advance(23))) == []
    document = step(plan, Close("finite"), Close("chain"), Cancel("endless"))
    states = {entry["id"]: entry["state"] for entry in document["reservations"]}
    assert (states["finite"], states["endless"]) == ("completed", "cancelled")
    released = [a for e in document["reservations"] for a in e["atoms"] if a.get("released")]
    assert released
    assert judged(plan, document) == []
    # What was released belongs to the promise: without it the oracle finds work missing.
    for atom in released:
        del atom["released"]
    assert {v.rule for v in judged(plan, document)} == {"oracle"}
    rolled = step(plan, Advance(60, 160))
    assert judged(plan, rolled) == []
    other = next(entry for entry in rolled["reservations"] if entry["id"] == "other")
    assert len(other["atoms"]) == 8  # the endless one holds every period of the longer horizon
