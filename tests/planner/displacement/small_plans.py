"""Small Plans and requests that displace, for tests of displacement."""

from __future__ import annotations

from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.displacement import Displacement, DisplacementAsk, displace
from planner.plan.plan import Plan
from planner.request import Request
from tests.builders import a_cluster

HORIZON = 24


def displacing_cluster(machines: int = 4, *, running: bool = False, **scope: str) -> Cluster:
    """Machines of one core, steps of a second, and a policy that lets requests displace."""
    builder = a_cluster().horizon(HORIZON).machines("m", machines, cpu=1)
    return builder.policy("displacement", running=running, **scope).build()


def gang(height: int, length: int, start: int, end: int) -> str:
    """Return a gang of `height` cores for `length` steps somewhere in a window."""
    return f"window(atom(<1 cpu>, {height}, {height}, {length}, {height * length}), {start}, {end})"


def found_for(plan: Plan, *requests: Request) -> Displacement | None:
    """Return what requests displace together, without committing it; known ids are changes."""
    agent = agent_named("gree")
    asks = [
        DisplacementAsk(one, agent, renegotiates=plan.reservation(one.id) is not None)
        for one in requests
    ]
    return displace(plan.copy(), asks)


def displace_now(plan: Plan, *requests: Request) -> Displacement | None:
    """Commit what requests displace together; None if nothing is."""
    found = found_for(plan, *requests)
    if found is not None:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)
    return found


def fates(found: Displacement | None) -> dict[str, str]:
    """Return what happens to each reservation that gives way."""
    assert found is not None
    return {one.id: one.fate.value for one in found.affected}
