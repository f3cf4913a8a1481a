"""A whole model as arrays, the form in which every solver receives it."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lp.result import FloatArray

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


class Sense(enum.Enum):
    """Direction of the objective."""

    MINIMISE = "min"
    MAXIMISE = "max"


@dataclass(frozen=True, slots=True)
class ModelArrays:
    """A whole model as read-only arrays: rows in compressed sparse row form.

    Attributes
    ----------
    cost, lower, upper, integer
        Shape (columns,).
    row_lower, row_upper
        Shape (rows,); infinite where a row has no bound on that side.
    starts, indices, values
        Row r holds entries starts[r] to starts[r + 1]; columns ascend without repetition.
    """

    name: str
    sense: Sense
    offset: float
    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    row_lower: FloatArray
    row_upper: FloatArray
    starts: IntArray
    indices: IntArray
    values: FloatArray
    blocks: Mapping[str, slice]
    row_blocks: Mapping[str, slice]

    @property
    def columns(self) -> int:
        """Number of variables."""
        return int(self.cost.size)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.row_lower.size)

    @property
    def is_integer(self) -> bool:
        """Whether any variable is integer."""
        return bool(self.integer.any())

    @property
    def no_bound(self) -> float:
        """The trivial bound: +inf when maximising, -inf when minimising."""
        return math.inf if self.sense is Sense.MAXIMISE else -math.inf

    def objective(self, values: FloatArray) -> float:
        """Objective value of `values`, shape (columns,)."""
        return float(self.offset + self.cost @ values)

    def violation(self, values: FloatArray) -> float:
        """Largest violation of a bound, row or integrality by `values`; 0 if feasible."""
        activity = np.zeros(self.rows)
        owner = np.repeat(np.arange(self.rows), np.diff(self.starts))
        np.add.at(activity, owner, self.values * values[self.indices])
        worst = [0.0]
        for low, high, value in (
            (self.lower, self.upper, values),
            (self.row_lower, self.row_upper, activity),
        ):
            if value.size:
                worst += [float(np.max(low - value)), float(np.max(value - high))]
        if self.is_integer:
            whole = values[self.integer]
            worst.append(float(np.max(np.abs(whole - np.round(whole)))))
        return max(worst)
