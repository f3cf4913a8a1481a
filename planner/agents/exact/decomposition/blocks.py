"""Sets of which every request is one block: what each needs, and where it may begin."""

from __future__ import annotations

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import I64, PlanningProblem, fitting_starts
from rdl.work_graph import ATOM


def are_single_blocks(problem: PlanningProblem) -> bool:
    """Return whether every request is one atom that runs once, as one block."""
    forest = problem.forest
    rows = forest.vertices
    blocks = (rows[:, pb.V_KIND] == ATOM) & (rows[:, pb.V_RUN] > 0) & (rows[:, pb.V_SHIFTS] == 1)
    still = forest.shifts[rows[blocks, pb.V_SHIFT]] == 0
    return bool(blocks.all() and still.all())


def block_needs(problem: PlanningProblem) -> I64:
    """Return int64[row, request]: what each block takes of each row while it runs."""
    room, rows = problem.room, problem.forest.vertices
    need = np.zeros((len(room.free), len(rows)), dtype=np.int64)
    bundles = rows[:, pb.V_MOST] * rows[:, pb.V_MULTIPLE]
    for j, row in enumerate(rows):
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        for k in range(first, end):
            need[room.demand_rows[k], j] += bundles[j] * room.demand_amounts[k]
    return need


def start_flags(problem: PlanningProblem, rows: I64) -> I64:
    """Return int64[block, start - first column of its window]: 1 where it fits the idle profile.

    Parameters
    ----------
    rows
        Of `Forest.vertices`, one a block.
    """
    widths = np.maximum(rows[:, pb.V_END] - rows[:, pb.V_START] - rows[:, pb.V_RUN] + 1, 0)
    flags = np.zeros((len(rows), int(widths.max(initial=0)) + 1), dtype=np.int64)
    for j, row in enumerate(rows):
        good = fitting_starts(problem.forest, row)
        flags[j, : len(good)] = good
    return flags
