"""A request that its agent's limits keep from where it was placed is placed at another time."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from tests.builders import a_cluster, a_request, commit

HORIZON, CORES = 24, 8


def _cluster(limit: int) -> Cluster:
    builder = a_cluster().horizon(HORIZON).machines("m", CORES, cpu=1)
    return builder.policy("agent", agent="earliest", limit={"cpu": limit}).build()


def _place(plan: Plan, id_: str, source: str, agent: str = "earliest") -> Code | None:
    """Ask for a request by an agent that is asked again at the commit; return why it is not."""
    request, planner = a_request(id_, source).on(plan.cluster), agent_named(agent)
    result = planner.plan([request], plan.view(), Limits())[0]
    if result.code is not None:
        return result.code
    prepared = commit(plan, Admit(request, result, agent, planner=planner))
    return prepared.conflicts[0].code if prepared.conflicts else None


def _gang(height: int, length: int, start: int, end: int) -> str:
    return f"window(atom(<1 cpu>, {height}, {height}, {length}, {height * length}), {start}, {end})"


def _rows(plan: Plan, id_: str) -> list[list[int]]:
    found = plan.reservation(id_)
    assert found is not None
    return [row for atom in found.atoms for row in atom.rows.tolist()]


def test_it_comes_when_what_the_agent_holds_has_ended() -> None:
    """Three of four are held until step 4; two more of the same agent begin then, not before."""
    plan = Plan(_cluster(4), _cluster(4).grid())
    assert _place(plan, "a", _gang(3, 4, 0, 4)) is None
    assert _place(plan, "b", _gang(2, 4, 0, 12)) is None
    assert _rows(plan, "b") == [[4, 8, 2]]
    assert _place(plan, "other", _gang(5, 4, 0, 12), agent="gree-l") is None


def test_where_no_other_time_is_the_limit_is_what_refuses_it() -> None:
    """The code says so, and the next request of the batch is judged as if it had not been."""
    plan = Plan(_cluster(4), _cluster(4).grid())
    assert _place(plan, "a", _gang(3, 4, 0, 4)) is None
    assert _place(plan, "b", _gang(2, 4, 0, 6)) is Code.AGENT_LIMIT
    assert _place(plan, "c", _gang(1, 4, 0, 4)) is None


def test_several_of_one_batch_find_their_times() -> None:
    """Of six placed on one view at once each finds a time of its own under the limit."""
    plan = Plan(_cluster(2), _cluster(2).grid())
    planner = agent_named("earliest")
    changes = []
    for index in range(6):
        request = a_request(f"r{index}", _gang(2, 4, 0, 24)).on(plan.cluster)
        result = planner.plan([request], plan.view(), Limits())[0]
        changes.append(Admit(request, result, "earliest", planner=planner))
    assert commit(plan, *changes).conflicts == ()
    starts = sorted(_rows(plan, f"r{index}")[0][0] for index in range(6))
    assert starts == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize("max_count", [1])
def test_a_limit_on_their_number_is_none_of_time(max_count: int) -> None:
    """No other time helps where an agent has as many reservations as it may."""
    builder = a_cluster().horizon(HORIZON).machines("m", CORES, cpu=1)
    cluster = builder.policy("agent", agent="earliest", max_count=max_count).build()
    plan = Plan(cluster, cluster.grid())
    assert _place(plan, "a", _gang(1, 4, 0, 4)) is None
    assert _place(plan, "b", _gang(1, 4, 0, 24)) is Code.AGENT_LIMIT


@cache
def _gangs() -> st.SearchStrategy[list[tuple[int, int, int, int]]]:
    """Return height, length, start and how much longer the window is."""
    one = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10), st.integers(0, 8))
    return st.lists(one, min_size=1, max_size=8)


@given(_gangs(), st.integers(1, 6))
def test_a_gang_comes_in_if_any_time_has_capacity(
    gangs: list[tuple[int, int, int, int]], limit: int
) -> None:
    """Brute force over all starts: machines and the agent's limit leave room, or it is refused."""
    cluster = _cluster(limit)
    plan = Plan(cluster, cluster.grid())
    held = [0] * HORIZON
    for index, (height, length, start, more) in enumerate(gangs):
        end = min(HORIZON, start + length + more)
        starts = range(start, end - length + 1)
        room = [s for s in starts if max(held[s : s + length]) + height <= min(limit, CORES)]
        refused = _place(plan, f"r{index}", _gang(height, length, start, end))
        assert (refused is None) == bool(room), (index, room)
        if refused is None:
            for begin, until, count in _rows(plan, f"r{index}"):
                for step in range(begin, until):
                    held[step] += count
    assert max(held) <= limit
