"""The objective of Rayon's MILP: accepted value, with the preferences of the options taken."""

from __future__ import annotations

import numpy as np

from lp.model import LinearModel
from planner.agents.milp.columns import ModelColumns, VertexColumns
from planner.agents.milp.objectives import Kept
from planner.agents.milp.rows import ConstraintRows, Ints
from planner.request import Request
from planner.value import options_of, value_asked
from planner.view import PlanView
from rdl.work_graph import ANY, KIND, WorkGraph

#: Share of the value kept that rounding of the solver may lose.
VALUE_LOST = 1e-7


def worth(
    model: LinearModel, columns: ModelColumns, view: PlanView, scale: float, kept: Kept | None
) -> None:
    """Objective: accepted value, with the product of `prefer` of the options taken.

    The product over several `any` is a chain: what is left of the worth after the i-th `any` is
    what was before it, shared among its options and "not reached" and each share times its
    preference. Each link is linear because the worth is maximised.
    """
    rows = ConstraintRows()
    cost: list[float] = []
    links = [preference_chain(own, request.graph) for own, request in _pairs(columns)]
    first = model.column_count
    for chosen, (_, request) in zip(links, _pairs(columns), strict=True):
        for _, children in chosen:
            cost += [0.0] * (2 + len(children))
        cost.append(scale * value_asked(request, view.nominal))
    model.add_block("worth", len(cost), cost=cost if kept is None else 0.0, upper=1.0)
    if kept is not None:
        row = rows.open(1, lower=scale * kept.value * (1.0 - VALUE_LOST))
        rows.put_each(row, first + np.arange(len(cost)), np.array(cost))
    for chosen, (own, request) in zip(links, _pairs(columns), strict=True):
        row = rows.open(1, upper=1.0)
        rows.put(row, own[-1].overflow, 1.0)
        for vertex, children in chosen:
            rows.put(row, first, 1.0)
            row = _link(rows, first, vertex, children, request.graph)
            first += 2 + len(children)
        rows.put(row, first, 1.0)
        first += 1
    rows.add_to(model, "worth")


def _pairs(columns: ModelColumns) -> list[tuple[list[VertexColumns], Request]]:
    return list(zip(columns.vertices, columns.requests, strict=True))


def preference_chain(
    own: list[VertexColumns], graph: WorkGraph
) -> list[tuple[VertexColumns, list[VertexColumns]]]:
    """Return each `any` with a preference other than 1, and its options: the links of the chain."""
    chosen = []
    for vertex in own:
        if graph.vertices[vertex.vertex, KIND] == ANY:
            options = options_of(graph, vertex.vertex)
            if any(graph.prefer[option] != 1.0 for option in options):
                chosen.append((vertex, [own[option] for option in options]))
    return chosen


def _link(
    rows: ConstraintRows,
    first: int,
    vertex: VertexColumns,
    children: list[VertexColumns],
    graph: WorkGraph,
) -> Ints:
    """Add one link: q at `first`, "not reached" next, then one share an option.

    The shares sum to at most q; each is zero unless its option is taken. Returns the open row
    that bounds whatever follows by the weighed shares.
    """
    shares = first + 1 + np.arange(1 + len(children))
    total = rows.open(1, upper=0.0)
    rows.put(total, shares, 1.0)
    rows.put(total, first, -1.0)
    reached = rows.open(1, upper=0.0)
    rows.put(reached, int(shares[0]), 1.0)
    rows.put(reached, vertex.overflow, -1.0)
    for share, child in zip(shares[1:].tolist(), children, strict=True):
        taken = rows.open(1, upper=1.0)
        rows.put(taken, share, 1.0)
        rows.put(taken, child.overflow, 1.0)
    after = rows.open(1, upper=0.0)
    rows.put(after, int(shares[0]), -1.0)
    for share, child in zip(shares[1:].tolist(), children, strict=True):
        rows.put(after, share, -float(graph.prefer[child.vertex]))
    return after
