"""Primal search and dual bound in parallel threads until the gap, the time limit or a stop.

The compiled loops of both release the interpreter. Where CP-SAT can prove more than prices
(`planner.agents.exact.router`) it has a thread too, and once its bound is the better, the
Lagrangian bound ends. On sets of blocks a decomposition goes on from its prices, where CP-SAT has
no part or would not come to an end. Elsewhere a second search takes the core that the bound leaves
when it has settled. Where requests are few a MILP of the whole set works beside both searches,
which soon have nothing more to find. Where they are fewer still, the proof by subsets has both
cores after a first look of the search: it finds better plans too. On sets of blocks its second core
looks for plans of the whole set by CP-SAT first. With a work limit all take turns in one thread, so
that equal calls give equal answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from planner.agents.exact.annealing import Annealer
from planner.agents.exact.bound.lagrangian import LagrangianBound
from planner.agents.exact.budget import (
    CHECKS,
    SLICE_S,
    Budget,
    SolveInput,
    fill_slice,
)
from planner.agents.exact.decomposition.bound import DecompositionBound, suits_decomposition
from planner.agents.exact.incumbent import CP_SAT, Incumbent, ProofAnswer, report_answer
from planner.agents.exact.patience import Patience
from planner.agents.exact.problem import F64
from planner.agents.exact.proof.cp_sat import CpLimits
from planner.agents.exact.proof.dominance import DominanceSearch, suits_dominance
from planner.agents.exact.proof.partial_cp import PartialProof
from planner.agents.exact.proof.whole_milp import WholeMilp
from planner.agents.exact.subsets.block_plans import BlockPlans
from planner.agents.exact.subsets.check import suits_intervals
from planner.agents.exact.subsets.proof import SubsetProof, book_of

_TURNS = 20  # with a work limit: turns that plans and prices take
_MOVES_PER_EVALUATION = 40
# Parts of the time of the first search where requests are few: at least, in which it must find a
# better plan to go on, and at most. After a look of CP-SAT it has the least.
_FIRST_LOOK = 0.05
_PATIENCE = 0.06
_LONGEST_LOOK = 0.35
_SUBSET_THREADS = 2  # of the proof by subsets where CP-SAT does not prove all of the set
_MOST_ROUNDS = 20  # evaluations of one start before the other has its turn


def solve_in_parallel(incumbent: Incumbent, solve_input: SolveInput, budget: Budget) -> str:
    """Improve `incumbent` until the budget is over or nothing is left to try.

    Returns
    -------
    str
        Why nothing was left to try, where that ended it; else empty.
    """
    workers = _Workers(incumbent, solve_input, budget)
    if budget.moves is not None:
        workers.take_turns(budget.moves)
        return ""
    stop = threading.Event()
    with ThreadPoolExecutor(5, thread_name_prefix="bound") as pool:
        bound = pool.submit(workers.lower_bound, stop)
        proofs, models, again = [bound], [], []
        if solve_input.prove:
            proofs.append(by_cp_sat := pool.submit(workers.prove_by_cp_sat, stop))
            again.append(pool.submit(workers.search_in_its_place, [bound, by_cp_sat], stop))
        elif not workers.by_subsets:
            models.append(pool.submit(workers.prove_by_milp, bound, stop))
            again.append(pool.submit(workers.search_again, [bound], stop))
        if workers.by_subsets:
            models.append(pool.submit(workers.prove_by_subsets, bound, stop))
        try:
            if workers.by_subsets:
                workers.search_first([*proofs, *models])
            workers.search_plans(lambda: all(one.done() for one in proofs))
            workers.wait_for_proof([*proofs[1:], *models])
        finally:
            stop.set()
        for one in (*proofs, *models, *again):
            one.result()
    return "" if budget.is_over(incumbent) or not workers.is_exhausted else workers.end_of_proof


class _Workers:
    """The threads of one solve: searches for plans, and proofs that lower the bound."""

    def __init__(self, incumbent: Incumbent, solve_input: SolveInput, budget: Budget) -> None:
        self._incumbent, self._input, self._budget = incumbent, solve_input, budget
        self._problem, self._positions = solve_input.problem, solve_input.positions
        self._annealer = Annealer(incumbent, solve_input, budget)
        self._prices: F64 | None = None
        self._parts: PartialProof | None = None
        self._cp_sat_ended = threading.Event()
        self._looked = threading.Event()
        self._book = book_of(solve_input, incumbent.view)
        self._whole_milp = WholeMilp(incumbent, solve_input, budget)
        self.end_of_proof = "every way to prove more has ended"

    @property
    def by_subsets(self) -> bool:
        """Whether requests are so few that the proof by subsets works."""
        return self._book is not None

    @property
    def is_exhausted(self) -> bool:
        """Whether the search ended for want of anything to find."""
        return self._annealer.exhausted

    def search_plans(self, bound_done: Callable[[], bool]) -> None:
        """Look for plans until the budget is over or a tiny set is exhausted."""
        self._annealer.search_plans(bound_done)

    def wait_for_proof(self, provers: Sequence[Future[None]]) -> None:
        """Wait, where the search is exhausted, until all provers end or time is over."""
        while self.is_exhausted and not self._budget.is_over(self._incumbent):
            if all(one.done() for one in provers):
                return
            self._budget.report_progress()
            wait(provers, timeout=SLICE_S)

    def prove_by_milp(self, bound: Future[None], stop: threading.Event) -> None:
        """Prove by a model of the whole set once prices have ended, where it is worth building."""
        wait([bound])
        if stop.is_set():
            return
        self.end_of_proof = self._whole_milp.refusal or "a model of the whole set proves no more"
        if not self._whole_milp.refusal:
            self._whole_milp.prove(lambda: stop.is_set() or self._budget.is_over(self._incumbent))

    def search_first(self, provers: Sequence[Future[None]]) -> None:
        """Look for plans as long as that pays, then leave the cores to provers until they end.

        Of blocks CP-SAT looks at the whole set first, the search goes on from what it has found.
        Of so few requests a search finds nothing more at last, and provers find better plans.
        """
        budget = self._budget
        try:
            self._search_while_it_pays(0.0 if self._looks_at_whole() else _PATIENCE)
        finally:
            self._looked.set()
        while not budget.is_over(self._incumbent) and not all(one.done() for one in provers):
            budget.report_progress()
            wait(provers, timeout=SLICE_S)

    def _search_while_it_pays(self, patience_share: float) -> None:
        """Search for a part of the time, then until no better plan is found for another."""
        budget, incumbent, all_of_it = replace(self._budget), self._incumbent, self._budget
        if all_of_it.until is not None:
            left_s, clock = all_of_it.left_s, all_of_it.clock
            patience = Patience(
                lambda: incumbent.value, clock, _FIRST_LOOK * left_s, patience_share * left_s
            )
            budget.until = clock() + _LONGEST_LOOK * left_s
            budget.stop = lambda: patience.is_over or all_of_it.stop()
        Annealer(incumbent, self._input, budget).search_plans(lambda: False)

    def _looks_at_whole(self) -> bool:
        """Let CP-SAT look for plans of all of a set of blocks; return whether it did.

        Where it proves the set anyway, it does not.
        """
        if self._book is None or self._input.prove:
            return False
        if not suits_intervals(self._problem, self._incumbent.view):
            return False
        BlockPlans(self._incumbent, self._input, self._budget, self._book).look()
        return True

    def prove_by_subsets(self, bound: Future[None], stop: threading.Event) -> None:
        """Prove a set of few requests by its subsets, from the prices if they end by themselves."""
        if not self._input.prove:
            wait([bound])
        if stop.is_set() or self._book is None:
            return
        inputs = self._incumbent, self._input, self._budget
        proof = SubsetProof(*inputs, self._book, self._prices)
        threads = 1 if self._input.prove else _SUBSET_THREADS

        def must_end() -> bool:
            return stop.is_set() or self._budget.is_over(self._incumbent)

        def prove_after_look() -> None:
            while not self._looked.wait(SLICE_S):
                if must_end():
                    return
            proof.prove(must_end)

        with ThreadPoolExecutor(threads, thread_name_prefix="subsets") as pool:
            proofs = [pool.submit(proof.prove, must_end)]
            proofs += [pool.submit(prove_after_look) for _ in range(threads - 1)]
            while wait(proofs, timeout=SLICE_S).not_done:
                if must_end() or any(one.done() for one in proofs):
                    proof.interrupt()
        for one in proofs:
            one.result()

    def search_in_its_place(self, ended: Sequence[Future[None]], stop: threading.Event) -> None:
        """Look for plans with other random numbers where CP-SAT has given the set up."""
        wait(ended)
        if self._parts is not None and self._parts.gave_up:
            self.search_again(ended, stop)

    def search_again(self, ended: Sequence[Future[None]], stop: threading.Event) -> None:
        """Look for plans with other random numbers once those that lower the bound have ended.

        Its first cycle is as warm as the other search's second. Two last checks at once would take
        twice as long, so it ends before the other.
        """
        wait(ended)
        if stop.is_set():
            return
        budget = replace(self._budget, report_progress=lambda: None, stop=stop.is_set)
        budget.reserve(budget.check_s)
        solve_input = replace(self._input, seed=self._input.seed + 1)
        Annealer(self._incumbent, solve_input, budget).search_plans(lambda: True, cycle=1)

    def lower_bound(self, stop: threading.Event) -> None:
        """Lower the Lagrangian bound until `stop` or until nothing more can be gained."""
        prices = LagrangianBound(self._problem, stop.is_set, self._input.fine)
        by_dominance = self._input.prove and suits_dominance(self._problem)
        by_decomposition = suits_decomposition(self._problem)
        goes_on = by_dominance or by_decomposition
        rounds, budget = 1, self._budget
        seconds: dict[int, float] = {}
        while not (stop.is_set() or prices.over):
            if prices.is_settled and (goes_on or self._incumbent.proof == CP_SAT):
                break
            size = prices.size
            if budget.left_s < seconds.get(size, prices.predicted_s):
                break  # nothing can cut an evaluation short
            before = budget.clock()
            prices.advance(rounds, self._incumbent.value)
            self._incumbent.lower(prices.bound, prices.proof)
            seconds[size] = budget.clock() - before
            rounds = min(_MOST_ROUNDS, fill_slice(rounds, seconds[size]))
        self._prices = prices.best
        if by_dominance and prices.best is not None:
            self.prove_by_dominance(prices.best, stop)
        if by_decomposition and prices.best is not None:
            self._lower_by_decomposition(prices.best, stop)

    def _lower_by_decomposition(self, prices: F64, stop: threading.Event) -> None:
        """Go on from prices with a multiplier for each request and bucket of steps.

        Beside CP-SAT only where it would not prove the set: it needs the core more.
        """
        while self._input.prove and not (self._parts is not None and self._parts.is_far):
            if stop.is_set() or self._cp_sat_ended.wait(SLICE_S):
                return
        bound, rounds, budget = DecompositionBound(self._problem, prices), 1, self._budget
        spent_s = 0.0
        while not (stop.is_set() or bound.over) and spent_s < budget.left_s:
            before = budget.clock()
            bound.advance(rounds, self._incumbent.value)
            self._incumbent.lower(bound.bound, bound.proof)
            spent_s = budget.clock() - before
            rounds = fill_slice(rounds, spent_s)

    def prove_by_cp_sat(self, stop: threading.Event) -> None:
        """Let CP-SAT prove what it can until `stop`."""
        budget = self._budget
        checked_at = check_s = 0.0

        def report(answer: ProofAnswer) -> None:
            nonlocal checked_at, check_s
            before = budget.clock()
            worth_it = before - checked_at > CHECKS * check_s
            report_answer(self._incumbent, self._positions, answer, plan=worth_it)
            if worth_it:
                checked_at = budget.clock()
                check_s = checked_at - before

        assert budget.until is not None
        left_s = budget.until - budget.clock()
        hint = [self._incumbent.results[position] for position in self._positions]
        limits = CpLimits(left_s, self._input.seed, stop=stop.is_set, report=report)
        try:
            self._parts = PartialProof(self._problem, hint, limits, lambda: self._incumbent.value)
            report_answer(self._incumbent, self._positions, self._parts.prove())
        finally:
            self._cp_sat_ended.set()

    def prove_by_dominance(self, prices: F64, stop: threading.Event) -> None:
        """Prove the optimum by dominance search where that is possible."""
        answer = DominanceSearch(self._problem, prices).run(
            lambda: self._incumbent.value, stop.is_set
        )
        if answer is not None:
            report_answer(self._incumbent, self._positions, answer, "sweep")

    def take_turns(self, moves: int) -> None:
        """Spend `moves` in equal parts, and evaluate prices after each."""
        prices = LagrangianBound(self._problem, fine=self._input.fine)
        part = max(1, moves // _TURNS)
        for turn in range(-(-moves // part)):
            if self._budget.is_over(self._incumbent):
                return
            self._annealer.anneal(min(part, moves - turn * part), 0, turn / _TURNS)
            prices.advance(max(1, part // _MOVES_PER_EVALUATION), self._incumbent.value)
            self._incumbent.lower(prices.bound, prices.proof)
            self._budget.report_progress()
        self._annealer.descend(part)
