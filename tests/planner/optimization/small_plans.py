"""Plans in which somebody has to move for somebody else."""

from __future__ import annotations

from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_plan, a_request, ask


def two_in_the_way() -> tuple[Plan, Cluster]:
    """`a` stands in the middle of where only `b` can be; `b` is refused."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").build()
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 4, 12)").on(cluster))
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 4, 8), 6, 12)").on(cluster))
    return plan, cluster
