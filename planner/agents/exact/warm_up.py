"""Load the compiled loops before the clock runs: else a minute's limit pays for their compiler."""

from __future__ import annotations

import time

from planner.agents.exact.kernels.bound import evaluate
from planner.agents.exact.overload import OverloadSearch
from planner.agents.exact.prices import ColumnGeneration, starts
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.search import SINGLE, RuinRecreate

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
    _ready.append(True)  # last: after a fault or ^C on the way the next call loads what is missing
    return True
