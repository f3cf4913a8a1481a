"""Plans searched on machines: valid, never worth less than as laid, best where all are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of, with_slots
from planner.validation.validate import validate
from planner.value import size_of
from planner.workload import placed_improvement
from planner.workload.commit import commit_workload
from planner.workload.compile import CompiledWorkload
from planner.workload.placed_search import HeldPlace, PlacedRequests, PlacedSearch
from planner.workload.plan import plan_from_nothing
from rdl.work_graph import LEASE, START
from tests.builders import RequestBuilder, a_cluster, a_request, a_workload

STEPS = 8

#: A draw of which a search places more than was laid, and not all.
GAINS = 3


def two_machines() -> Cluster:
    """Two machines of 4 cores, eight steps of 10 s; slots are promised."""
    built = a_cluster().step("10s").horizon(f"{10 * STEPS}s").machines("m", 2, cpu=4).build()
    return replace(built, promise=PromiseLevel.PLACED)


def drawn(seed: int, count: int) -> Iterator[RequestBuilder]:
    """Yield single bundles for some steps in a window, and chains of two."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        cores, length = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        start = int(rng.integers(0, STEPS - length + 1))
        end = min(STEPS, start + length + int(rng.integers(0, 3)))
        atom = f"atom(<{cores} cpu>, 1, 1, {10 * length}s, {10 * length}s)"
        text = f"window({atom}, {10 * start}s, {10 * end}s)"
        yield a_request(f"r{number}", text).weight(float(rng.integers(1, 4)))


def laid(
    workload: CompiledWorkload, cluster: Cluster
) -> tuple[PlacedRequests, list[PlacementResult]]:
    """Return what the portfolio places, laid on machines, and its answers."""
    plan = Plan(cluster, workload.grid)
    agent = agent_named("portfolio-free")
    pooled = list(agent.plan(workload.requests, plan.view(), Limits()))
    twin = plan.copy()
    results = commit_workload(twin, workload, pooled, agent)
    held = {}
    for index, (request, result) in enumerate(zip(workload.requests, results, strict=True)):
        number = twin.table.number_of(request.id)
        if result.placed and number is not None:
            held[index] = (result, twin.table.holding(number))
    return PlacedRequests(plan, twin, workload.requests, held), pooled


def searched(
    draft: PlacedRequests, trials: int, pooled: list[PlacementResult] | None = None
) -> PlacedSearch:
    """Search a draft for some trials."""
    search = PlacedSearch(draft)
    if pooled is not None:
        placed = {index: one for index, one in enumerate(pooled) if one.placed}
        search.lay_again(placed, lambda: False)
    search.run(lambda: search.trials >= trials, lambda _: None)
    return search


def committed(draft: PlacedRequests) -> bool:
    """Return whether a fresh Plan takes what a draft holds, at its times and on its machines."""
    changes = []
    for index, place in draft.held.items():
        slots = tuple(atom.slots for atom in place.holding.atoms)
        changes.append(Admit(draft.requests[index], place.result, "search", slots=slots))
    plan = draft.origin.copy()
    prepared = plan.prepare(changes, plan.version, atomic=True)
    if prepared.record is None:
        return False
    plan.apply(prepared.record)
    held = {draft.requests[index].id: place.holding for index, place in draft.held.items()}
    return all(
        all(
            (new.slots == old.slots).all()
            for new, old in zip(one.atoms, held[one.id].atoms, strict=True)
            if new.slots is not None
        )
        for one in plan.reservations()
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_search_never_loses_value_and_a_plan_takes_what_it_holds(seed: int) -> None:
    """After every few trials the value is no less than before, and every slot has capacity."""
    cluster = two_machines()
    draft, pooled = laid(a_workload(cluster, *drawn(seed, 14)), cluster)
    value = draft.value
    for _ in range(3):
        searched(draft, 10, pooled)
        assert draft.value >= value - 1e-9
        assert draft.value == pytest.approx(sum(one.value for one in draft.held.values()))
        assert committed(draft)
        value = draft.value


def test_an_interrupted_laying_leaves_all_as_it_was() -> None:
    """Stopped in the middle of another order: the same places, the same value."""
    cluster = two_machines()
    draft, pooled = laid(a_workload(cluster, *drawn(1, 14)), cluster)
    held, calls = dict(draft.held), iter([False] * 5)
    placed = {index: one for index, one in enumerate(pooled) if one.placed}
    PlacedSearch(draft).lay_again(placed, lambda: next(calls, True))
    assert draft.held == held
    assert committed(draft)


def best_of_all(cluster: Cluster, requests: tuple[Request, ...]) -> float:
    """Return the most value that single bundles can have on two machines: every order is tried.

    A plan is made of each order by giving every request each machine and start; what is best is
    found by depth first.
    """
    rows = [one.graph for one in requests]
    worth = [one.weight * size_of(one.graph, cluster.reference) for one in requests]

    def best(index: int, free: np.ndarray) -> float:
        if index == len(requests):
            return 0.0
        most = best(index + 1, free)
        vertex = rows[index].vertices[0]
        cores = rows[index].bundles[0]["cpu"]
        low, high, length = _window_of(vertex)
        for machine in range(2):
            for start in range(low, high - length + 1):
                if (free[machine, start : start + length] >= cores).all():
                    left = free.copy()
                    left[machine, start : start + length] -= cores
                    most = max(most, worth[index] + best(index + 1, left))
        return most

    return best(0, np.full((2, STEPS), 4000))


def _window_of(vertex: np.ndarray) -> tuple[int, int, int]:
    from rdl.work_graph import END, START, WORK

    return int(vertex[START]), int(vertex[END]), int(vertex[WORK])


def test_tiny_plans_mostly_reach_the_best_there_is() -> None:
    """Of 20 sets of seven requests on two machines at least 18 are as good as can be."""
    reached = 0
    for seed in range(20):
        cluster = two_machines()
        workload = a_workload(cluster, *drawn(100 + seed, 7))
        draft, pooled = laid(workload, cluster)
        searched(draft, 60, pooled)
        best = best_of_all(cluster, workload.requests)
        assert draft.value <= best * (1 + 1e-9)
        reached += draft.value >= best * (1 - 1e-9)
    assert reached >= 18


def test_no_one_of_an_earlier_turn_gives_way() -> None:
    """A later request of more value does not drive out one that the portfolio took before it."""
    cluster = two_machines()
    first = [a_request(f"a{n}", "window(atom(<3 cpu>, 1, 1, 80s, 80s), 0, 80s)") for n in range(2)]
    last = a_request("b", "window(atom(<4 cpu>, 1, 1, 80s, 80s), 0, 80s)").weight(9.0)
    draft, pooled = laid(a_workload(cluster, *first), cluster)
    both = a_workload(cluster, *first, last)
    places = {i: (one.result, one.holding) for i, one in draft.held.items()}
    trial = Plan(cluster, both.grid)
    changes = [Admit(both.requests[i], pooled[i], "gree") for i in places]
    prepared = trial.prepare(changes, trial.version)
    assert prepared.record is not None
    trial.apply(prepared.record)
    places = {
        i: (pooled[i], trial.table.holding(int(trial.table.number_of(both.requests[i].id) or 0)))
        for i in places
    }
    for turns, kept in (((0, 0, 1), [0, 1]), ((), [2])):
        again = PlacedRequests(Plan(cluster, both.grid), trial.copy(), both.requests, places)
        search = PlacedSearch(again, turns)
        search.run(lambda search=search: search.trials >= 30, lambda _: None)  # type: ignore[misc]
        assert set(kept) <= set(again.held)
        assert (2 in again.held) is (kept == [2])


@pytest.mark.parametrize("agent", ["portfolio", "exact"])
def test_a_found_file_is_valid(agent: str) -> None:
    """The validator accepts it, and answers stand in the order of the lines."""
    cluster = two_machines()
    workload = a_workload(cluster, *drawn(7, 14))
    planned = plan_from_nothing(cluster, workload, agent_named(agent), Limits(work=60))
    asked = [one.id for one in workload.requests]
    assert validate(planned.document.to_json(), asked=asked) == []
    placed = [one.id for one, r in zip(workload.requests, planned.results, strict=True) if r.placed]
    assert [one["id"] for one in planned.document.reservations] == placed


def test_a_stopped_search_keeps_what_was_laid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at once, the plan is the one that was laid."""
    cluster = two_machines()
    workload = a_workload(cluster, *drawn(3, 14))
    stopped = plan_from_nothing(
        cluster, workload, agent_named("portfolio-free"), Limits(stop=lambda: True)
    )
    monkeypatch.setattr(placed_improvement, "_PORTFOLIOS", {})
    plain = plan_from_nothing(
        cluster, workload, agent_named("portfolio-free"), Limits(stop=lambda: True)
    )
    assert stopped.document.reservations == plain.document.reservations


def test_what_a_plan_does_not_take_of_a_search_costs_not_all_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One request that holds more than there is is refused; the others are better off still."""
    cluster = two_machines()
    workload = a_workload(cluster, *drawn(GAINS, 14))
    agent, limits = agent_named("portfolio-free"), Limits(work=60)
    found = plan_from_nothing(cluster, workload, agent, limits).document.reservations
    search = PlacedSearch.run

    def overfull(self: PlacedSearch, *args: Any) -> None:
        search(self, *args)
        draft = self.draft
        index = next(one for one in range(len(draft.requests)) if one not in draft.held)
        request = draft.requests[index]
        start, length = request.graph.vertices[0, [START, LEASE]].tolist()
        rows = np.array([[start, start + length, 99]], dtype=np.int64)
        result = PlacementResult(None, "", np.zeros(1, dtype=np.int64), np.array([0, 1]), rows)
        slots = np.append(rows, [[0]], axis=1)
        holding = with_slots(holding_of(request, result), [slots])
        draft.held[index] = HeldPlace(result, holding, (), 0.0)

    monkeypatch.setattr(PlacedSearch, "run", overfull)
    assert plan_from_nothing(cluster, workload, agent, limits).document.reservations == found
    monkeypatch.setattr(placed_improvement, "_PORTFOLIOS", {})
    assert plan_from_nothing(cluster, workload, agent, limits).document.reservations != found
