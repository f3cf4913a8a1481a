"""Newcomers come and go on a draft as if they had never been there; a search keeps what it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.optimization.candidates import newcomer
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, StartingMachines
from planner.replanning.local_search import (
    Candidate,
    Keep,
    LocalSearch,
    Spans,
    remove_a_few,
    remove_around_a_moment,
    remove_near_one_that_waits,
    remove_until_one_fits,
)
from tests.builders import a_cluster, a_request

#: Cores and weights of requests that take all of eight steps of a machine of 4 cores.
_REQUESTS = ((3, 1.0), (3, 1.0), (1, 1.0), (4, 9.0), (2, 1.0))


def _cluster() -> Cluster:
    built = a_cluster().step("10s").horizon("80s").machines("m", 2, cpu=4).build()
    return replace(built, promise=PromiseLevel.PLACED)


def _newcomers(plan: Plan) -> list[Commitment]:
    found = []
    for index, (cores, weight) in enumerate(_REQUESTS):
        text = f"window(atom(<{cores} cpu>, 1, 1, 80s, 80s), 0, 80s)"
        request = a_request(f"r{index}", text).weight(weight).on(plan.cluster)
        found.append(newcomer(plan, -1 - index, request))
    return found


def _draft(plan: Plan, commitments: list[Commitment]) -> DraftPlan:
    machines = StartingMachines(plan.room.copy(), frozenset(one.number for one in commitments))
    draft = DraftPlan.of(plan, machines)
    for one in commitments:
        draft.lift(one)
    return draft


def _free(draft: DraftPlan) -> list[list[int]]:
    free: list[list[int]] = draft.ledger.free.tolist()
    return free


def test_a_newcomer_returns_to_its_machine_unless_that_is_taken() -> None:
    plan = Plan(_cluster(), _cluster().grid())
    first, second, small, whole, _ = _newcomers(plan)
    draft = _draft(plan, [first, second, small, whole])
    empty = _free(draft)
    agent = agent_named("gree")
    assert draft.admit(first, agent)
    assert draft.admit(second, None)
    assert not draft.admit(whole, agent)
    before = draft.copy()
    slots = before.slots(first.number)
    draft.lift(first)
    assert draft.return_to(before, first)
    assert np.array_equal(draft.slots(first.number), slots)
    draft.lift(first)
    assert draft.admit(whole, agent)
    assert not draft.return_to(before, first)
    for one in (second, whole):
        draft.lift(one)
    assert _free(draft) == empty
    assert _free(before) != empty


class _Value:
    """Scores a draft by the value of what waits."""

    def evaluate(self, draft: DraftPlan, source: str) -> Candidate[float]:
        waits = sum(one.value for one in draft.lifted.values())
        return Candidate(draft, waits, (waits,), source)

    def update(
        self, current: Candidate[float], draft: DraftPlan, changed: list[Commitment]
    ) -> Candidate[float]:
        known = {*current.draft.lifted, *draft.lifted} - {one.number for one in changed}
        assert all((number in current.draft.lifted) == (number in draft.lifted) for number in known)
        return self.evaluate(draft, "search")


@pytest.mark.parametrize(
    ("keep", "operator", "kept"),
    [
        (Keep.ALL, remove_until_one_fits, {"r0", "r1", "r2"}),
        (Keep.ALL, remove_a_few, {"r0", "r1", "r2"}),
        (Keep.ALL, remove_around_a_moment, {"r0", "r1", "r2"}),
        (Keep.VALUE, remove_around_a_moment, {"r3"}),
        (Keep.NOTHING, remove_until_one_fits, {"r3"}),
        (Keep.ALL, remove_near_one_that_waits, {"r0", "r1", "r2"}),
        (Keep.NOTHING, remove_near_one_that_waits, {"r3"}),
    ],
)
def test_what_is_kept_stays_and_the_best_is_found_where_nothing_must(
    keep: Keep, operator: object, kept: set[str]
) -> None:
    plan = Plan(_cluster(), _cluster().grid())
    commitments = _newcomers(plan)[:4]
    draft, agent = _draft(plan, commitments), agent_named("gree")
    assert all(draft.admit(one, agent) for one in commitments[:3])
    start = _Value().evaluate(draft, "plan")
    search = LocalSearch(
        _Value(),
        lambda other: list(other.lifted.values()),
        Spans.of(commitments),
        lambda other, one, asked: other.admit(one, asked),
        (agent,),
        ((1.0, operator),),  # type: ignore[arg-type]
        np.random.default_rng(1),
        back=(0.5,),
        keep=keep,
        ends_early=True,
    )
    trials = iter(range(40))
    best = search.run(start, lambda: next(trials, None) is None)
    placed = {one.id for one in commitments if one.number not in best.draft.lifted}
    assert kept <= placed
    assert best.score <= start.score
    assert ("r3" in placed) is ("r3" in kept)
    # The draft that the search began with is as it was.
    assert _Value().evaluate(draft, "plan").score == start.score
