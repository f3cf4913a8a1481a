"""Plans searched on machines: valid, never worth less than as laid, best where all are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.optimization.movable_plan import Costed
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
from planner.workload.placed_improvement import PlacedSearch
from planner.workload.plan import plan_from_nothing
from rdl.work_graph import LEASE, START
from tests.builders import RequestBuilder, a_cluster, a_request, a_workload, commit

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


@dataclass
class Searched:
    """A search, the best plan so far, and what the portfolio answered."""

    plan: Plan
    search: PlacedSearch
    best: Costed
    pooled: dict[str, PlacementResult]

    @property
    def value(self) -> float:
        return self.search.value(self.best)

    def go_on(self, trials: int) -> None:
        """Search for some trials more, after other orders of all."""
        self.best = self.search.in_other_orders(self.best, self.pooled, lambda: False)
        left = iter(range(trials))
        self.best = self.search.run(self.best, lambda: next(left, None) is None, lambda _: None)


def laid(workload: CompiledWorkload, cluster: Cluster) -> Searched:
    """Return a search from what the portfolio places, assigned to machines."""
    plan = Plan(cluster, workload.grid)
    agent = agent_named("portfolio-free")
    pooled = list(agent.plan(workload.requests, plan.view(), Limits()))
    twin = plan.copy()
    results = commit_workload(twin, workload, pooled, agent)
    held = []
    for request, result in zip(workload.requests, results, strict=True):
        number = twin.table.number_of(request.id)
        if result.placed and number is not None:
            held.append((request, result, twin.table.holding(number)))
    search = PlacedSearch(plan, workload.requests)
    answers = zip(workload.requests, pooled, strict=True)
    placed = {request.id: one for request, one in answers if one.placed}
    return Searched(plan, search, search.start(held), placed)


def committed(searched: Searched) -> bool:
    """Return whether a fresh Plan takes what a draft holds, at its times and on its machines."""
    changes = []
    moved = searched.best.draft.moved.values()
    for one, result, holding in moved:
        assert one.request is not None
        slots = tuple(atom.slots for atom in holding.atoms)
        changes.append(Admit(one.request, result, "search", slots=slots))
    plan = searched.plan.copy()
    prepared = plan.prepare(changes, plan.version, atomic=True)
    if prepared.record is None:
        return False
    plan.apply(prepared.record)
    held = {one.id: holding for one, _, holding in moved}
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
    searched = laid(a_workload(cluster, *drawn(seed, 14)), cluster)
    value = searched.value
    for _ in range(3):
        searched.go_on(10)
        assert searched.value >= value - 1e-9
        held = [one.value for one, _, _ in searched.best.draft.moved.values()]
        assert searched.value == pytest.approx(sum(held))
        assert committed(searched)
        value = searched.value


def test_an_interrupted_order_leaves_all_as_it_was() -> None:
    """Stopped in the middle of another order: the same plan."""
    cluster = two_machines()
    searched = laid(a_workload(cluster, *drawn(1, 14)), cluster)
    best, calls = searched.best, iter([False] * 5)
    found = searched.search.in_other_orders(best, searched.pooled, lambda: next(calls, True))
    assert found is best
    assert committed(searched)


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
        searched = laid(workload, cluster)
        searched.go_on(60)
        best = best_of_all(cluster, workload.requests)
        assert searched.value <= best * (1 + 1e-9)
        reached += searched.value >= best * (1 - 1e-9)
    assert reached >= 18


def test_no_one_of_an_earlier_turn_gives_way() -> None:
    """A later request of more value does not drive out one that the portfolio took before it."""
    cluster = two_machines()
    first = [a_request(f"a{n}", "window(atom(<3 cpu>, 1, 1, 80s, 80s), 0, 80s)") for n in range(2)]
    last = a_request("b", "window(atom(<4 cpu>, 1, 1, 80s, 80s), 0, 80s)").weight(9.0)
    both = a_workload(cluster, *first, last)
    plan, twin = Plan(cluster, both.grid), Plan(cluster, both.grid)
    held = []
    for request in both.requests[:2]:
        result = agent_named("gree").plan([request], twin.view(), Limits())[0]
        commit(twin, Admit(request, result, "gree"))
        number = twin.table.number_of(request.id)
        assert number is not None
        held.append((request, result, twin.table.holding(number)))
    for turns, kept in (((0, 0, 1), {"a0", "a1"}), ((), {"b"})):
        search = PlacedSearch(plan, both.requests, turns)
        left = iter(range(30))
        best = search.run(
            search.start(held), lambda it=left: next(it, None) is None, lambda _: None
        )  # type: ignore[misc]
        placed = {one.id for one, _, _ in best.draft.moved.values()}
        assert kept <= placed
        assert ("b" in placed) is (kept == {"b"})


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

    def overfull(self: PlacedSearch, *args: Any) -> Costed:
        best = search(self, *args)
        one = next(one for one in self.commitments if one.number in best.draft.lifted)
        assert one.request is not None
        start, length = one.request.graph.vertices[0, [START, LEASE]].tolist()
        rows = np.array([[start, start + length, 99]], dtype=np.int64)
        result = PlacementResult(None, "", np.zeros(1, dtype=np.int64), np.array([0, 1]), rows)
        slots = np.append(rows, [[0]], axis=1)
        holding = with_slots(holding_of(one.request, result), [slots])
        best.draft.moved[one.number] = (one, result, holding)
        return best

    monkeypatch.setattr(PlacedSearch, "run", overfull)
    assert plan_from_nothing(cluster, workload, agent, limits).document.reservations == found
    monkeypatch.setattr(placed_improvement, "_PORTFOLIOS", {})
    assert plan_from_nothing(cluster, workload, agent, limits).document.reservations != found
