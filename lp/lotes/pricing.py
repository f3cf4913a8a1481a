"""Priced mode: bins are columns, each generated as the most valuable bin at the current prices.

At prices y_k per finished job (with sum of alpha_k y_k = 1) no assignment exceeds

    lambda <= sum_j n_j max over bins i of j of sum_k y_k mu_jk N_ijk,

so every round gives a proven bound, and the search ends when the LP reaches it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lp.limits import SolveLimits, WarmStart
from lp.lotes.assignment import Bins, assignment_model, served_by
from lp.lotes.instance import FIT_TOLERANCE, LotesInstance
from lp.result import Basis, FloatArray, Solution, SolveStatus
from lp.solver import solve

_ROUNDS = 500
# An LP over thousands of classes takes seconds: run fewer rounds then; the bound shows the gap.
_CLASS_ROUNDS = 120_000
_FEWEST_ROUNDS = 10
_PATIENCE = 40
_LEAST_GAIN = 1e-5
_FIRST_WORK = 1_000
_MORE_WORK = 10
_WORK = 300_000
_TOLERANCE = 1e-6
MOST_COUNTS = 50_000_000

Counts = NDArray[np.int32]
DEFAULT_LIMIT = 2_000_000

"""Counts (first bins times classes) beyond which pricing is refused: about 2 GB of memory."""


@dataclass(frozen=True, slots=True)
class PricedBins:
    """Bins found by pricing.

    Attributes
    ----------
    bound
        Proven upper limit of lambda per hour over all bins of expected requests.
    rounds
        LPs solved.
    """

    bins: Bins
    bound: float
    rounds: int


def price_bins(
    instance: LotesInstance,
    *,
    ceiling: float = np.inf,
    limits: SolveLimits | None = None,
    work: int = _WORK,
) -> PricedBins:
    """Generate the bins of an optimal machine assignment over every usable pair.

    Parameters
    ----------
    ceiling
        A known upper limit of lambda per hour, such as the allocation LP's.
    work
        Steps of one knapsack search; a search cut short still gives a valid bound.

    Raises
    ------
    TooManyBinsError
        If the first bins, one for each usable pair, would hold more than `MOST_COUNTS` counts.
    RuntimeError
        If the LP cannot be solved.
    """
    _check_size(instance)
    columns = _BinColumns(instance)
    steps, bound = min(_FIRST_WORK, work), ceiling / instance.configurations.machines
    bins = columns.bins()
    rates: list[float] = []
    basis: Basis | None = None
    most = min(_ROUNDS, max(_CLASS_ROUNDS // instance.shape[1], _FEWEST_ROUNDS))
    while columns.served.any() and len(rates) < most and not _has_stalled(rates):
        bins = columns.bins()
        solution = _solve_master(instance, bins, columns.served, limits, basis)
        basis = solution.basis
        proven, found = columns.price(-solution.duals("serve"), steps)
        bound = min(bound, proven)
        rates.append(solution.objective)
        if bound <= solution.objective * (1 + _TOLERANCE):
            break
        if not columns.extend(found):
            if steps == work:
                break
            # Short searches are enough for the early columns; only the last ones need long
            # searches.
            steps = min(steps * _MORE_WORK, work)
    proven_rate = bound * instance.configurations.machines if rates else 0.0
    by_configuration = np.argsort(bins.configuration, kind="stable")
    bins = Bins(bins.configuration[by_configuration], bins.jobs[by_configuration])
    return PricedBins(bins, proven_rate, len(rates))


def _has_stalled(rates: list[float]) -> bool:
    """Whether the long tail of column generation has begun, which gains little."""
    if len(rates) <= _PATIENCE:
        return False
    return rates[-1] - rates[-1 - _PATIENCE] <= _LEAST_GAIN * rates[-1]


def _check_size(instance: LotesInstance) -> None:
    pairs, classes = int(instance.usable.sum()), instance.shape[1]
    if pairs * classes > MOST_COUNTS:
        raise TooManyBinsError(
            f"{classes:,} classes in {pairs:,} usable pairs with machines make bins of "
            f"{pairs * classes:,} counts, more than the limit of {MOST_COUNTS:,}: "
            "merge classes that are the same (a workload or Plan is clustered by itself)"
        )


def _solve_master(
    instance: LotesInstance,
    bins: Bins,
    served: NDArray[np.bool_],
    limits: SolveLimits | None,
    basis: Basis | None,
) -> Solution:
    model, _ = assignment_model(instance, bins, served)
    solution = solve(model, limits, start=WarmStart(basis=_extend_basis(basis, model.column_count)))
    if solution.status is not SolveStatus.OPTIMAL:
        raise RuntimeError(f"the LP over priced bins ended {solution.status.value}")
    return solution


def _extend_basis(basis: Basis | None, columns: int) -> Basis | None:
    """The last basis with the new columns appended at their lower bound."""
    if basis is None:
        return None
    new = np.zeros(columns - basis.columns.size, dtype=np.int8)
    return Basis(np.concatenate([basis.columns, new]), basis.rows)


class _BinColumns:
    """The growing set of distinct bins."""

    def __init__(self, instance: LotesInstance) -> None:
        self.instance = instance
        configurations, classes = instance.configurations, instance.classes
        asks = (classes.request > 0).any(axis=1)
        self._usable = instance.usable & asks
        self._scaled = [
            scaled_requests(capacity, classes.request) for capacity in configurations.capacity
        ]
        self._found: dict[tuple[int, bytes], NDArray[np.int32]] = {}
        for j, usable in enumerate(self._usable):
            nothing = np.zeros(usable.size, dtype=np.int32)
            starts = np.flatnonzero(usable)
            for first in range(starts.size):
                self._add(j, self._topped_up(j, nothing, np.roll(starts, -first)))
            if not starts.size:
                self._add(j, nothing)
        self.served = served_by(instance, self.bins())

    def bins(self) -> Bins:
        """All bins so far in order of discovery."""
        configuration = np.array([j for j, _ in self._found], dtype=np.int32)
        return Bins(configuration, np.stack(list(self._found.values())))

    def price(
        self, duals: FloatArray, work: int
    ) -> tuple[float, list[tuple[int, NDArray[np.int32]]]]:
        """Best bin of each configuration at the prices, and the bound they prove per machine."""
        from lp.lotes.knapsack import best_bin

        price = np.zeros(self.served.size)
        price[self.served] = np.maximum(duals, 0.0)
        # Any normalised prices prove a bound; the LP's prices sum to one only up to rounding.
        price /= price @ self.instance.classes.share
        bound, found = 0.0, []
        configurations = self.instance.configurations
        for j, usable in enumerate(self._usable):
            value = price * self.instance.rate[j]
            wanted = np.flatnonzero(usable & (value > 0))
            if not wanted.size:
                continue
            counts, _, most = best_bin(value[wanted], self._scaled[j][wanted], FIT_TOLERANCE, work)
            bound += most * configurations.count[j] / configurations.machines
            jobs = np.zeros(usable.size, dtype=np.int32)
            jobs[wanted] = counts
            found.append((j, self._topped_up(j, jobs, np.argsort(-value, kind="stable"))))
        return float(bound), found

    def extend(self, found: list[tuple[int, NDArray[np.int32]]]) -> bool:
        """Add bins; return whether any was new."""
        return sum(self._add(j, jobs) for j, jobs in found) > 0

    def _add(self, j: int, jobs: NDArray[np.int32]) -> bool:
        key = j, jobs.tobytes()
        new = key not in self._found
        self._found.setdefault(key, jobs)
        return new

    def _topped_up(
        self, j: int, jobs: NDArray[np.int32], order: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Add jobs of usable classes in the given order until the bin is maximal."""
        from lp.lotes.knapsack import topped_up

        usable = order[self._usable[j][order]]
        return np.asarray(topped_up(jobs, self._scaled[j], usable, FIT_TOLERANCE))


# Only maximal bins matter, those to which no further job can be added. Algorithm 1 as printed can
# produce one of them more than once; `enumerate_bins` gives each exactly once.

"""Counts (partial bins times classes) beyond which enumeration is refused: the LP over that many
bins would take minutes."""


class TooManyBinsError(ValueError):
    """Enumeration would exceed its limit; the message says by how much and what to do."""


def enumerate_bins(
    capacity: FloatArray, request: FloatArray, *, limit: int = DEFAULT_LIMIT
) -> Counts:
    """All maximal bins of one machine, each once.

    Parameters
    ----------
    capacity
        Shape (L,).
    request
        Mean requests of the classes that may run there, shape (K, L).
    limit
        Maximum number of counts (partial bins times classes) in memory.

    Returns
    -------
    ndarray
        Jobs of each class, shape (bins, K), in descending lexicographic order. Classes that do not
        fit have count zero in every bin; if no class fits, the only bin is empty.

    Raises
    ------
    ValueError
        If a class requests no resource (its count would have no limit).
    TooManyBinsError
        If there are more counts than `limit`.
    """
    scaled = scaled_requests(capacity, request)
    if (scaled <= 0).all(axis=1).any():
        raise ValueError("a class that asks for nothing has no maximum count in a bin")
    fitting = np.flatnonzero(how_many(np.ones(capacity.size), scaled) > 0)
    if not fitting.size:
        return np.zeros((1, len(request)), dtype=np.int32)
    bins = np.zeros((1, fitting.size), dtype=np.int32)
    left = np.ones((1, capacity.size))
    # Placing large requests first keeps the number of partial bins small.
    order = np.argsort(-scaled[fitting].max(axis=1), kind="stable")
    for depth, place in enumerate(order):
        need = scaled[fitting[place]]
        most = _how_many_rows(left, need)
        if depth == len(order) - 1:
            bins[:, place] = most
            left = left - most[:, None] * need
            break
        _check_limit(int((most + 1).sum()), fitting.size, limit)
        bins, left = _branch(bins, left, most, int(place), need)
    maximal = np.ones(len(bins), dtype=np.bool_)
    for index in fitting:
        maximal &= _how_many_rows(left, scaled[index]) == 0
    full = np.zeros((int(maximal.sum()), len(request)), dtype=np.int32)
    full[:, fitting] = bins[maximal]
    return full[np.lexsort(-full.T[::-1])]


def scaled_requests(capacity: FloatArray, request: FloatArray) -> FloatArray:
    """Requests as fractions of a machine, shape (K, L); infinite if it lacks the resource."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(request > 0, request / capacity, 0.0))


def how_many(left: FloatArray, scaled: FloatArray) -> NDArray[np.int64]:
    """Jobs of each class that fit the free capacity of one machine, shape (K,) for (L,), (K, L)."""
    with np.errstate(divide="ignore"):
        count = np.where(scaled > 0, (left + FIT_TOLERANCE) / scaled, math.inf).min(axis=1)
    return np.asarray(np.floor(count + FIT_TOLERANCE), dtype=np.int64)


def _how_many_rows(left: FloatArray, scaled: FloatArray) -> NDArray[np.int64]:
    """Jobs of one class, request (L,), that fit the free capacity of each machine, (n, L)."""
    asked = scaled > 0
    count = ((left[:, asked] + FIT_TOLERANCE) / scaled[asked]).min(axis=1)
    return np.asarray(np.floor(count + FIT_TOLERANCE), dtype=np.int64)


def _branch(
    bins: Counts, left: FloatArray, most: NDArray[np.int64], place: int, need: FloatArray
) -> tuple[Counts, FloatArray]:
    """Extend every partial bin by 0 to `most` jobs of one class."""
    parent = np.repeat(np.arange(len(bins)), most + 1)
    first = np.repeat(np.cumsum(most + 1) - (most + 1), most + 1)
    count = np.arange(len(parent)) - first
    branched = bins[parent]
    branched[:, place] = count
    return branched, left[parent] - count[:, None] * need


def _check_limit(partial: int, classes: int, limit: int) -> None:
    if partial * classes > limit:
        raise TooManyBinsError(
            f"at least {partial} partial bins of {classes} classes on one machine, more than the "
            f"limit of {limit} counts: use the priced mode, which builds only the bins it needs"
        )
