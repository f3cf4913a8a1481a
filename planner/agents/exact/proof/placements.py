"""What a solver's answer holds for one request, read vertex by vertex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import I64, PlanningProblem
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM


def placement_of(
    problem: PlanningProblem,
    request: int,
    is_there: Callable[[int], bool],
    rows_of: Callable[[int], I64],
) -> PlacementResult:
    """Return what a request that is placed holds.

    Parameters
    ----------
    is_there
        Whether a vertex of the forest is part of the answer.
    rows_of
        Rows [step, step, bundles) of an atom that is, in steps of the plan.
    """
    forest = problem.forest
    offset = int(forest.first[request])
    vertices, rows, choices = [], [np.empty((0, 3), dtype=np.int64)], []
    for vertex in range(offset, int(forest.first[request + 1])):
        row = forest.vertices[vertex]
        if not is_there(vertex):
            continue
        if row[pb.V_KIND] == ATOM:
            vertices.append(vertex - offset)
            rows.append(rows_of(vertex))
        elif row[pb.V_KIND] == ANY:
            kids = forest.children[row[pb.V_CHILD] : row[pb.V_CHILD] + row[pb.V_CHILDREN]]
            choices.append((vertex - offset, [is_there(kid) for kid in kids.tolist()].index(True)))
    return PlacementResult(
        vertices=np.array(vertices, dtype=np.int64),
        first=np.cumsum([len(one) for one in rows]),
        rows=np.concatenate(rows),
        choices=tuple(choices),
    )
