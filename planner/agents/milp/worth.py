"""The objective of Rayon's MILP: accepted value, depending on the chosen options."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lp.model import LinearModel
from planner.agents.milp.columns import ModelColumns
from planner.agents.milp.objectives import Kept
from planner.agents.milp.rows import ConstraintRows
from planner.value import preference_losses, value_asked
from planner.view import PlanView

#: Fraction of the kept value that the solver's rounding may lose.
VALUE_LOST = 1e-7


def worth(
    model: LinearModel, columns: ModelColumns, view: PlanView, scale: float, kept: Kept | None
) -> list[NDArray[np.float64]]:
    """Add the objective, accepted value minus preference losses; return the losses.

    One column per request is its worth: at most 1 - its overflow, minus the loss of each option
    that does not overflow (`planner.value.preference_losses`).
    """
    cost = [scale * value_asked(request, view.reference) for request in columns.requests]
    rows = ConstraintRows()
    losses = [preference_losses(request.graph, view.reference) for request in columns.requests]
    first = model.column_count
    model.add_block("worth", len(cost), cost=cost if kept is None else 0.0, upper=1.0)
    if kept is not None:
        row = rows.open(1, lower=scale * kept.value * (1.0 - VALUE_LOST))
        rows.put_each(row, first + np.arange(len(cost)), np.array(cost))
    for number, (own, lost) in enumerate(zip(columns.vertices, losses, strict=True)):
        row = rows.open(1, upper=1.0 - float(lost.sum()))
        rows.put(row, first + number, 1.0)
        rows.put(row, own[-1].overflow, 1.0)
        for option in np.flatnonzero(lost).tolist():
            rows.put(row, own[option].overflow, -float(lost[option]))
    rows.add_to(model, "worth")
    return losses
