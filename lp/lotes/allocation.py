"""Stage 1: the allocation LP over pooled machines (LoTES section 4.1, equations 1 to 5).

With N_jk the jobs of class k in service on configuration j, the paper's shares are
delta_jkl = N_jk r_kl / (c_jl n_j), equation (3) holds by construction, and (1) to (5) become

    max lambda   s.t.   sum_j mu_jk N_jk >= lambda alpha_k          (2)
                        sum_k r_kl N_jk <= c_jl n_j                 (4)
                        N_jk >= 0                                   (5)

which is what `allocate` solves, scaled to N_jk / n_j. A test compares it with the paper's form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lp.arrays import Sense
from lp.limits import SolveLimits
from lp.lotes.instance import LotesInstance, Unserved
from lp.model import Entries, LinearModel
from lp.result import FloatArray, Solution, SolveStatus
from lp.solver import solve

PAIR_THRESHOLD = 1e-6
"""A class is paired with a configuration when some delta_jkl exceeds this."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Solution of the allocation LP.

    Attributes
    ----------
    arrival_rate
        Largest total arrival rate lambda, jobs per hour, that the pooled machines sustain.
    in_service
        N_jk, shape (J, K).
    share
        delta_jkl, shape (J, K, L): part of resource l of configuration j devoted to class k.
    unserved
        Classes that no machine can serve; they are left out of the LP and their own rate is zero.
    free
        Classes that request no resource; they limit nothing and are left out of the LP.
    """

    arrival_rate: float
    in_service: FloatArray
    share: FloatArray
    unserved: tuple[Unserved, ...]
    free: tuple[str, ...]
    solutions: tuple[Solution, ...]

    @property
    def pairs(self) -> NDArray[np.bool_]:
        """Pairs that stage 2 may use in paper mode, shape (J, K)."""
        return np.asarray((self.share > PAIR_THRESHOLD).any(axis=2))


def allocate(
    instance: LotesInstance,
    *,
    canonical: bool = True,
    solver: str = "highs",
    limits: SolveLimits | None = None,
) -> Allocation:
    """Solve the allocation LP.

    Parameters
    ----------
    canonical
        Solve again at the optimum, minimising sum of rank(j, k) N_jk / n_j with rank the position
        of the pair in row-major order: many vertices are optimal and stage 2 depends on the one
        chosen.

    Raises
    ------
    ValueError
        If no arriving class needs a machine, so that the rate has no limit.
    RuntimeError
        If the solver fails on this model, which always has the solution zero.
    """
    problem = _Problem(instance)
    if not problem.required.any():
        return problem.result(np.zeros(instance.rate.shape), 0.0, ())
    model = problem.model()
    first = _optimal(solve(model, limits, solver=solver))
    solutions = [first]
    if canonical:
        solutions.append(
            _optimal(solve(problem.with_fixed_rate(first.objective), limits, solver=solver))
        )
    per_machine = np.zeros(instance.rate.shape)
    per_machine[problem.pair_j, problem.pair_k] = np.maximum(solutions[-1].block("jobs"), 0.0)
    rate = first.objective * instance.configurations.machines
    in_service = per_machine * instance.configurations.count[:, None]
    return problem.result(in_service, rate, tuple(solutions))


class _Problem:
    """The LP's index sets: usable pairs of the classes that arrive and request some resource."""

    def __init__(self, instance: LotesInstance) -> None:
        self.instance = instance
        self.unserved = instance.classes_without_machine()
        asks = (instance.classes.request > 0).any(axis=1)
        served = instance.usable.any(axis=0)
        # A fluid model: a class that fits some configuration may also use one too small for a whole
        # job.
        usable = (instance.rate > 0) & (instance.configurations.count > 0)[:, None]
        usable &= (
            (instance.configurations.capacity[:, None] > 0) | ~(instance.classes.request > 0)
        ).all(axis=2)
        usable &= served & asks
        self.required = served & asks & (instance.classes.share > 0)
        free = ~asks & served
        self.free = tuple(np.array(instance.classes.names, dtype=object)[free])
        if not self.required.any() and (free & (instance.classes.share > 0)).any():
            raise ValueError("every class that can be served asks for nothing: no rate is too high")
        self.pair_j, self.pair_k = np.nonzero(usable & self.required)

    def model(self) -> LinearModel:
        """max lambda, in jobs per hour and machine."""
        model = LinearModel("LoTES allocation", Sense.MAXIMISE)
        model.add_block("rate", 1, cost=1.0)
        self._add_rows(model, 0.0)
        return model

    def with_fixed_rate(self, rate: float) -> LinearModel:
        """The same rows with lambda fixed; prefers pairs in row-major order."""
        model = LinearModel("LoTES allocation, canonical vertex")
        # Solvers return about eight digits; the optimum itself bounds the rate from above.
        model.add_block("rate", 1, lower=rate * (1 - 1e-7))
        self._add_rows(model, 1.0)
        return model

    def _add_rows(self, model: LinearModel, rank_weight: float) -> None:
        j, k = self.pair_j, self.pair_k
        instance = self.instance
        classes, configurations = instance.classes, instance.configurations
        rank = 1.0 + j * len(classes.names) + k
        # (5)
        jobs = model.add_block("jobs", j.size, cost=rank_weight * rank / rank.max())
        rows = np.cumsum(self.required) - 1
        wanted = np.flatnonzero(self.required)
        per_machine = configurations.count / configurations.machines
        model.add_rows(  # (2)
            "serve",
            wanted.size,
            Entries(
                np.concatenate([rows[k], rows[wanted]]),
                np.concatenate([jobs.indices, np.zeros(wanted.size, np.int32)]),
                np.concatenate([instance.rate[j, k] * per_machine[j], -classes.share[wanted]]),
            ),
            lower=0.0,
        )
        resources = len(configurations.resources)
        room = configurations.capacity[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            fill = np.where(classes.request[k] > 0, classes.request[k] / room, 0.0)
        model.add_rows(  # (4)
            "hold",
            len(configurations.names) * resources,
            Entries(
                (j[:, None] * resources + np.arange(resources)).ravel(),
                np.repeat(jobs.indices, resources),
                fill.ravel(),
            ),
            upper=1.0,
        )

    def result(
        self, in_service: FloatArray, rate: float, solutions: tuple[Solution, ...]
    ) -> Allocation:
        configurations = self.instance.configurations
        used = in_service[:, :, None] * self.instance.classes.request[None]
        room = (configurations.capacity * configurations.count[:, None])[:, None]
        share = np.divide(used, room, out=np.zeros_like(used), where=used > 0)
        for array in (in_service, share):
            array.flags.writeable = False
        return Allocation(rate, in_service, share, self.unserved, self.free, solutions)


def _optimal(solution: Solution) -> Solution:
    if solution.status is not SolveStatus.OPTIMAL:
        raise RuntimeError(
            f"{solution.solver} ended {solution.status.value} on a model that has an optimum: "
            f"{solution.message or solution.stop.value}"
        )
    return solution
