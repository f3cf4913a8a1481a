"""Place a single atom, the usual request of online admission, on the view's own arrays in one call.

Packing a table, a profile and an output for it would cost more than its placement. It is placed as
a batch only if it needs more rows than the scratch has.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.batch import RowNames, workspace
from planner.agents.greedy.kernels import codes
from planner.agents.greedy.kernels.alone import ALONE_CELLS, SharedProfile, SingleAtom, place_alone
from planner.agents.greedy.packing import is_single_atom
from planner.agents.greedy.results import FIRST_VERTEX, ONE_ROW, constant, refusal_of
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import END, START

I64 = NDArray[np.int64]


def place_single(
    request: Request, view: PlanView, passes: tuple[int, ...], *, early: bool
) -> PlacementResult | None:
    """Return the placement or refusal of a single atom, or None if it needs a batch.

    Requests of several atoms, with too many rows, or on a view without shared arrays need a batch.

    Parameters
    ----------
    passes
        Strategies of `planner.agents.greedy.kernels.codes`, tried in order.
    early
        Place in mirrored time.
    """
    if not is_single_atom(request):
        return None
    graph = request.graph
    demand = view.demand(graph.bundles[0], None, request.tenant, request.queue)
    arrays, averages = view.arrays(), view.averages
    if arrays is None:
        return None
    takes, fit = _arrays_of(demand)
    vertices = graph.vertices.copy()
    scratch = workspace().room(int(vertices[0, END] - vertices[0, START]))
    state = np.empty(ALONE_CELLS, dtype=np.int64)
    count = place_alone(
        SingleAtom(vertices, takes, fit, _passes(passes)),
        SharedProfile(*arrays, averages.windows, view.segments),
        scratch.steps,
        scratch.rows,
        state,
        view.first,
        averages.offset,
        int(early),
    )
    if count < 0:
        return None
    if count == 0:
        start = min(max(view.first, int(vertices[0, START])), view.first + arrays.free.shape[1] - 1)
        return refusal_of(request, state.tolist()[: codes.STATUS_COLUMNS], RowNames(view, start))
    rows = scratch.rows[:count].copy()
    rows.flags.writeable = False
    first = ONE_ROW if count == 1 else constant([0, count])
    return PlacementResult(None, "", FIRST_VERTEX, first, rows, ())


@lru_cache(maxsize=64)
def _passes(passes: tuple[int, ...]) -> I64:
    return np.array(passes, dtype=np.int64)


@lru_cache(maxsize=4096)
def _arrays_of(demand: Demand) -> tuple[I64, I64]:
    """Return `takes` and `fit` of a `SingleAtom`."""
    head = (0, len(demand.rows), 0, len(demand.averages))
    takes = (*head, *demand.rows, *demand.amounts, *demand.averages, *demand.average_amounts)
    return np.array(takes, dtype=np.int64), np.array([demand.fit], dtype=np.int64)
