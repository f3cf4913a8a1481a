"""Load the compiled loops before the clock runs: else a minute's limit pays for their compiler."""

from __future__ import annotations

import time

import numpy as np

from planner.agents.exact.bound.column_generation import ColumnGeneration
from planner.agents.exact.bound.subgradient import starts
from planner.agents.exact.decomposition.bound import DecompositionBound, suits_decomposition
from planner.agents.exact.kernels.bound import evaluate
from planner.agents.exact.move_mixes import SINGLE
from planner.agents.exact.overload.search import OverloadSearch
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.proof.dominance import DominanceSearch, suits_dominance
from planner.agents.exact.ruin_recreate import RuinRecreate

_ready: list[bool] = []


def load_loops(problem: PlanningProblem) -> bool:
    """Call every loop once on a small problem, once a process; return whether that was now.

    Loads them from numba's cache in under a second, or compiles them, which takes a minute.
    """
    if _ready:
        return False
    search = RuinRecreate(problem, seed=0)
    search.run(0, SINGLE, 0.0)
    search.restore_best()
    OverloadSearch(problem, SINGLE, 0, time.monotonic, lambda: False).load_loops(search)
    flat, _ = starts(problem)
    flat.run(1, 0.0)
    evaluate(problem.forest, problem.room, flat.space, flat.prices)
    ColumnGeneration(problem, flat.prices, problem.room.free.shape[1]).price()
    load_block_loops(problem)
    _ready.append(True)  # last: after a fault or ^C on the way the next call loads what is missing
    return True


def load_block_loops(problem: PlanningProblem) -> None:
    """Load the loops of dominance search and decomposition where they may be called."""
    prices = np.zeros(problem.room.free.shape)
    if suits_decomposition(problem):
        DecompositionBound(problem, prices).advance(1, 0.0)
    if suits_dominance(problem):
        DominanceSearch(problem, prices, most=8).run(lambda: 0.0, lambda: False)
