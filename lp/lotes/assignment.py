"""Stage 2: the machine-assignment LP over bins (LoTES section 4.2, equations 6 to 10).

Delta_jkl = r_kl sum_i N_ijk x_ij by (8), so that (7) reads the same for every resource with
r_kl > 0, and the LP is

    max lambda   s.t.   sum_j mu_jk sum_i N_ijk x_ij >= lambda alpha_k      (7), (8)
                        sum_i x_ij = n_j                                     (9)
                        x_ij >= 0                                            (10)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lp.arrays import Sense
from lp.limits import SolveLimits
from lp.lotes.instance import LotesInstance
from lp.model import Block, Entries, LinearModel
from lp.result import FloatArray, Solution
from lp.solver import solve

Counts = NDArray[np.int32]
ROUNDING_LOSS = 1e-3

_MOST_MOVES = 20_000
_LEAST_GAIN = 1e-12

"""Part of lambda that rounding may cost before machines are moved to win it back."""
MANY_BINS = 20_000
"""Above this many bins HiGHS solves the LP as it is: its presolve compares their columns with each
other, which takes minutes at 90,000 where the simplex method takes two seconds."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of every configuration.

    Attributes
    ----------
    configuration
        Configuration j of each bin, shape (B,); ascending except while columns are priced.
    jobs
        N_ijk, shape (B, K).
    """

    configuration: NDArray[np.int32]
    jobs: Counts

    @classmethod
    def of(cls, bins_by_configuration: list[Counts]) -> Bins:
        """Join bins listed by configuration."""
        counts = [len(bins) for bins in bins_by_configuration]
        configuration = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        jobs = np.concatenate(bins_by_configuration).astype(np.int32)
        configuration.flags.writeable = jobs.flags.writeable = False
        return cls(configuration, jobs)

    def select(self, mask: NDArray[np.bool_]) -> Bins:
        """The bins of a mask, shape (B,)."""
        return Bins(self.configuration[mask], self.jobs[mask])


@dataclass(frozen=True, slots=True)
class Assignment:
    """Solution of the machine-assignment LP and its rounding.

    Attributes
    ----------
    machines
        Number of machines that emulate each bin, shape (B,).
    fractional
        x_ij before rounding, shape (B,).
    relaxed_rate, arrival_rate
        lambda per hour before and after rounding.
    in_service
        sum_i N_ijk x_ij after rounding, shape (J, K).
    """

    bins: Bins
    machines: NDArray[np.int64]
    fractional: FloatArray
    relaxed_rate: float
    arrival_rate: float
    in_service: NDArray[np.int64]
    solution: Solution | None


def assignment_model(
    instance: LotesInstance, bins: Bins, served: NDArray[np.bool_], *, whole: bool = False
) -> tuple[LinearModel, Block]:
    """Equations (6) to (10) over the given bins; `whole` makes x_ij integer.

    Continuous columns are shares of a configuration, x_ij / n_j, and lambda is per machine.
    """
    configurations, classes = instance.configurations, instance.classes
    count = configurations.count[bins.configuration].astype(np.float64)
    model = LinearModel("LoTES machine assignment", Sense.MAXIMISE)
    rate = model.add_block("rate", 1, cost=1.0)  # (6)
    unit = np.ones(count.size) if whole else np.maximum(count, 1.0)
    used = model.add_block("used", count.size, integer=whole)  # (10)
    wanted = np.flatnonzero(served)
    # With many classes, bins are mostly zeros: multiply only the nonzero counts.
    held = bins.jobs[:, wanted]
    at, row = np.nonzero(held)
    flow = held[at, row] * instance.rate[bins.configuration[at], wanted[row]] * unit[at]
    model.add_rows(  # (7), (8)
        "serve",
        wanted.size,
        Entries(
            np.concatenate([row, np.arange(wanted.size)]),
            np.concatenate([used.indices[at], np.full(wanted.size, rate.start, np.int32)]),
            np.concatenate([flow / configurations.machines, -classes.share[wanted]]),
        ),
        lower=0.0,
    )
    total = configurations.count.astype(np.float64) if whole else _presence(configurations.count)
    having = np.bincount(bins.configuration, minlength=total.size) > 0
    model.add_rows(  # (9)
        "machines",
        total.size,
        Entries(bins.configuration, used.indices, np.ones(used.count)),
        lower=np.where(having, total, 0.0),
        upper=total,
    )
    return model, used


def _presence(count: NDArray[np.int64]) -> FloatArray:
    return (count > 0).astype(np.float64)


def assign(
    instance: LotesInstance,
    bins: Bins,
    *,
    whole: bool = False,
    solver: str = "highs",
    limits: SolveLimits | None = None,
) -> Assignment:
    """Solve the machine-assignment LP over the given bins and round it.

    Parameters
    ----------
    whole
        Solve the integer program instead (the paper's comparison), which needs no rounding.

    Raises
    ------
    RuntimeError
        If the solver finds no solution of this model, for which zero is always feasible.
    """
    served = served_by(instance, bins)
    if not served.any():
        return _round_up(instance, bins, np.zeros(len(bins.jobs)), 0.0, None)
    model, _ = assignment_model(instance, bins, served, whole=whole)
    if solver == "highs" and not whole and len(bins.jobs) > MANY_BINS:
        limits = _without_presolve(limits or SolveLimits())
    solution = solve(model, limits, solver=solver)
    if not solution.status.has_values:
        raise RuntimeError(
            f"{solution.solver} ended {solution.status.value} on the machine assignment: "
            f"{solution.message or solution.stop.value}"
        )
    count = instance.configurations.count[bins.configuration]
    fractional = np.maximum(solution.block("used"), 0.0) * (1 if whole else count)
    rate = float(solution.block("rate")[0]) * instance.configurations.machines
    return _round_up(instance, bins, fractional, rate, solution)


def _without_presolve(limits: SolveLimits) -> SolveLimits:
    return replace(limits, options={"presolve": "off", **limits.options})


def served_by(instance: LotesInstance, bins: Bins) -> NDArray[np.bool_]:
    """Classes that arrive and that some bin holds at a positive rate, shape (K,)."""
    held = (bins.jobs > 0) & (instance.rate[bins.configuration] > 0)
    held &= (instance.configurations.count[bins.configuration] > 0)[:, None]
    return np.asarray(held.any(axis=0) & (instance.classes.share > 0))


def _round_up(
    instance: LotesInstance,
    bins: Bins,
    fractional: FloatArray,
    relaxed_rate: float,
    solution: Solution | None,
) -> Assignment:
    machines = np.zeros(fractional.size, dtype=np.int64)
    for j, total in enumerate(instance.configurations.count):
        here = np.flatnonzero(bins.configuration == j)
        if here.size:
            machines[here] = largest_remainder(fractional[here], int(total))
    served = served_by(instance, bins)
    in_service = _in_service(instance, bins, machines)
    rate = sustained_rate(instance, in_service, served)
    if rate < (1 - ROUNDING_LOSS) * relaxed_rate:
        machines = move_machines(machines, _flows(instance, bins, served))
        in_service = _in_service(instance, bins, machines)
        rate = sustained_rate(instance, in_service, served)
    for array in (machines, fractional, in_service):
        array.flags.writeable = False
    return Assignment(bins, machines, fractional, relaxed_rate, rate, in_service, solution)


def _in_service(
    instance: LotesInstance, bins: Bins, machines: NDArray[np.int64]
) -> NDArray[np.int64]:
    """sum_i N_ijk x_ij, shape (J, K)."""
    total = np.zeros(instance.rate.shape, dtype=np.int64)
    used = np.flatnonzero(machines)
    np.add.at(total, bins.configuration[used], bins.jobs[used] * machines[used, None])
    return total


def _flows(instance: LotesInstance, bins: Bins, served: NDArray[np.bool_]) -> BinFlows:
    wanted = np.flatnonzero(served)
    held = bins.jobs[:, wanted]
    at, column = np.nonzero(held)
    rate = instance.rate[bins.configuration[at], wanted[column]]
    flow = held[at, column] * rate / instance.classes.share[wanted[column]]
    return BinFlows(bins.configuration, at, column, flow, wanted.size)


def largest_remainder(amounts: FloatArray, total: int) -> NDArray[np.int64]:
    """Integers that sum to `total`, each within one of its amount if the amounts sum to `total`.

    Ties go to the first. If the amounts fall short of the total by more than their count (no row
    required machines), the largest gets the rest.
    """
    # A solver's 2.9999999 is a 3, not a 2 with the largest remainder.
    near = np.round(amounts)
    amounts = np.where(np.abs(amounts - near) < 1e-6, near, amounts)
    whole = np.floor(amounts).astype(np.int64)
    missing = total - int(whole.sum())
    order = np.argsort(-(amounts - whole), kind="stable")
    if missing < 0:
        raise ValueError(f"amounts sum to more than {total}: {amounts.tolist()}")
    whole[order[: min(missing, whole.size)]] += 1
    whole[int(np.argmax(whole))] += max(missing - whole.size, 0)
    return whole


def sustained_rate(
    instance: LotesInstance, in_service: NDArray[np.int64], served: NDArray[np.bool_]
) -> float:
    """Largest lambda that N_jk jobs in service sustain for every served class."""
    if not served.any():
        return 0.0
    flow = (instance.rate * in_service).sum(axis=0)
    return float((flow[served] / instance.classes.share[served]).min())


# The paper rounds thousands of machines over a few bins and loses nothing. With hundreds of classes
# bins get fractions of machines, and a class whose fractions are all rounded down bounds lambda, at
# zero if it has no other bin. Moves inside a configuration return machines to such a class.


@dataclass(frozen=True, slots=True)
class BinFlows:
    """The contribution of a machine of each bin to the lambda of each class: N_ijk mu_jk /
    alpha_k, sparse.

    Attributes
    ----------
    configuration
        Configuration of each bin, shape (B,).
    bin_of, class_of, flow
        Bin, class (0 to `classes`) and lambda of each entry, in order of the bins, shape (E,).
    """

    configuration: NDArray[np.int32]
    bin_of: NDArray[np.int64]
    class_of: NDArray[np.int64]
    flow: FloatArray
    classes: int

    def rates(self, machines: NDArray[np.int64]) -> FloatArray:
        """lambda up to which the machines serve each class, shape (classes,)."""
        total = np.bincount(
            self.class_of, weights=self.flow * machines[self.bin_of], minlength=self.classes
        )
        return np.asarray(total, dtype=np.float64)


def move_machines(machines: NDArray[np.int64], flows: BinFlows) -> NDArray[np.int64]:
    """Move machines one by one to a bin of the class that bounds lambda, while that helps.

    Each move takes the machine whose loss costs least, of the same configuration, so the machines
    per configuration stay the same and lambda, that of the smallest class, never falls.

    Returns
    -------
    ndarray
        Machines of each bin, shape (B,).
    """
    moved = machines.copy()
    rates = flows.rates(moved)
    for _ in range(_MOST_MOVES):
        bound = int(np.argmin(rates))
        move = _best_move(moved, rates, flows, bound)
        if move is None:
            break
        source, target = move
        moved[source] -= 1
        moved[target] += 1
        rates = flows.rates(moved)
    return moved


def _best_move(
    machines: NDArray[np.int64], rates: FloatArray, flows: BinFlows, bound: int
) -> tuple[int, int] | None:
    """Source and target bin of the move with the largest resulting lambda; None if none helps."""
    after = rates[flows.class_of] - flows.flow
    left = np.full(machines.size, np.inf)
    np.minimum.at(left, flows.bin_of, after)
    left[machines == 0] = -np.inf
    entries = np.flatnonzero(flows.class_of == bound)
    best, worth = None, rates[bound] * (1 + _LEAST_GAIN) + _LEAST_GAIN
    for j in np.unique(flows.configuration[flows.bin_of[entries]]):
        here = entries[flows.configuration[flows.bin_of[entries]] == j]
        target = here[int(np.argmax(flows.flow[here]))]
        given = np.where(flows.configuration == j, left, -np.inf)
        source = int(np.argmax(given))
        value = min(float(given[source]), float(rates[bound] + flows.flow[target]))
        if value > worth:
            best, worth = (source, int(flows.bin_of[target])), value
    return best
