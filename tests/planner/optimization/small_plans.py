"""Plans in which someone has to move for another user."""

from __future__ import annotations

from dataclasses import replace

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse
from planner.promise import PromiseLevel
from planner.reservations.slots import slots_of
from tests.builders import a_cluster, a_plan, a_request, ask, commit


def two_in_the_way() -> tuple[Plan, Cluster]:
    """`a` stands in the middle of where only `b` can be; `b` is refused."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").build()
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 4, 12)").on(cluster))
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 4, 8), 6, 12)").on(cluster))
    return plan, cluster


def scattered(first: int = 0) -> Plan:
    """Two machines of 4 cores, one minute; two of 2 cores stand apart, one of 4 was refused.

    Parameters
    ----------
    first
        Step of ten seconds with which the minute begins.
    """
    end = first + 6
    built = a_cluster().step("10s").horizon(f"{end * 10}s").machines("m", 2, cpu=4).build()
    cluster = replace(built, promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("gree")
    for name, machine in (("a", 0), ("b", 1)):
        text = f"window(atom(<2 cpu>, 1, 1, 1m, 1m), {first * 10}, {end * 10})"
        request = a_request(name, text).on(cluster)
        result = agent.plan([request], plan.view(), Limits())[0]
        slots = (slots_of([[first, end, 1, machine]]),)
        commit(plan, Admit(request, result, "gree", slots=slots))
    text = f"window(atom(<4 cpu>, 1, 1, 1m, 1m), {first * 10}, {end * 10})"
    request = a_request("c", text).weight(2.0).on(cluster)
    result = agent.plan([request], plan.view(), Limits())[0]
    # By itself it would be let in, and one of the two would give way.
    (conflict,) = plan.prepare([Admit(request, result, "gree")], plan.version, joint=True).conflicts
    commit(plan, Refuse(request, conflict.code, conflict.detail, conflict.binding))
    return plan
