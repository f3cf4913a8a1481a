"""The proof by subsets: it comes to what enumeration finds, and every row and core is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from planner.agent import BoundError, Ending, no_plan_report
from planner.agents.check import check_plan
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import LEFT_OUT, Incumbent
from planner.agents.exact.subsets import proof as proof_module
from planner.agents.exact.subsets.answer import SubsetAnswer, SubsetVerdict
from planner.agents.exact.subsets.check import BlockCheck, WholeCheck, places_by_steps
from planner.agents.exact.subsets.levels import LevelBook, level_book
from planner.agents.exact.subsets.master import SubsetMaster
from planner.agents.exact.subsets.prices import LevelPrices
from planner.agents.exact.subsets.proof import SubsetProof
from planner.agents.exact.subsets.step_check import StepCheck
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from tests.builders import a_request
from tests.examples import some_of
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
    book = level_book(requests, _view().reference)
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


@pytest.mark.parametrize("seed", some_of(range(24), 8))
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


def test_what_must_be_kept_and_cannot_be_is_proven_to_have_no_plan() -> None:
    """Two requests of three gangs each, of which five go one after the other: prices allow six."""
    gang = "atom(<1 cpu>, 3, 3, 0.001, 0.003)"
    text = f"window(all({gang}, {gang}, {gang}), 0, 0.005)"
    requests = [a_request(name, text).on(CLUSTER) for name in ("a", "b")]
    prices = LevelPrices(_book(requests), _view())
    prices.row(np.ones(prices.shape))
    assert prices.refute([0, 1], lambda: False) is None
    incumbent = _proven(requests, frozenset({0, 1}))
    assert incumbent.bound == -math.inf
    assert incumbent.gap == 0.0
    report = no_plan_report(incumbent.bound, incumbent.source, None)
    assert (report.status, report.ending, report.bound) == ("no_answer", Ending.PROVEN, 0.0)


def test_a_bound_below_a_checked_plan_is_an_error() -> None:
    """It is never hidden: a row, a core or an answer must have been false."""
    requests = gangs(6)
    incumbent, other = whole_of(requests, _view())
    proof = SubsetProof(incumbent, other.solve_input, other.budget, _book(requests))
    proof.prove(lambda: False)
    with pytest.raises(BoundError, match="subsets"):
        proof._lower(incumbent.value / 2)


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
    if prices.refute(subset, lambda: False) is not None:
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
        expected = (
            SubsetVerdict.PLACED
            if _can_be_placed(requests, book, subset)
            else SubsetVerdict.IMPOSSIBLE
        )
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
        expected = (
            SubsetVerdict.PLACED
            if _can_be_placed(requests, book, subset)
            else SubsetVerdict.IMPOSSIBLE
        )
        assert check.place(subset, AGES).verdict is expected


@pytest.mark.parametrize("make", [tiny_requests, nested_blocks])
@pytest.mark.parametrize("seed", some_of(range(12), 3))
def test_the_steps_place_what_enumeration_places(
    seed: int, make: Callable[[int], list[Request]]
) -> None:
    """A MILP of the steps finds a plan that passes the check exactly where there is one."""
    requests = make(seed)
    book = _book(requests)
    check = StepCheck(build_problem(requests, _view()), book)
    rng = np.random.default_rng(seed)
    subset = _random_subset(book, rng)
    answer = check.place(subset, AGES)
    assert (answer.verdict is SubsetVerdict.PLACED) == _can_be_placed(requests, book, subset)
    if answer.results is not None:
        results = [one or LEFT_OUT for one in answer.results]
        checked = check_plan(requests, results, _view())
        assert [one.placed for one in checked] == [one.placed for one in results]
        value = score_of(requests, checked, _view().reference)[0]
        assert value >= book.value(subset) * (1 - 1e-9)


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


class _FixedCheck:
    """Gives every subset the same answer, so many times, and then ends the time."""

    def __init__(self, answer: SubsetAnswer, times: int) -> None:
        self._answer, self._left = answer, times

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        if self._left == 0:
            raise TimeoutError
        self._left -= 1
        return self._answer


def _answered(answer: SubsetAnswer, monkeypatch: pytest.MonkeyPatch) -> tuple[Incumbent, float]:
    """Return what comes of one answer to five questions, and the value of the best plan."""
    requests = gangs(7)
    incumbent, other = whole_of(requests, _view())
    monkeypatch.setattr(proof_module, "check_of", lambda *_: _FixedCheck(answer, 5))
    SubsetProof(incumbent, other.solve_input, other.budget, _book(requests)).prove(lambda: False)
    return incumbent, best_value(requests, CAPACITY, HORIZON)


def test_what_is_open_keeps_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the best subset is open the bound is its value, whatever is asked after it."""
    incumbent, best = _answered(SubsetAnswer(SubsetVerdict.OPEN, 0.1), monkeypatch)
    assert incumbent.bound > best * (1 + 1e-6)
    assert incumbent.value == 0.0
    assert not incumbent.is_proven


def _malleable(count: int) -> list[Request]:
    text = "window(atom(<1 cpu>, 1, 3, 0.002, 0.006), 0, 0.006)"
    return [a_request(f"r{index}", text).on(CLUSTER) for index in range(count)]


def test_the_steps_place_what_cp_sat_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CP-SAT answers nothing, the MILP of steps finds the plan, and prices bound it."""
    requests = _malleable(2)
    incumbent, other = whole_of(requests, _view())
    nothing = _FixedCheck(SubsetAnswer(SubsetVerdict.OPEN, 0.1), 9)
    monkeypatch.setattr(proof_module, "check_of", lambda *_: nothing)
    SubsetProof(incumbent, other.solve_input, other.budget, _book(requests)).prove(lambda: False)
    assert incumbent.value == pytest.approx(best_value(requests, CAPACITY, HORIZON))
    assert incumbent.is_proven


def test_other_answers_are_looked_for_until_heights_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer whose heights cannot be made whole is no plan, and the next one is asked for."""
    requests = _malleable(2)
    book = _book(requests)
    check = StepCheck(build_problem(requests, _view()), book)
    broken = iter([True, False])
    monkeypatch.setattr(StepCheck, "_is_broken", lambda *_: next(broken))
    impossible = replace(check._arrays, lower=check._arrays.lower + 1e6)
    impossible = replace(impossible, upper=impossible.lower)
    monkeypatch.setattr(StepCheck, "_whole_at", lambda *_: impossible)
    assert check.place([0, 1], AGES).verdict is SubsetVerdict.PLACED
    assert check.seed == 3


def test_the_steps_are_for_sets_that_intervals_do_not_hold() -> None:
    """Blocks alone are left to intervals; a set with other atoms has a MILP of steps."""
    for requests, expected in ((gangs(5), False), (_malleable(2), True)):
        problem = build_problem(requests, _view())
        assert places_by_steps(problem, _view()) is expected


def test_a_plan_that_fails_the_check_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subset that is said to be placed, without a plan that passes, ends the proof."""
    none = SubsetAnswer(SubsetVerdict.PLACED, 0.1, [None] * 7)
    incumbent, best = _answered(none, monkeypatch)
    assert incumbent.bound >= best
    assert not incumbent.is_proven


@pytest.mark.parametrize("count", [6, 8])
def test_threads_share_a_proof(count: int) -> None:
    """Two threads on one proof come to what enumeration finds."""
    requests = gangs(count)
    incumbent, other = whole_of(requests, _view())
    proof = SubsetProof(incumbent, other.solve_input, other.budget, _book(requests))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(proof.prove, [lambda: False] * 2))
    assert incumbent.value == pytest.approx(best_value(requests, CAPACITY, HORIZON))
    assert incumbent.is_proven


def test_a_stop_ends_it() -> None:
    """Whatever is known by then stands."""
    requests = tiny_requests(1)
    incumbent, other = whole_of(requests, _view())
    SubsetProof(incumbent, other.solve_input, other.budget, _book(requests)).prove(lambda: True)
    assert incumbent.bound >= incumbent.value
