"""What a partial apply recovers on a Plan that took requests meanwhile."""

from __future__ import annotations

import random

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.optimization.feasible_part import FeasiblePart, feasible_part
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.optimization.undo import replay
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change
from planner.value import value_of
from tests.builders import a_cluster, a_request, ask


def crowd(seed: int) -> tuple[Plan, tuple[Change, ...]]:
    """Return a crowded Plan, what an optimisation found for it, and then six posts more on it."""
    draw = random.Random(seed)
    cluster = a_cluster().horizon(60).machines("m", 8, cpu=1).build()
    plan = Plan(cluster, cluster.grid())

    def post(name: str, most: int) -> None:
        height, steps = draw.randint(1, most), draw.randint(3, 12)
        start = draw.randint(0, 60 - 2 * steps)
        text = f"window(atom(<1 cpu>, {height}, {height}, {steps}, {height * steps}), {start}, "
        end = start + 2 * steps
        ask(plan, a_request(name, f"{text}{end})").on(cluster), agent_named("gree-l"))

    for number in range(40):
        post(f"r{number}", 6)
    effort = OptimizeOptions(Limits(work=300, seed=seed), solver="")
    changes = optimize(plan, None, OptimizeScope(admit_refused=True), effort).changes
    for number in range(6):
        post(f"n{number}", 3)
    return plan, changes


def worth(plan: Plan, found: FeasiblePart) -> float:
    """Return the value that comes in."""
    reference = plan.cluster.reference
    admitted = [one for one in found.kept if isinstance(one, Admit)]
    return sum(value_of(one.request, one.result.choices, reference) for one in admitted)


@pytest.mark.parametrize(("seed", "admitted"), [(23, 3)])
def test_other_places_hold_more_than_dropping_alone(seed: int, admitted: int) -> None:
    """Nothing that fits as it was found is given up, and a search finds free capacity for more."""
    plan, changes = crowd(seed)
    assert sum(isinstance(one, Admit) for one in changes) == admitted
    dropped = feasible_part(plan, changes)
    elsewhere = replay(plan.copy(), changes, 0)
    assert worth(plan, elsewhere) > worth(plan, dropped)
    prepared = plan.prepare(elsewhere.kept, plan.version, joint=True)
    assert prepared.record is not None, prepared.conflicts
