"""Laws of displacement on small Plans of all kinds of requests, and the fewest by brute force."""

from __future__ import annotations

from functools import cache
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.state import State
from tests.builders import a_cluster, a_request, ask, commit
from tests.planner.adaptation.events import past_rows, violations
from tests.planner.displacement.small_plans import (
    HORIZON,
    displace_now,
    displacing_cluster,
    found_for,
    gang,
)

MACHINES = 4


def _source(body: str, start: int, length: int) -> str:
    return f"window({body}, {start}, {min(HORIZON, start + length)})"


def _atom(height: int, more: int, lease: int, length: int) -> str:
    work = (height + more) * max(lease, length)
    return f"atom(<1 cpu>, {height}, {height + more}, {lease}, {work})"


@cache
def _sources() -> st.SearchStrategy[str]:
    atoms = st.builds(
        _atom, st.integers(1, 3), st.integers(0, 1), st.integers(1, 4), st.integers(1, 4)
    )
    pairs = st.tuples(atoms, atoms)
    bodies = st.one_of(
        atoms,
        pairs.map(lambda two: f"order({two[0]}, {two[1]})"),
        pairs.map(lambda two: f"all({two[0]}, {two[1]})"),
        pairs.map(lambda two: f"any({two[0]}, {two[1]})"),
        atoms.map(lambda one: f"every(8, {one}, times=2)"),
    )
    return st.builds(_source, bodies, st.integers(0, 12), st.integers(4, HORIZON))


@cache
def _asked() -> st.SearchStrategy[list[tuple[str, int, int]]]:
    one = st.tuples(_sources(), st.integers(0, 3), st.integers(1, 3))
    return st.lists(one, min_size=2, max_size=9)


def _cluster(level: PromiseLevel, *, running: bool) -> Cluster:
    builder = a_cluster().horizon(HORIZON).machines("m", MACHINES, cpu=1)
    builder = type(builder)({**builder.document, "promises": {"level": level.value}})
    return builder.policy("displacement", running=running).build()


def _whole(plan: Plan) -> dict[str, object]:
    return {
        one.id: (one.revision, one.state, [atom.rows.tolist() for atom in one.atoms])
        for one in plan.reservations()
    }


@settings(max_examples=40)
@given(
    _asked(),
    _sources(),
    st.integers(0, 4),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from([PromiseLevel.PLACED, PromiseLevel.POOLED, PromiseLevel.PACKABLE]),
)
def test_laws_of_displacement(
    asked: list[tuple[str, int, int]],
    source: str,
    priority: int,
    now: int,
    running: bool,
    level: PromiseLevel,
) -> None:
    """Only lower priorities make way, all is valid, the past stays, and nothing is done in vain."""
    cluster = _cluster(level, running=running)
    plan = Plan(cluster, cluster.grid())
    for index, (one, rank, weight) in enumerate(asked):
        request = a_request(f"r{index}", one).priority(rank).weight(weight).if_possible(cluster)
        if request is not None:
            ask(plan, request)
    commit(plan, Advance(now))
    urgent = a_request("urgent", source).priority(priority).if_possible(cluster)
    if urgent is None:
        return
    before, past = _whole(plan), past_rows(plan)
    priorities = {one.id: (one.priority, one.state) for one in plan.reservations()}
    fits = agent_named("gree").plan([urgent], plan.view(), Limits())[0].placed
    found = displace_now(plan, urgent)
    assert violations(plan) == []
    after = _whole(plan)
    if found is None:
        assert after == before
        return
    assert plan.reservation("urgent") is not None
    touched = {id_ for id_ in before if before[id_] != after[id_]}
    assert touched == {one.id for one in found.affected}
    assert not touched or not fits or level is not PromiseLevel.POOLED
    for id_ in touched:
        rank, state = priorities[id_]
        assert rank < priority
        assert state is State.ACCEPTED or (running and state is State.ACTIVE)
    assert {id_: rows for id_, rows in past_rows(plan).items() if id_ in past} == past


def _fewest(plan: Plan, urgent: Request) -> int | None:
    """Return how few reservations must go, by trying all sets, each on a Plan without them."""
    agent = agent_named("gree")
    lower = [one for one in plan.reservations() if one.priority < urgent.priority]
    for level in sorted({one.priority for one in lower}):
        ids = [one.id for one in lower if one.priority <= level]
        if not agent.plan([urgent], plan.view_without(ids), Limits())[0].placed:
            continue
        for size in range(1, len(ids) + 1):
            for few in combinations(ids, size):
                if agent.plan([urgent], plan.view_without(few), Limits())[0].placed:
                    return size
    return None


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), st.integers(1, 4), st.integers(1, 12), st.integers(4, 8),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=7,
    ),
    st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(6, 12)),
)  # fmt: skip
def test_as_few_go_as_brute_force_says(
    asked: list[tuple[int, int, int, int, int]], wanted: tuple[int, int, int, int]
) -> None:
    """Of the least priority that suffices no smaller set makes room; without one none goes."""
    cluster = displacing_cluster(MACHINES)
    plan = Plan(cluster, cluster.grid())
    for index, (height, length, start, window, rank) in enumerate(asked):
        source = gang(height, length, start, min(HORIZON, start + window))
        request = a_request(f"r{index}", source).priority(rank).if_possible(cluster)
        if request is not None:
            ask(plan, request)
    height, length, start, window = wanted
    source = gang(height, length, start, start + window)
    urgent = a_request("urgent", source).priority(2).if_possible(cluster)
    if urgent is None or agent_named("gree").plan([urgent], plan.view(), Limits())[0].placed:
        return
    found = found_for(plan, urgent)
    assert (None if found is None else len(found.affected)) == _fewest(plan, urgent)
