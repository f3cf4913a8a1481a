"""Which sets are given to a solver that proves what prices cannot.

Rigid sets with few starts go to CP-SAT, tiny sets of any kind to the MILP: on both the price bound
is loose (requests are large beside capacity) and the solver is quick. A single request has CP-SAT
to itself, several have it beside the search for plans (`planner.agents.exact.parallel`).
"""

from __future__ import annotations

from planner.agent import Limits, MustKeep
from planner.agents.exact.budget import Budget
from planner.agents.exact.incumbent import Incumbent, report_answer
from planner.agents.exact.problem import V_END, V_KIND, V_START, PlanningProblem
from planner.agents.exact.proof.cp_sat import CpLimits, is_rigid, solve_rigid, starts_of
from rdl.work_graph import ATOM

#: Starts up to which CP-SAT is tried, and requests up to which it is whatever their starts.
MOST_STARTS = 12_000
FEW_REQUESTS = 40

#: Deterministic seconds of CP-SAT where equal calls have to give equal answers.
REPEATED_S = 5.0

#: Atom-steps up to which a set is tiny, and seconds that the MILP may take on it.
TINY = 600
TINY_SECONDS = 5.0


def suits_cp_sat(problem: PlanningProblem) -> bool:
    """Return whether CP-SAT's model says all that is asked, and is of a size that it can prove."""
    few = len(problem.requests) <= FEW_REQUESTS
    return is_rigid(problem) and (few or starts_of(problem) <= MOST_STARTS)


def route(
    race: Incumbent, problem: PlanningProblem, positions: list[int], effort: Budget, seed: int
) -> None:
    """Let a solver that is best left alone have its turn; `race` gets its plan and bound."""
    if suits_cp_sat(problem):
        if len(positions) == 1 or effort.moves is not None:
            _constraints(race, problem, positions, effort, seed)
    elif _atom_steps(problem) <= TINY:
        _milp(race, effort, seed)


def _constraints(
    race: Incumbent, problem: PlanningProblem, positions: list[int], effort: Budget, seed: int
) -> None:
    seconds = REPEATED_S
    if effort.until is not None:
        seconds = max(0.0, effort.until - effort.clock())
    limits = CpLimits(seconds, seed, effort.moves is not None, stop=effort.stop)
    report_answer(
        race, positions, solve_rigid(problem, [race.results[i] for i in positions], limits)
    )


def _milp(race: Incumbent, effort: Budget, seed: int) -> None:
    from planner.agents.milp.agent import MILP

    limits = Limits(work=effort.moves, seed=seed, stop=effort.stop)
    if effort.until is not None:
        left_s = max(0.0, effort.until - effort.clock())
        limits = Limits(time_s=min(TINY_SECONDS, left_s), seed=seed, stop=effort.stop)
    must_keep = MustKeep(race.keep, race.results if race.whole else ()) if race.keep else None
    results, report = MILP.solve(race.requests, race.view, limits, must_keep)
    race.lower(report.bound, MILP.name)
    race.offer(results, MILP.name)


def _atom_steps(problem: PlanningProblem) -> int:
    """Return how many variables x_jt the MILP would have."""
    vertices = problem.forest.vertices
    atoms = vertices[vertices[:, V_KIND] == ATOM]
    return int((atoms[:, V_END] - atoms[:, V_START]).sum())
