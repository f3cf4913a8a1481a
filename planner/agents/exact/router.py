"""Which sets a solver gets that proves what prices cannot.

Sets of blocks go to CP-SAT, tiny sets of any kind to the MILP: on both the price bound is loose
(requests are large beside capacity). A single request has CP-SAT to itself, several have it beside
the search for plans (`planner.agents.exact.parallel`).
"""

from __future__ import annotations

from planner.agent import Limits, MustKeep
from planner.agents.exact.budget import Budget
from planner.agents.exact.incumbent import Incumbent, report_answer
from planner.agents.exact.problem import V_END, V_KIND, V_START, PlanningProblem
from planner.agents.exact.proof.cp_sat import (
    MOST_STARTS,
    CpLimits,
    count_starts,
    is_rigid,
    solve_rigid,
)
from rdl.work_graph import ATOM

#: Blocks up to which CP-SAT has a thread: of more its model takes too long to build.
MOST_BLOCKS = 20_000

#: Requests up to which CP-SAT is asked, whatever their starts, where equal calls have to give equal
#: answers.
FEW_REQUESTS = 40

#: Deterministic seconds of CP-SAT where equal calls have to give equal answers.
REPEATABLE_S = 5.0

#: Atom-steps up to which a set is tiny, and seconds that the MILP may take on it.
TINY = 600
TINY_SECONDS = 5.0


def suits_cp_sat(problem: PlanningProblem) -> bool:
    """Return whether CP-SAT's model, an interval a block, says all that is asked."""
    return len(problem.forest.vertices) <= MOST_BLOCKS and is_rigid(problem)


def route(
    incumbent: Incumbent, problem: PlanningProblem, positions: list[int], budget: Budget, seed: int
) -> None:
    """Give the set to the one solver that proves it, if any; the answer goes to `incumbent`."""
    if suits_cp_sat(problem):
        few = len(problem.requests) <= FEW_REQUESTS or count_starts(problem) <= MOST_STARTS
        if len(positions) == 1 or (budget.moves is not None and few):
            _solve_by_cp_sat(incumbent, problem, positions, budget, seed)
    elif _atom_steps(problem) <= TINY:
        _solve_by_milp(incumbent, budget, seed)


def _solve_by_cp_sat(
    incumbent: Incumbent, problem: PlanningProblem, positions: list[int], budget: Budget, seed: int
) -> None:
    seconds = REPEATABLE_S
    if budget.until is not None:
        seconds = max(0.0, budget.until - budget.clock())
    limits = CpLimits(seconds, seed, budget.moves is not None, stop=budget.stop)
    report_answer(
        incumbent,
        positions,
        solve_rigid(problem, [incumbent.results[i] for i in positions], limits),
    )


def _solve_by_milp(incumbent: Incumbent, budget: Budget, seed: int) -> None:
    from planner.agents.milp.agent import MILP

    limits = Limits(work=budget.moves, seed=seed, stop=budget.stop)
    if budget.until is not None:
        left_s = max(0.0, budget.until - budget.clock())
        limits = Limits(time_s=min(TINY_SECONDS, left_s), seed=seed, stop=budget.stop)
    must_keep = (
        MustKeep(incumbent.must_keep, incumbent.results if incumbent.whole else ())
        if incumbent.must_keep
        else None
    )
    results, report = MILP.solve(incumbent.requests, incumbent.view, limits, must_keep)
    incumbent.lower(report.bound, MILP.name)
    incumbent.offer(results, MILP.name)


def _atom_steps(problem: PlanningProblem) -> int:
    """Return how many variables x_jt the MILP would have."""
    vertices = problem.forest.vertices
    atoms = vertices[vertices[:, V_KIND] == ATOM]
    return int((atoms[:, V_END] - atoms[:, V_START]).sum())
