"""The allocation LP as the paper prints it, equations (1) to (5) in delta_jkl."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lp.arrays import Sense
from lp.limits import SolveLimits
from lp.lotes.allocation import _optimal, _Problem
from lp.lotes.instance import LotesInstance
from lp.model import Entries, LinearModel
from lp.result import FloatArray
from lp.solver import solve


def allocate_as_printed(
    instance: LotesInstance, *, solver: str = "highs", limits: SolveLimits | None = None
) -> tuple[float, FloatArray]:
    """Solve equations (1) to (5) as printed, in delta_jkl.

    Returns
    -------
    tuple
        lambda per hour, and delta, shape (J, K, L).

    Raises
    ------
    RuntimeError
        If the solver fails on this model.
    """
    printed = _Printed(_Problem(instance))
    solution = _optimal(solve(printed.model(), limits, solver=solver))
    share = np.zeros(instance.shape)
    delta = solution.block("delta").reshape(printed.asked.shape)
    share[printed.pair_j, printed.pair_k] = np.where(printed.asked, delta, 0.0)
    return float(solution.block("rate")[0]) * instance.configurations.machines, share


class _Printed:
    """Equations (1) to (5) in delta_jkl; one entry a usable pair and resource, shape (P, L)."""

    def __init__(self, problem: _Problem) -> None:
        self.instance = problem.instance
        self.pair_j, self.pair_k = problem.pair_j, problem.pair_k
        self._required = problem.required
        self._capacity = self.instance.configurations.capacity[self.pair_j]
        self.asked = self.instance.classes.request[self.pair_k] > 0
        self._resources = np.arange(self.asked.shape[1])

    def model(self) -> LinearModel:
        """max lambda, in jobs per hour and machine."""
        model = LinearModel("LoTES allocation as printed", Sense.MAXIMISE)
        rate = model.add_block("rate", 1, cost=1.0)  # (1)
        delta = model.add_block("delta", self.asked.size)  # (5)
        column = delta.start + np.arange(self.asked.size).reshape(self.asked.shape)
        self._add_serve(model, column, rate.start)
        self._add_profile(model, column)
        size = self._resources.size
        hold = self.pair_j[:, None] * size + self._resources
        model.add_rows(  # (4)
            "hold",
            len(self.instance.configurations.names) * size,
            Entries(hold.ravel(), column.ravel(), np.ones(column.size)),
            upper=1.0,
        )
        return model

    def _add_serve(self, model: LinearModel, column: NDArray[np.int64], rate: int) -> None:
        configurations, classes = self.instance.configurations, self.instance.classes
        size, asked = self._resources.size, self.asked
        machines = configurations.count / configurations.machines
        speed = self.instance.rate[self.pair_j, self.pair_k] * machines[self.pair_j]
        row = self.pair_k[:, None] * size + self._resources
        required = np.argwhere(self._required[:, None] & (classes.request > 0))
        demand = classes.share[required[:, 0]] * classes.request[required[:, 0], required[:, 1]]
        model.add_rows(  # (2)
            "serve",
            len(classes.names) * size,
            Entries(
                np.concatenate([row[asked], required[:, 0] * size + required[:, 1]]),
                np.concatenate([column[asked], np.full(len(required), rate)]),
                np.concatenate([(self._capacity * speed[:, None])[asked], -demand]),
            ),
            lower=0.0,
        )

    def _add_profile(self, model: LinearModel, column: NDArray[np.int64]) -> None:
        asked = self.asked
        request = self.instance.classes.request[self.pair_k]
        jobs = np.divide(self._capacity, request, out=np.zeros(asked.shape), where=asked)
        first = (np.arange(len(asked)), np.argmax(asked, axis=1))
        row = np.arange(asked.size).reshape(asked.shape)[asked]
        of_first = np.broadcast_to(column[first][:, None], asked.shape)[asked]
        jobs_of_first = np.broadcast_to(jobs[first][:, None], asked.shape)[asked]
        model.add_rows(  # (3), against the first resource that the class asks for
            "profile",
            asked.size,
            Entries(
                np.concatenate([row, row]),
                np.concatenate([column[asked], of_first]),
                np.concatenate([jobs[asked], -jobs_of_first]),
            ),
            lower=0.0,
            upper=0.0,
        )
