"""Where room that is free is wished for: at steps at which much of what is asked could run."""

from __future__ import annotations

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import F64, I64, PlanningProblem
from rdl.work_graph import ATOM


def wishes_of(problem: PlanningProblem) -> F64:
    """Return what a unit of room that is free in a column counts beside the value of a plan.

    Each atom's work is spread evenly over its window, which gives what is asked of each column.
    Where more than the mean is asked, free room counts for a plan, up to what work there is worth;
    where less is asked, against it. So of two plans of one value the better one is free where more
    of the rejected requests could run.

    Returns
    -------
    F64
        float64[row, column]; only the row of which most is asked, for its greatest capacity, has
        any but 0.
    """
    forest, room = problem.forest, problem.room
    wish = np.zeros(room.free.shape)
    atoms = forest.vertices[forest.vertices[:, pb.V_KIND] == ATOM]
    works = [_works(problem, atoms, row) for row in range(len(wish))]
    asked = [float((own * atoms[:, pb.V_SHIFTS]).sum()) for own in works]
    tight = int(np.argmax(np.array(asked) / room.scale))
    if asked[tight] <= 0:
        return wish
    load = _load(problem, atoms, works[tight]) / np.maximum(room.free[tight], 1)
    over_mean = np.clip(load / load.mean() - 1, -1, 1)
    wish[tight] = problem.total / asked[tight] * over_mean
    return wish


def _works(problem: PlanningProblem, atoms: I64, row: int) -> F64:
    """Return float64[atom]: what one occurrence of each takes of a row, times columns."""
    room = problem.room
    amounts = np.zeros(len(room.demand_first) - 1)
    for demand in range(len(amounts)):
        held = slice(room.demand_first[demand], room.demand_first[demand + 1])
        amounts[demand] = room.demand_amounts[held][room.demand_rows[held] == row].sum()
    work = atoms[:, pb.V_WORK] * atoms[:, pb.V_MULTIPLE]
    return np.asarray(work * amounts[atoms[:, pb.V_DEMAND]], dtype=np.float64)


def _load(problem: PlanningProblem, atoms: I64, works: F64) -> F64:
    """Return float64[column]: what is asked of a row where each window is used evenly."""
    columns = problem.room.free.shape[1]
    counts = atoms[:, pb.V_SHIFTS]
    atom = np.repeat(np.arange(len(atoms)), counts)
    entry = np.arange(len(atom)) - np.repeat(np.cumsum(counts) - counts, counts)
    shift = problem.forest.shifts[atoms[atom, pb.V_SHIFT] + entry]
    begin, end = atoms[atom, pb.V_START] + shift, atoms[atom, pb.V_END] + shift
    rate = works[atom] / np.maximum(end - begin, 1)
    changes = np.zeros(columns + 1)
    np.add.at(changes, np.clip(begin, 0, columns), rate)
    np.subtract.at(changes, np.clip(end, 0, columns), rate)
    return np.asarray(np.maximum(np.cumsum(changes)[:columns], 0.0))
