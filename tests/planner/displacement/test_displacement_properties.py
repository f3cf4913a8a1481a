"""Laws of displacement on small Plans of all kinds of requests, and the fewest by brute force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from planner.reservations.state import LIVE, State
from planner.view import PlanView
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
    togethers = st.builds(
        lambda few, many, lease: (
            f"together({_atom(few, 0, lease, lease)}, {_atom(many, 0, lease, lease)})"
        ),
        st.integers(1, 2),
        st.integers(1, 2),
        st.integers(1, 4),
    )
    bodies = st.one_of(
        togethers,
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


@cache
def _levels() -> st.SearchStrategy[PromiseLevel]:
    return st.sampled_from([PromiseLevel.PLACED, PromiseLevel.POOLED])


def _plan_at(cluster: Cluster, asked: list[tuple[str, int, int]], now: int) -> Plan:
    plan = Plan(cluster, cluster.grid())
    for index, (one, rank, weight) in enumerate(asked):
        request = a_request(f"r{index}", one).priority(rank).weight(weight).if_possible(cluster)
        if request is not None:
            ask(plan, request)
    commit(plan, Advance(now))
    return plan


@settings(max_examples=40)
@given(_asked(), _sources(), st.integers(0, 4), st.integers(0, 6), st.booleans(), _levels())
def test_laws_of_displacement(
    asked: list[tuple[str, int, int]],
    source: str,
    priority: int,
    now: int,
    running: bool,
    level: PromiseLevel,
) -> None:
    """Only lower priorities are displaced, all is valid, the past stays, no change is idle."""
    cluster = _cluster(level, running=running)
    plan = _plan_at(cluster, asked, now)
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


@settings(max_examples=40)
@given(_asked(), _sources(), st.integers(0, 4), st.integers(0, 6), st.booleans(), _levels())
def test_laws_of_displacement_by_a_change(
    asked: list[tuple[str, int, int]],
    source: str,
    priority: int,
    now: int,
    running: bool,
    level: PromiseLevel,
) -> None:
    """A change is made whole or not at all, its past stays, and only lower priorities give way."""
    cluster = _cluster(level, running=running)
    plan = _plan_at(cluster, asked, now)
    standing = next((one for one in plan.reservations() if one.state in LIVE), None)
    changed = a_request("urgent" if standing is None else standing.id, source).priority(priority)
    wanted = changed.if_possible(cluster)
    if standing is None or wanted is None:
        return
    before, past = _whole(plan), past_rows(plan)
    ranks = {one.id: one.priority for one in plan.reservations()}
    found = displace_now(plan, wanted)
    assert violations(plan) == []
    after = _whole(plan)
    assert {id_: rows for id_, rows in past_rows(plan).items() if id_ in past} == past
    if found is None:
        assert after == before
        return
    touched = {id_ for id_ in before if before[id_] != after[id_]}
    assert touched == {wanted.id, *(one.id for one in found.affected)}
    assert all(ranks[one.id] < priority for one in found.affected)
    assert wanted.id not in {one.id for one in found.affected}
    now_held = plan.reservation(wanted.id)
    assert now_held is not None
    assert (now_held.revision, now_held.priority) == (standing.revision + 1, priority)


def _fit_without(plan: Plan, ids: Iterable[str], asked: Sequence[Request]) -> bool:
    """Return whether requests find places, one after the other, on a Plan without some others."""
    agent = agent_named("gree")
    view: PlanView = plan.view_without([*ids, *(one.id for one in asked)])
    for request in asked:
        result = agent.plan([request], view, Limits())[0]
        if not result.placed:
            return False
        view = view.after([(request, result)], plan.version)
    return True


def _fewest(plan: Plan, *asked: Request) -> int | None:
    """Return how few reservations must go, by trying all sets, each on a Plan without them."""
    own, priority = {one.id for one in asked}, min(one.priority for one in asked)
    lower = [one for one in plan.reservations() if one.priority < priority and one.id not in own]
    for level in sorted({one.priority for one in lower}):
        ids = [one.id for one in lower if one.priority <= level]
        if not _fit_without(plan, ids, asked):
            continue
        for size in range(1, len(ids) + 1):
            for few in combinations(ids, size):
                if _fit_without(plan, few, asked):
                    return size
    return None


@cache
def _gangs() -> st.SearchStrategy[list[tuple[int, int, int, int, int]]]:
    """Return height, length, start, window and priority of gangs that stand."""
    one = st.tuples(
        st.integers(1, 3), st.integers(1, 4), st.integers(1, 12), st.integers(4, 8),
        st.integers(0, 2),
    )  # fmt: skip
    return st.lists(one, min_size=1, max_size=7)


@cache
def _urgent_gang() -> st.SearchStrategy[tuple[int, int, int, int]]:
    return st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(6, 12))


def _plan_of(gangs: list[tuple[int, int, int, int, int]]) -> Plan:
    cluster = displacing_cluster(MACHINES)
    plan = Plan(cluster, cluster.grid())
    for index, (height, length, start, window, rank) in enumerate(gangs):
        source = gang(height, length, start, min(HORIZON, start + window))
        request = a_request(f"r{index}", source).priority(rank).if_possible(cluster)
        if request is not None:
            ask(plan, request)
    return plan


def _urgent(plan: Plan, id_: str, wanted: tuple[int, int, int, int]) -> Request | None:
    height, length, start, window = wanted
    source = gang(height, length, start, start + window)
    return a_request(id_, source).priority(2).if_possible(plan.cluster)


@given(_gangs(), _urgent_gang(), st.booleans())
def test_as_few_go_as_brute_force_says(
    gangs: list[tuple[int, int, int, int, int]], wanted: tuple[int, int, int, int], change: bool
) -> None:
    """Of the least priority that suffices no smaller set frees capacity, also for a change."""
    plan = _plan_of(gangs)
    there = change and plan.reservation("r0") is not None
    urgent = _urgent(plan, "r0" if there else "urgent", wanted)
    if urgent is None or _fit_without(plan, [], [urgent]):
        return
    found = found_for(plan, urgent)
    assert (None if found is None else len(found.affected)) == _fewest(plan, urgent)


@given(_gangs(), _urgent_gang(), _urgent_gang())
def test_as_few_go_for_a_batch_as_brute_force_says(
    gangs: list[tuple[int, int, int, int, int]],
    first: tuple[int, int, int, int],
    second: tuple[int, int, int, int],
) -> None:
    """Two requests, all or nothing, displace the smallest set without which both fit."""
    plan = _plan_of(gangs)
    # Of one priority the one of more value is placed first, here as there.
    by_value = sorted((first, second), key=lambda one: -one[0] * one[1])
    asked = [_urgent(plan, id_, one) for id_, one in zip(("one", "two"), by_value, strict=True)]
    both = [one for one in asked if one is not None]
    if len(both) < 2 or _fit_without(plan, [], both):
        return
    found = found_for(plan, *both)
    assert (None if found is None else len(found.affected)) == _fewest(plan, *both)
