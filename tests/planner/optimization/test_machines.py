"""Optimisation on machines: what it answers can be applied, and says what machines cost."""

from __future__ import annotations

from dataclasses import replace

from planner.agent import Limits
from planner.agents import agent_named
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel, Refuse
from planner.promise import PromiseLevel
from tests.builders import a_cluster, a_request, commit

EFFORT = OptimizeOptions(Limits(work=20))


def scattered() -> Plan:
    """Two machines of 4 cores, 3 taken of each for all the time; a request for 2 was refused."""
    built = a_cluster().step("10s").horizon("1m").machines("m", 2, cpu=4).build()
    cluster = replace(built, promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("gree")
    for name, text in (
        ("a", "window(atom(<3 cpu>, 1, 1, 1m, 1m), 0, 1m)"),
        ("b", "window(atom(<3 cpu>, 1, 1, 1m, 1m), 0, 1m)"),
        ("c", "window(atom(<2 cpu>, 1, 1, 1m, 1m), 0, 1m)"),
    ):
        request = a_request(name, text).on(cluster)
        result = agent.plan([request], plan.view(), Limits())[0]
        prepared = commit(plan, Admit(request, result, "gree", planner=agent))
        for conflict in prepared.conflicts:
            commit(plan, Refuse(request, conflict.code, conflict.detail, conflict.binding))
    return plan


def test_what_machines_do_not_hold_is_left_out_and_counted_as_loss() -> None:
    """Totals have two cores for the third; no machine has: nothing changes, and it says why."""
    plan = scattered()
    found = optimize(plan, scope=OptimizeScope(admit_refused=True), effort=EFFORT)
    assert found.changes == ()
    assert found.machine_loss is not None
    assert found.machine_loss > 0
    assert found.status == "feasible"
    (left,) = found.left_out
    assert left.id == "c"
    assert "machines hold none of them" in left.detail
    assert found.to_json()["machine_loss"] == round(found.machine_loss, 6)


def test_what_machines_hold_can_be_applied() -> None:
    """Capacity after a cancellation: the third comes in, on the machine that is free."""
    plan = scattered()
    commit(plan, Cancel("a"))
    found = optimize(plan, scope=OptimizeScope(admit_refused=True), effort=EFFORT)
    prepared = plan.prepare(found.changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    third = plan.reservation("c")
    assert third is not None
    assert third.atoms[0].slots is not None
    assert found.machine_loss is None
