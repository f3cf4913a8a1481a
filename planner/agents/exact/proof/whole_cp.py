"""The whole set as one constraint programme over whole numbers (CP-SAT).

It is Rayon's model, row by row. Heights, changes, leases and orders are whole, and so is every
variable that speaks of them. What preferences leave of a worth is counted in parts of a hundred
million and rounded up, so that a bound is a bound. An atom of one block has its starts besides:
what it holds at a step began less than a lease before. It has no objective: it says whether the
requests of a subset can be placed together (`planner.agents.exact.subsets.check`).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from planner.agents.milp import rayon
from planner.agents.milp.columns import AtomColumns
from planner.agents.milp.rows import Floats

#: Units of a worth of 1.
WORTH_UNITS: Final = 10**8

#: The most that a whole variable without an upper bound may reach.
_FAR: Final = 2**40


#: Rows that starts say better: of the changes of atoms of one block.
_SAID_BY_STARTS: Final = ("rises (8)", "falls (9)", "rigid lease (7)")


class WholeCp:
    """One set of requests, as CP-SAT sees it.

    Parameters
    ----------
    built
        Rayon's model that maximises value; every number of it but those of worth is whole.

    Attributes
    ----------
    built
        The model given.
    model
        CP-SAT's model, without an objective.
    variables
        One for each column of Rayon's model.
    """

    def __init__(self, built: rayon.RayonModel) -> None:
        from ortools.sat.python import cp_model

        self.built, self._arrays = built, built.model.assemble()
        self._sum = cp_model.LinearExpr.weighted_sum
        self.model = cp_model.CpModel()
        self.variables: list[Any] = self._new_variables()
        self._add_rows()
        for atom in built.columns.atoms:
            if atom.change >= 0:
                self._add_starts(atom)

    def last_worths(self) -> list[int]:
        """Return for each request the column of what its choices leave of its worth."""
        own = self._arrays.blocks["worth"]
        return list(range(own.start, own.stop))

    def _new_variables(self) -> list[Any]:
        arrays = self._arrays
        upper = np.minimum(arrays.upper, _FAR)
        upper[arrays.blocks["worth"]] = WORTH_UNITS
        if "change" in arrays.blocks:
            upper[arrays.blocks["change"]] = 0.0  # starts say what changes would
        return [
            self.model.new_int_var(low, high, "")
            for low, high in zip(
                np.ceil(arrays.lower).astype(np.int64).tolist(),
                np.floor(upper).astype(np.int64).tolist(),
                strict=True,
            )
        ]

    def _add_rows(self) -> None:
        arrays = self._arrays
        left_out = np.zeros(arrays.rows, dtype=bool)
        for name in _SAID_BY_STARTS:
            if name in arrays.row_blocks:
                left_out[arrays.row_blocks[name]] = True
        worth = arrays.row_blocks["worth"]
        for row in np.flatnonzero(~left_out).tolist():
            span = slice(arrays.starts[row], arrays.starts[row + 1])
            low, high = float(arrays.row_lower[row]), float(arrays.row_upper[row])
            columns, factors = arrays.indices[span].tolist(), arrays.values[span]
            if worth.start <= row < worth.stop:
                self._add_worth(columns, factors)
                continue
            terms = self._sum([self.variables[one] for one in columns], _whole(factors))
            self._add(terms, low, high)

    def _add(self, terms: Any, low: float, high: float) -> None:
        """Add a row; a side that is not finite is none."""
        if low == high:
            self.model.add(terms == int(low))
            return
        if math.isfinite(low):
            self.model.add(terms >= math.ceil(low))
        if math.isfinite(high):
            self.model.add(terms <= math.floor(high))

    def _add_worth(self, columns: list[int], factors: Floats) -> None:
        """Add the row of one request's worth; what an option loses is rounded down to whole units.

        Losses are the negative factors, of what is not taken; so they are taken off the right side.
        """
        own = self._arrays.blocks["worth"]
        whole = [
            round(factor) * (1 if own.start <= one < own.stop else WORTH_UNITS)
            if factor > 0
            else math.ceil(factor * WORTH_UNITS - 1e-6)
            for one, factor in zip(columns, factors.tolist(), strict=True)
        ]
        side = WORTH_UNITS + sum(factor for factor in whole if factor < 0)
        self.model.add(self._sum([self.variables[one] for one in columns], whole) <= side)

    def _add_starts(self, atom: AtomColumns) -> None:
        """Say where a block begins; what it holds at a step began less than a lease before."""
        count = atom.steps - atom.lease + 1
        starts = [self.model.new_bool_var("") for _ in range(max(0, count))]
        self.model.add_exactly_one([*starts, self.variables[atom.overflow]])
        for step in range(atom.steps):
            running = starts[max(0, step - atom.lease + 1) : step + 1]
            held = self.variables[atom.x + step]
            self.model.add(held == atom.maximum * sum(running))


def _whole(factors: Floats) -> list[int]:
    return [round(factor) for factor in factors.tolist()]
