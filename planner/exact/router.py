"""Which sets are given to a solver that proves them before prices are tried.

Rigid sets with few starts go to CP-SAT, tiny sets of any kind to the MILP: on both the price bound
is loose (requests are large beside capacity) and the solver is quick.
"""

from __future__ import annotations

from planner.agent import Limits
from planner.exact.incumbent import Race
from planner.exact.problem import V_END, V_KIND, V_START, Problem
from planner.exact.pursuit import LEFT_OUT, Effort
from planner.formulations.cp import CpLimits, is_rigid, solve_rigid, starts_of
from rdl.work_graph import ATOM

#: Starts up to which CP-SAT is tried, and requests up to which it is whatever their starts.
MOST_STARTS = 12_000
FEW_REQUESTS = 40

#: Seconds that CP-SAT may take on more requests than that; never more than half of what is left.
CP_SECONDS = 5.0

#: Atom-steps up to which a set is tiny, and seconds that the MILP may take on it.
TINY = 600
TINY_SECONDS = 5.0


def route(race: Race, problem: Problem, positions: list[int], effort: Effort, seed: int) -> None:
    """Let a solver that can prove such a set have its turn; `race` gets its plan and bound."""
    few = len(problem.requests) <= FEW_REQUESTS
    if is_rigid(problem) and (few or starts_of(problem) <= MOST_STARTS):
        _constraints(race, problem, positions, effort, seed)
    elif _atom_steps(problem) <= TINY and not race.keep:  # the MILP's agent keeps nobody
        _milp(race, effort, seed)


def _constraints(
    race: Race, problem: Problem, positions: list[int], effort: Effort, seed: int
) -> None:
    seconds = CP_SECONDS
    if effort.until is not None:
        left_s = max(0.0, effort.until - effort.clock())
        seconds = left_s / 2 if len(positions) <= FEW_REQUESTS else min(seconds, left_s / 2)
        if len(positions) == 1:
            seconds = left_s  # nothing else proves a single request
    limits = CpLimits(seconds, seed, effort.moves is not None, stop=effort.stop)
    answer = solve_rigid(problem, [race.results[i] for i in positions], limits)
    race.lower(answer.bound, "cp-sat")
    if answer.results is not None:
        results = list(race.results)
        for position, result in zip(positions, answer.results, strict=True):
            results[position] = result or LEFT_OUT
        race.offer(results, "cp-sat")


def _milp(race: Race, effort: Effort, seed: int) -> None:
    from planner.agents.milp import MILP

    limits = Limits(work=effort.moves, seed=seed, stop=effort.stop)
    if effort.until is not None:
        left_s = max(0.0, effort.until - effort.clock())
        limits = Limits(time_s=min(TINY_SECONDS, left_s), seed=seed, stop=effort.stop)
    results, report = MILP.solve(race.requests, race.view, limits)
    race.lower(report.bound, MILP.name)
    race.offer(results, MILP.name)


def _atom_steps(problem: Problem) -> int:
    """Return how many variables x_jt the MILP would have."""
    vertices = problem.forest.vertices
    atoms = vertices[vertices[:, V_KIND] == ATOM]
    return int((atoms[:, V_END] - atoms[:, V_START]).sum())
