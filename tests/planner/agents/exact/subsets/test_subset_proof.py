"""The proof by subsets: it comes to what enumeration finds, and every row and core is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agents.exact.incumbent import Incumbent
from planner.agents.exact.subsets.check import BlockCheck, Verdict, WholeCheck
from planner.agents.exact.subsets.levels import LevelBook, level_book
from planner.agents.exact.subsets.master import SubsetMaster
from planner.agents.exact.subsets.prices import LevelPrices
from planner.agents.exact.subsets.proof import SubsetProof
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.planner.agents.exact.proof.whole_sets import AGES, whole_of
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import (
    CAPACITY,
    CLUSTER,
    HORIZON,
    gangs,
    nested_blocks,
    tiny_requests,
)


def _view() -> PlanView:
    return Plan(CLUSTER, CLUSTER.grid()).view()


def _book(requests: list[Request]) -> LevelBook:
    book = level_book(requests, _view().nominal)
    assert book is not None
    return book


def _proven(requests: list[Request], keep: frozenset[int] = frozenset()) -> Incumbent:
    """Return what subsets alone come to, from no plan."""
    incumbent, other = whole_of(requests, _view(), keep)
    SubsetProof(incumbent, other.solve_input, other.budget, _book(requests)).prove(lambda: False)
    return incumbent


def _can_be_placed(requests: list[Request], book: LevelBook, subset: list[int]) -> bool:
    """Return whether enumeration finds a plan with all levels of a subset."""
    least = {book.levels[one].request: book.levels[one].value for one in subset}
    return best_value(requests, CAPACITY, HORIZON, keep=sorted(least), least=least) >= 0


def _random_subset(book: LevelBook, rng: np.random.Generator) -> list[int]:
    requests = sorted({one.request for one in book.levels})
    taken = [one for one in requests if rng.random() < 0.7] or requests[:1]
    return [
        int(rng.choice([at for at, one in enumerate(book.levels) if one.request == request]))
        for request in taken
    ]


@pytest.mark.parametrize("seed", range(24))
def test_it_proves_what_enumeration_finds(seed: int) -> None:
    """Plan and bound meet at the best of all combinations."""
    # Weights that are no whole numbers: rounding of values must not show.
    requests = [replace(one, weight=1 + 0.377 * i) for i, one in enumerate(tiny_requests(seed))]
    incumbent = _proven(requests)
    best = best_value(requests, CAPACITY, HORIZON)
    assert incumbent.value == pytest.approx(best)
    assert best * (1 - 1e-9) <= incumbent.bound <= best * (1 + 1e-6)
    assert incumbent.is_proven


@pytest.mark.parametrize("count", [5, 6, 7])
def test_it_proves_gangs_of_which_few_fit(count: int) -> None:
    """With more requests than fit, the best subset is found and proven."""
    incumbent = _proven(gangs(count))
    assert incumbent.value == pytest.approx(best_value(gangs(count), CAPACITY, HORIZON))
    assert incumbent.is_proven


@pytest.mark.parametrize("seed", range(8))
def test_it_keeps_what_may_not_be_lost(seed: int) -> None:
    """With the last request kept it is the best that holds it, or proven that none does."""
    requests = tiny_requests(seed)
    incumbent = _proven(requests, frozenset({2}))
    best = best_value(requests, CAPACITY, HORIZON, keep=[2])
    assert incumbent.whole == (best >= 0)
    assert incumbent.bound == (pytest.approx(best) if best >= 0 else best)


@pytest.mark.parametrize("seed", range(12))
def test_a_row_of_prices_holds_for_all_that_can_be_placed(seed: int) -> None:
    """At any prices, what enumeration can place costs no more than what is free."""
    requests = tiny_requests(seed)
    book = _book(requests)
    prices = LevelPrices(book, _view())
    rng = np.random.default_rng(seed)
    for _ in range(6):
        row = prices.row(rng.random(prices.shape) ** 3)
        subset = _random_subset(book, rng)
        if row.costs[subset].sum() > 1 + 1e-9:
            assert not _can_be_placed(requests, book, subset)


@pytest.mark.parametrize("seed", range(12))
def test_what_prices_refute_cannot_be_placed(seed: int) -> None:
    """A subset that some prices refute is one that enumeration cannot place."""
    requests = tiny_requests(seed)
    book = _book(requests)
    prices = LevelPrices(book, _view())
    prices.row(np.ones(prices.shape))
    subset = _random_subset(book, np.random.default_rng(seed))
    if prices.refute(subset) is not None:
        assert not _can_be_placed(requests, book, subset)


@pytest.mark.parametrize("seed", range(12))
def test_the_check_says_what_enumeration_says(seed: int) -> None:
    """A subset is placed or impossible exactly as enumeration has it, levels and all."""
    requests = tiny_requests(seed)
    book = _book(requests)
    check = WholeCheck(requests, _view(), book)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        subset = _random_subset(book, rng)
        expected = Verdict.PLACED if _can_be_placed(requests, book, subset) else Verdict.IMPOSSIBLE
        assert check.place(subset, AGES).verdict is expected


@pytest.mark.parametrize("seed", range(16))
def test_the_check_of_blocks_says_what_enumeration_says(seed: int) -> None:
    """Intervals place a subset exactly where enumeration does: gaps, options, recurrences."""
    requests = nested_blocks(seed)
    book = _book(requests)
    check = BlockCheck(requests, _view(), book)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        subset = _random_subset(book, rng)
        expected = Verdict.PLACED if _can_be_placed(requests, book, subset) else Verdict.IMPOSSIBLE
        assert check.place(subset, AGES).verdict is expected


def test_a_core_rules_out_higher_levels_and_leaves_lower_ones() -> None:
    """Of two levels of one request, a core of the higher leaves the lower."""
    requests = [one for seed in range(40) for one in tiny_requests(seed)]
    several = next(one for one in requests if len(_book([one]).levels) > 1)
    book = _book([several])
    master = SubsetMaster(book, frozenset())
    master.add_core([0])
    assert master.best(-1.0, AGES) == ([1], pytest.approx(book.levels[1].value))
    master.add_core([1])
    best = master.best(-1.0, AGES)
    assert best is None or 1 not in best[0]


def test_a_stop_ends_it() -> None:
    """Whatever is known by then stands."""
    requests = tiny_requests(1)
    incumbent, other = whole_of(requests, _view())
    SubsetProof(incumbent, other.solve_input, other.budget, _book(requests)).prove(lambda: True)
    assert incumbent.bound >= incumbent.value
