"""Displacement where each bundle stands on a machine: what is found can be committed."""

from __future__ import annotations

import json
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel
from planner.promise import PromiseLevel
from planner.request import Request
from tests.builders import a_cluster, a_request, ask, commit
from tests.planner.adaptation.events import violations
from tests.planner.displacement.small_plans import HORIZON, displace_now

#: Bundles, cores of each, length, start, and how much longer the window is.
Gang = tuple[int, int, int, int, int]


@cache
def _gangs() -> st.SearchStrategy[list[tuple[Gang, int]]]:
    return st.lists(st.tuples(_gang(), st.integers(0, 2)), min_size=3, max_size=12)


@cache
def _gang() -> st.SearchStrategy[Gang]:
    return st.tuples(
        st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 10),
        st.integers(0, 8),
    )  # fmt: skip


def _cluster() -> Cluster:
    builder = a_cluster().horizon(HORIZON).machines("m", 3, cpu=4).policy("displacement")
    level = {"level": PromiseLevel.PLACED.value}
    return type(builder)({**builder.document, "promises": level}).build()


def _request(cluster: Cluster, id_: str, gang: Gang, priority: int) -> Request | None:
    count, cores, length, start, more = gang
    atom = f"atom(<{cores} cpu>, {count}, {count}, {length}, {count * length})"
    source = f"window({atom}, {start}, {min(HORIZON, start + length + more)})"
    return a_request(id_, source).priority(priority).if_possible(cluster)


def _places(plan: Plan) -> dict[str, str]:
    """Return what each reservation holds on which machines, as text."""
    told = {one.id: one.to_json(plan.grid) for one in plan.reservations()}
    return {id_: json.dumps(one["atoms"]) for id_, one in told.items()}


@example([((1, 1, 1, 1, 0), 0)] * 8 + [((2, 1, 1, 1, 0), 2)], (3, 3, 1, 1, 0))
@given(_gangs(), _gang())
def test_where_machines_would_be_free_without_others_capacity_is_made(
    gangs: list[tuple[Gang, int]], wanted: Gang
) -> None:
    """A gang that fits once all below it are gone displaces some of them, and all stays valid.

    An admission may also give others that have not begun other machines; a displacement does not.
    """
    cluster = _cluster()
    plan = Plan(cluster, cluster.grid())
    for index, (gang, priority) in enumerate(gangs):
        request = _request(cluster, f"r{index}", gang, priority)
        if request is not None:
            ask(plan, request)
    urgent = _request(cluster, "urgent", wanted, 2)
    if urgent is None:
        return
    empty = plan.copy()
    for one in plan.reservations():
        if one.priority < 2:
            commit(empty, Cancel(one.id))
    stood = _places(empty)
    ask(empty, urgent)
    others_stay = _places(empty).items() >= stood.items()
    found = displace_now(plan, urgent)
    assert violations(plan) == []
    if empty.reservation("urgent") is None:
        assert found is None
    elif others_stay:
        assert found is not None
