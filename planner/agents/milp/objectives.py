"""The later solves of Rayon's MILP: minimise falls at equal value, then cost at equal falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lp.model import LinearModel
from planner.agents.milp.columns import AtomColumns, ConstraintRows, Floats, ModelColumns
from planner.view import PlanView
from rdl.work_graph import BUNDLE

#: Allowed growth of the kept falls, in bundles: falls are integers, so it only absorbs rounding.
_SLACK = 0.25


@dataclass(frozen=True, slots=True)
class Kept:
    """Properties of the incumbent that a later solve must keep.

    Attributes
    ----------
    value
        Accepted value.
    falls
        Falls, in bundles, which may not grow while cost is minimised; None to minimise falls.
    """

    value: float
    falls: int | None = None


def change_weight(atom: AtomColumns) -> float:
    """Return the falls per multiple of change: falls are half of all changes."""
    return 0.5 * atom.bundles * len(atom.shifts)


def change_costs(changing: Sequence[AtomColumns], kept: Kept | None) -> Floats:
    """Return the objective of y_jt: minus the falls if the solve minimises them."""
    lowers = kept is not None and kept.falls is None
    parts = [np.full(a.steps + 1, -change_weight(a) if lowers else 0.0) for a in changing]
    return np.concatenate([np.zeros(0), *parts])


def step_costs(columns: ModelColumns, view: PlanView) -> Floats:
    """Return c_jt of every x_jt: share of a multiple times price factor, over all occurrences."""
    prices = view.prices
    parts = [np.zeros(0)]
    for atom in columns.atoms:
        if prices is None:
            parts.append(np.zeros(atom.steps))
            continue
        graph = columns.requests[atom.request].graph
        bundle = graph.bundles[int(graph.vertices[atom.vertex, BUNDLE])]
        steps = np.arange(atom.start, atom.end)[:, None] + atom.shifts
        share = bundle.dominant_share(view.nominal) * atom.multiple
        parts.append(share * prices.factors[steps].sum(axis=1))
    return np.concatenate(parts)


def falls_20(model: LinearModel, columns: ModelColumns, falls: int) -> None:
    """(20): the falls, half of all changes, may not grow."""
    rows = ConstraintRows()
    row = rows.open(1, upper=falls + _SLACK)
    for atom in columns.atoms:
        rows.put(row, atom.change + np.arange(atom.steps + 1), change_weight(atom))
    rows.add_to(model, "falls kept (20)")


def min_model_falls(columns: ModelColumns) -> int:
    """Return a lower bound, in bundles, on the falls of any plan that places all atoms.

    An atom falls at least once from its greatest height, which is at least g and at least its mean
    over the window.
    """
    heights = (
        (max(a.minimum, -(-a.work // a.steps)) if a.work else 0) * a.bundles * len(a.shifts)
        for a in columns.atoms
    )
    return sum(heights)
