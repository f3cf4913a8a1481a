"""Small models whose optima are derived by hand, shared by the tests of lp."""

from __future__ import annotations

import numpy as np

from lp.arrays import Sense
from lp.model import Entries, LinearModel


def furniture(*, integer: bool = False) -> LinearModel:
    """max 3x + 5y, x <= 4, 2y <= 12, 3x + 2y <= 18: optimum 36 at (2, 6), duals (0, 1.5, 1)."""
    model = LinearModel("furniture", Sense.MAXIMISE)
    made = model.add_block("made", 2, cost=[3.0, 5.0], integer=integer)
    x, y = made.indices
    model.add_rows(
        "plants",
        3,
        Entries([0, 1, 2, 2], [x, y, x, y], [1.0, 2.0, 3.0, 2.0]),
        upper=[4.0, 12.0, 18.0],
    )
    return model


def knapsack(items: int, dimensions: int, seed: int) -> LinearModel:
    """A random multi-dimensional 0-1 knapsack, half of every dimension."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 1000, size=(dimensions, items)).astype(float)
    model = LinearModel("knapsack", Sense.MAXIMISE)
    values = weights.mean(axis=0) + rng.integers(0, 500, size=items)
    taken = model.add_block("taken", items, cost=values, upper=1.0, integer=True)
    rows = np.repeat(np.arange(dimensions), items)
    model.add_rows(
        "capacity",
        dimensions,
        Entries(rows, np.tile(taken.indices, dimensions), weights.ravel()),
        upper=np.floor(weights.sum(axis=1) / 2),
    )
    return model
