"""Who asks, how urgently and how creditably stays with a request, whatever becomes of it."""

from __future__ import annotations

from dataclasses import replace

from planner.agent import Limits
from planner.optimization.objective import Objective, Weights
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import Code
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Refuse
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Refused
from planner.promise import PromiseLevel
from planner.request import header_of
from planner.workload.plan import document_of
from planner.workload.reload import metrics_of, plan_of_document
from tests.builders import a_cluster, a_plan, a_request, ask, commit


def _in_the_way() -> Plan:
    """Return a Plan that refused a request of its own level; whoever is in its way can move."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").build()
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 4, 12)").on(cluster))
    line = a_request("b", "window(atom(<1 cpu>, 2, 2, 4, 8), 6, 12)").tenant("t").weight(3)
    request = line.priority(7).on(cluster)
    request = replace(request, promise=PromiseLevel.POOLED)
    commit(plan, Refuse(request, Code.CAPACITY, "no capacity"))
    return plan


def test_a_refused_request_that_comes_in_keeps_its_header() -> None:
    """Refused first and admitted by an optimisation: its header is that of the request."""
    plan = _in_the_way()
    refusal = plan.refusal("b")
    assert refusal is not None
    effort = OptimizeOptions(Limits(work=60, seed=1), solver="milp")
    goal = Objective(Weights(falls=0, cost=0))
    found = optimize(plan, goal, OptimizeScope(admit_refused=True), effort)
    prepared = plan.prepare(found.changes, found.based_on, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    reservation = plan.reservation("b")
    assert reservation is not None
    assert header_of(reservation) == header_of(refusal)


def test_a_refusal_keeps_its_header_in_log_snapshot_and_file() -> None:
    """Written and read again it says what was asked."""
    plan = _in_the_way()
    refusal = plan.refusal("b")
    assert refusal is not None
    record = CommitRecord.from_json(CommitRecord(1, 0, (Refused(refusal),)).to_json())
    assert record.changes == (Refused(refusal),)
    assert read_checkpoint(take_checkpoint(plan).encode()).refusal("b") == refusal
    read = plan_of_document(document_of(plan, "gree", "submitted", metrics_of(plan)))
    known = read.refusal("b")
    assert known is not None
    assert header_of(known) == header_of(refusal)
