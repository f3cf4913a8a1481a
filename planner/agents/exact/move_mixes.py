"""Which moves the search for plans makes on a set: many small pieces want others than few large."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.exact.kernels.search_state import MoveMix
from planner.agents.exact.problem import (
    V_DEMAND,
    V_KIND,
    V_MOST,
    V_MULTIPLE,
    V_SHIFTS,
    V_WORK,
    PlanningProblem,
)
from rdl.work_graph import ATOM


def plain_mix(most: int) -> MoveMix:
    """Return moves that take out up to `most` requests and put them back in a new order."""
    return MoveMix(most, 2 * most, 0.4, 0.3, 0.0, 0.0)


#: Moves for single atoms, small and large, many small pieces, and few large ones
#: (docs/exact-trials.md).
SINGLE: Final = plain_mix(10)
LARGE_SINGLE: Final = SINGLE._replace(stay=0.5, wished=0.6)
SMALL_PIECES: Final = plain_mix(18)
LARGE_PIECES: Final = MoveMix(6, 3, 0.4, 0.3, 0.5, 0.2, stay=0.8, filled=0.7, wished=0.7)

#: Mean greatest height of the atoms, weighed by their work, from which pieces are large: a share
#: of all that is there.
LARGE: Final = 0.13


def mix_of(problem: PlanningProblem) -> MoveMix:
    """Return the moves for a set; none takes out more requests than there are."""
    forest, requests = problem.forest, len(problem.forest.value)
    mixes = (SINGLE, LARGE_SINGLE)
    if len(forest.vertices) > 2 * requests:
        mixes = (SMALL_PIECES, LARGE_PIECES)
    mix = mixes[mean_height(problem) >= LARGE]
    if mix.most <= requests:
        return mix
    return mix._replace(most=requests, tries=min(mix.tries, 2 * requests))


def mean_height(problem: PlanningProblem) -> float:
    """Return the mean greatest height of all atoms, weighed by work, as a share of all there is."""
    room, vertices = problem.room, problem.forest.vertices
    atoms = vertices[vertices[:, V_KIND] == ATOM]
    heights, works = np.zeros(len(atoms)), np.zeros(len(atoms))
    for place, row in enumerate(atoms):
        first, end = room.demand_first[row[V_DEMAND] : row[V_DEMAND] + 2]
        share = float(room.shares[first:end].max(initial=0.0)) * int(row[V_MULTIPLE])
        heights[place] = int(row[V_MOST]) * share
        works[place] = int(row[V_WORK]) * int(row[V_SHIFTS]) * share
    return float(np.average(heights, weights=works)) if works.any() else 0.0
