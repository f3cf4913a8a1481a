"""Batches on machines: nothing is lost to names of machines that could be had, and reasons hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.placement import MACHINES, Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.promise import PromiseLevel
from planner.validation.validate import validate
from planner.workload.commit import commit_workload, lacks_machines
from planner.workload.plan import Planned, plan_from_nothing
from tests.builders import RequestBuilder, a_cluster, a_request, a_workload
from tests.examples import some_of
from tests.planner.plan.plan_json import plan_json

MINUTES = 120


def _cluster(count: int, cores: int) -> Cluster:
    built = a_cluster().step("1m").horizon(f"{MINUTES}m").machines("m", count, cpu=cores).build()
    return replace(built, promise=PromiseLevel.PLACED)


def _requests(seed: int, shapes: tuple[int, ...], count: int = 40) -> list[RequestBuilder]:
    """Gangs, malleable atoms and orders of both, with some slack."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        atoms = []
        for _ in range(draw.choice((1, 1, 2))):
            lease, height = draw.randint(3, 20), draw.randint(1, 5)
            least = draw.choice((1, height))
            work = height * lease * draw.choice((1, 1, 2))
            cores = draw.choice(shapes)
            atoms.append(f"atom(<{cores} cpu>, {least}, {height}, {lease}m, {work}m)")
        inner = atoms[0] if len(atoms) == 1 else f"order({', '.join(atoms)})"
        start = draw.randint(0, MINUTES // 2)
        end = min(MINUTES, start + draw.randint(30, 90))
        found.append(a_request(f"r{number}", f"window({inner}, {start}m, {end}m)"))
    return found


def _planned(cluster: Cluster, agent: str, requests: list[RequestBuilder]) -> Planned:
    planned = plan_from_nothing(cluster, a_workload(cluster, *requests), agent_named(agent))
    assert not validate(planned.document.to_json())
    return planned


@pytest.mark.parametrize("agent", ["gree", "gree-l", "headroom", "earliest"])
@pytest.mark.parametrize("seed", some_of(range(3), 1))
@pytest.mark.parametrize(("count", "cores"), [(12, 1), (4, 3)])
def test_bundles_of_one_shape_lose_nothing(agent: str, seed: int, count: int, cores: int) -> None:
    """Whatever totals hold is laid on machines, at the very times."""
    requests = _requests(seed, (1,))
    cluster = _cluster(count, cores)
    totals = _planned(replace(cluster, promise=PromiseLevel.POOLED), agent, requests)
    named = _planned(cluster, agent, requests)
    for pooled, placed in zip(totals.results, named.results, strict=True):
        assert pooled.code == placed.code
        assert (pooled.rows == placed.rows).all()
    assert any(one.placed for one in named.results)
    assert not all(one.placed for one in named.results)


def test_a_stop_leaves_the_refused_as_they_were() -> None:
    """Nobody is asked again once time is over; what was laid stands, and the plan is valid."""
    cluster = _cluster(5, 4)
    workload = a_workload(cluster, *_requests(1, (1, 2, 3)))
    agent = agent_named("headroom")
    plans = [Plan(cluster, cluster.grid()) for _ in range(2)]
    pooled = agent.plan(workload.requests, plans[0].view(), Limits())
    counts = []
    for plan, is_over in zip(plans, (lambda: True, lambda: False), strict=True):
        results = commit_workload(plan, workload, pooled, agent, is_over=is_over)
        assert not validate(plan_json(plan))
        counts.append(sum(one.placed for one in results))
    assert 0 < counts[0] < counts[1]


@pytest.mark.parametrize("agent", ["gree", "gree-l", "headroom", "portfolio"])
@pytest.mark.parametrize("seed", some_of(range(3), 1))
def test_no_one_who_is_refused_has_capacity_alongside_the_plan(agent: str, seed: int) -> None:
    """Asked again on the finished plan, each is refused, for lack of what is written."""
    cluster = _cluster(5, 4)
    requests = _requests(seed, (1, 2, 3))
    workload = a_workload(cluster, *requests)
    planned = plan_from_nothing(cluster, workload, agent_named(agent))
    assert not validate(planned.document.to_json())
    plan, planner, refused = planned.plan, agent_named(agent), 0
    for request, result in zip(workload.requests, planned.results, strict=True):
        if result.placed:
            continue
        refused += 1
        answer = planner.plan([request], plan.view(), Limits())[0]
        if answer.placed:
            admit = Admit(request, answer, agent, anew=True, planner=planner)
            (conflict,) = plan.prepare([admit], plan.version).conflicts
            assert conflict.code is result.code is Code.CAPACITY
            assert lacks_machines(result)
            assert conflict.binding is not None
            assert conflict.binding.kind == MACHINES
        else:
            assert (answer.code, answer.detail) == (result.code, result.detail)
        stored = plan.refusal(request.id)
        assert stored is not None
        assert stored.binding == result.binding
        assert stored.code is result.code
    assert refused
