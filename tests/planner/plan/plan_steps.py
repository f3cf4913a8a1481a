"""Plans to which the usual things happen, and what it means that two are the same."""

from __future__ import annotations

import numpy as np

from planner.agent import Limits
from planner.agents import agent_named
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel, Change, Close, Refuse
from tests.builders import a_cluster, a_request

CLUSTER = (
    a_cluster()
    .machines("plain", 20, cpu=1)
    .machines("fast", 10, ("fast",), cpu=1)
    .origin("2026-01-05T00:00:00Z")
    .max_period("100s")
    .policy("quota", name="ads", tenant="ads", limit={"cpu": 15})
    .policy("capacity_over_time", name="all", tenant="*", average=0.8, window="100s")
    .build()
)

SOURCES = (
    "window(atom(<1 cpu>, 1, 10, 10, 200), 0, 300)",
    "window(order(atom(<1 cpu>, 5, 5, 20, 100), atom(<1 cpu>, 1, 5, 10, 100)), +0, +400)",
    "any(window(atom(<1 cpu>, 9, 9, 50, 450), 0, 60), atom(<1 cpu>, 1, 9, 50, 450))",
    'atom(<1 cpu>, 4, 4, 30, 120, on="fast")',
    "every(100, atom(<1 cpu>, 1, 2, 10, 40))",
    "every(100, window(atom(<1 cpu>, 1, 1, 10, 20), 20, 90), times=3)",
)


def assert_same(plan: Plan, other: Plan) -> None:
    """Check that two plans hold, show and leave the same."""
    assert (plan.version, plan.now, plan.grid) == (other.version, other.now, other.grid)
    assert plan.cluster == other.cluster
    mine = [one.to_json(plan.grid, history=True) for one in plan.reservations()]
    assert mine == [one.to_json(other.grid, history=True) for one in other.reservations()]
    assert plan.refusals == other.refusals
    for tenant in (None, "ads", "ml"):
        assert plan.live_count(tenant, None) == other.live_count(tenant, None)
    for request in [a_request("x", source).tenant("ads").on(CLUSTER) for source in SOURCES[:4]]:
        for bundle in request.graph.bundles:
            for label in (None, *request.graph.labels):
                ours = plan.view().demand(bundle, label, "ads", "default")
                theirs = other.view().demand(bundle, label, "ads", "default")
                for one, two in zip(ours.rows, theirs.rows, strict=True):
                    assert np.array_equal(plan.view().free[one], other.view().free[two])
                for one, two in zip(ours.averages, theirs.averages, strict=True):
                    slack = plan.view().averages.slack[one]
                    assert np.array_equal(slack, other.view().averages.slack[two])


def step(plan: Plan, action: int, number: int) -> None:
    """Do one of the things that happen to a plan."""
    changes: list[Change] = []
    known = list(plan.table.ids())
    if action < len(SOURCES):
        request = a_request(f"r{number}", SOURCES[action])
        request = request.tenant("ads" if number % 2 else "ml").submitted(plan.now)
        compiled = request.on(plan.cluster, plan.grid)
        result = agent_named("gree").plan([compiled], plan.snapshot(), Limits())[0]
        if result.code is None:
            changes.append(Admit(compiled, result, "gree"))
        else:
            changes.append(Refuse(compiled, result.code, result.detail, result.binding))
    elif action == 6 and known:
        changes.append(Cancel(known[number % len(known)]))
    elif action == 7 and known:
        changes.append(Close(known[number % len(known)]))
    else:
        changes.append(Advance(plan.now + 7, plan.now + 807))
    record = plan.prepare(changes, plan.version, at_ms=1000 * number).record
    if record is not None:
        plan.apply(record)
