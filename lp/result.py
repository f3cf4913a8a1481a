"""The result of a solve: status, values by block, bounds and times."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class SolveStatus(enum.Enum):
    """The status of the solution, independent of the solver.

    PuLP reports the best solution of a time-limited run as optimal; here OPTIMAL requires a proof.
    """

    OPTIMAL = "optimal"
    """An answer, proven to be within the requested gap (zero for a continuous model)."""

    FEASIBLE = "feasible"
    """An answer without that proof: a limit, a stop or a crash came first."""

    INFEASIBLE = "infeasible"
    """Proven: no values satisfy every row and bound."""

    UNBOUNDED = "unbounded"
    """Proven: the objective improves without end."""

    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"
    """One of the two; presolve stopped before telling them apart."""

    NO_ANSWER = "no_answer"
    """Stopped by a limit or the caller before any feasible values were found."""

    FAILED = "failed"
    """The solver broke: numerical trouble, a crash, or an unusable reply. `message` says which."""

    @property
    def has_values(self) -> bool:
        """Whether a solution with this status carries feasible values."""
        return self in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE)


class StopReason(enum.Enum):
    """Why the solver stopped."""

    FINISHED = "finished"
    TIME = "time"
    WORK = "work"
    STOPPED = "stopped"
    KILLED = "killed"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Basis:
    """Simplex basis, to start the next solve of a changed model.

    Attributes
    ----------
    columns, rows
        Status codes, shapes (columns,) and (rows,): 0 at lower, 1 basic, 2 at upper, 3 free at
        zero, 4 nonbasic.
    """

    columns: NDArray[np.int8]
    rows: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of one solve.

    Attributes
    ----------
    status, stop
        The status of the solution, and the reason why the solver stopped.
    objective
        Value of `values` in the model's own sense; NaN without values.
    bound
        Proven bound of the objective: upper for a maximisation, lower for a minimisation; infinite
        if the solver proves none.
    values
        Shape (columns,); empty without values.
    row_duals, reduced_costs
        Change of the objective per unit of right-hand side or of column, in the model's own
        sense; empty for models with integers and for solvers that report none.
    build_s, solve_s
        Seconds to pass the model to the solver, and to solve it.
    """

    status: SolveStatus
    stop: StopReason
    solver: str
    objective: float = math.nan
    bound: float = math.nan
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    row_duals: FloatArray = field(default_factory=lambda: np.empty(0))
    reduced_costs: FloatArray = field(default_factory=lambda: np.empty(0))
    blocks: Mapping[str, slice] = field(default_factory=dict)
    row_blocks: Mapping[str, slice] = field(default_factory=dict)
    basis: Basis | None = None
    iterations: int = 0
    nodes: int = 0
    build_s: float = 0.0
    solve_s: float = 0.0
    message: str = ""

    @property
    def gap(self) -> float:
        """|objective - bound| / |objective|: 0 if proven optimal, infinite if either is missing."""
        if not self.status.has_values or not math.isfinite(self.bound):
            return math.inf
        distance = abs(self.objective - self.bound)
        if distance == 0.0:
            return 0.0
        return distance / abs(self.objective) if self.objective != 0.0 else math.inf

    def block(self, name: str) -> FloatArray:
        """Values of one variable block.

        Raises
        ------
        KeyError
            If the model has no such block.
        ValueError
            If the solution carries no values.
        """
        if not self.status.has_values:
            raise ValueError(f"no values to read: the solve ended {self.status.value}")
        return self.values[self.blocks[name]]

    def duals(self, name: str) -> FloatArray:
        """Duals of one row block; empty if the solver reports none."""
        if not self.row_duals.size:
            return self.row_duals
        return self.row_duals[self.row_blocks[name]]

    def to_json(self) -> dict[str, object]:
        """Figures without the value arrays, ready for JSON (infinite and NaN become None)."""
        numbers = {"objective": self.objective, "bound": self.bound, "gap": self.gap}
        finite = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        return {
            "status": self.status.value,
            "stop": self.stop.value,
            "solver": self.solver,
            **finite,
            "iterations": self.iterations,
            "nodes": self.nodes,
            "build_s": self.build_s,
            "solve_s": self.solve_s,
            "message": self.message,
        }
