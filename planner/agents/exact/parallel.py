"""Plans and prices side by side until they are close enough, time is over, or someone says stop.

A thread for each: the compiled loops of both let go of the interpreter. Where CP-SAT can prove more
than prices (`planner.agents.exact.router`) it has a thread too, and once its bound is the better,
prices are left. Elsewhere a second search takes the core that prices leave when they have settled,
and where requests are few a MILP of the whole set works beside both searches, which soon have
nothing more to find. With a work limit all take turns in one thread, so that equal calls give equal
answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from planner.agents.exact.annealing import Annealer
from planner.agents.exact.bound.lagrangian import LagrangianBound
from planner.agents.exact.budget import (
    CHECKS,
    SLICE_S,
    Budget,
    SolveInput,
    scaled,
)
from planner.agents.exact.incumbent import CP_SAT, Incumbent, ProofAnswer, report_answer
from planner.agents.exact.problem import F64
from planner.agents.exact.proof.cp_sat import CpLimits
from planner.agents.exact.proof.dominance import DominanceSearch, suits_sweep
from planner.agents.exact.proof.partial_cp import PartialProof
from planner.agents.exact.proof.whole_milp import Whole

_TURNS = 20  # with a work limit: turns that plans and prices take
_MOVES_AN_EVALUATION = 40
_MOST_ROUNDS = 20  # evaluations of one start before the other has its turn


def solve_in_parallel(race: Incumbent, field: SolveInput, effort: Budget) -> str:
    """Improve `race` until the effort is over or nothing is left to try.

    Returns
    -------
    str
        Why nothing more was tried, where that is what ended it; else nothing.
    """
    chase = _Workers(race, field, effort)
    if effort.moves is not None:
        chase.take_turns(effort.moves)
        return ""
    ended = threading.Event()
    with ThreadPoolExecutor(3, thread_name_prefix="bound") as pool:
        bound = pool.submit(chase.lower_bound, ended)
        if field.prove:
            provers = others = [bound, pool.submit(chase.prove, ended)]
        else:
            model = pool.submit(chase.prove_whole, bound, ended)
            provers, others = [bound], [bound, model, pool.submit(chase.search_too, bound, ended)]
        try:
            chase.find_plans(lambda: all(one.done() for one in provers))
            chase.wait_for_proof(others[1])
        finally:
            ended.set()
        for one in others:
            one.result()
    return "" if effort.over(race) or not chase.exhausted else chase.why_no_proof


class _Workers:
    """One pursuit: searches for plans, and those who lower the bound."""

    def __init__(self, race: Incumbent, field: SolveInput, effort: Budget) -> None:
        self._race, self._field, self._effort = race, field, effort
        self._problem, self._positions = field.problem, field.positions
        self._finder = Annealer(race, field, effort)
        self._whole = Whole(race, field, effort)
        self.why_no_proof = "every way to prove more has ended"

    @property
    def exhausted(self) -> bool:
        """Whether the search ended for want of anything to find."""
        return self._finder.exhausted

    def find_plans(self, bound_done: Callable[[], bool]) -> None:
        """Look for plans until the effort is over or a tiny set is exhausted."""
        self._finder.find_plans(bound_done)

    def wait_for_proof(self, prover: Future[None]) -> None:
        """Wait, where the search is exhausted, until all is proven that can be, or time is over."""
        while self.exhausted and not (prover.done() or self._effort.over(self._race)):
            self._effort.tell()
            wait([prover], timeout=SLICE_S)

    def prove_whole(self, bound: Future[None], ended: threading.Event) -> None:
        """Prove by a model of the whole set once prices have ended, where it is worth building."""
        wait([bound])
        if ended.is_set():
            return
        self.why_no_proof = self._whole.refusal or "a model of the whole set proves no more"
        if not self._whole.refusal:
            self._whole.prove(lambda: ended.is_set() or self._effort.over(self._race))

    def search_too(self, bound: Future[None], ended: threading.Event) -> None:
        """Look for plans with other random numbers once nobody lowers the bound any more.

        Its first cycle is as warm as the other search's second. Two last checks at once would take
        twice as long, so it ends before the other.
        """
        wait([bound])
        if ended.is_set():
            return
        effort = replace(self._effort, tell=lambda: None, stop=ended.is_set)
        effort.keep(effort.check_s)
        field = replace(self._field, seed=self._field.seed + 1)
        Annealer(self._race, field, effort).find_plans(lambda: True, cycle=1)

    def lower_bound(self, ended: threading.Event) -> None:
        """Lower the bound until told to end or nothing more can be gained."""
        prices = LagrangianBound(self._problem, ended.is_set, self._field.fine)
        sweeps = self._field.prove and suits_sweep(self._problem)
        rounds, effort = 1, self._effort
        took: dict[int, float] = {}
        while not (ended.is_set() or prices.over):
            if prices.settled and (sweeps or self._race.proof == CP_SAT):
                break
            size = prices.size
            if effort.left_s < took.get(size, prices.predicted_s):
                break  # nothing can cut an evaluation short
            before = effort.clock()
            prices.advance(rounds, self._race.value)
            self._race.lower(prices.bound, prices.proof)
            took[size] = effort.clock() - before
            rounds = min(_MOST_ROUNDS, scaled(rounds, took[size]))
        if sweeps and prices.best is not None:
            self.sweep(prices.best, ended)

    def prove(self, ended: threading.Event) -> None:
        """Let CP-SAT prove what it can until told to end."""
        effort = self._effort
        checked_at = check_s = 0.0

        def tell(answer: ProofAnswer) -> None:
            nonlocal checked_at, check_s
            before = effort.clock()
            worth_it = before - checked_at > CHECKS * check_s
            report_answer(self._race, self._positions, answer, plan=worth_it)
            if worth_it:
                checked_at = effort.clock()
                check_s = checked_at - before

        assert effort.until is not None
        left_s = effort.until - effort.clock()
        hint = [self._race.results[position] for position in self._positions]
        limits = CpLimits(left_s, self._field.seed, stop=ended.is_set, tell=tell)
        parts = PartialProof(self._problem, hint, limits, lambda: self._race.value)
        report_answer(self._race, self._positions, parts.prove())

    def sweep(self, prices: F64, ended: threading.Event) -> None:
        """Sweep over time where that may prove the optimum."""
        answer = DominanceSearch(self._problem, prices).run(lambda: self._race.value, ended.is_set)
        if answer is not None:
            report_answer(self._race, self._positions, answer, "sweep")

    def take_turns(self, moves: int) -> None:
        """Spend `moves` in equal parts, prices having theirs after each."""
        prices = LagrangianBound(self._problem, fine=self._field.fine)
        part = max(1, moves // _TURNS)
        for turn in range(-(-moves // part)):
            if self._effort.over(self._race):
                return
            self._finder.moves_at(min(part, moves - turn * part), 0, turn / _TURNS)
            prices.advance(max(1, part // _MOVES_AN_EVALUATION), self._race.value)
            self._race.lower(prices.bound, prices.proof)
            self._effort.tell()
        self._finder.descend(part)
