"""The metrics of a plan (Rayon 6.3), defined exactly.

Value counts accepted work; `falls` sums decreases of allocations (Rayon's preemption); uniformity
compares the spread of utilisation with its mean. Everything but the runtime depends only on the
plan, not on the order of its reservations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.placement import PlacementResult, atoms_held
from planner.request import Request
from planner.value import PriceList, relative_gap, size_of, worth_of
from rdl.compile.civil_time import ORIGIN, window_ms
from rdl.expressions import Window
from rdl.resources import CPU, MEMORY, Resources
from rdl.time_grid import TimeGrid, TimeGridError

#: int64[n, 3]: first step, first step past the last, bundles; sorted and merged.
Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of one request, as input of the metrics.

    Attributes
    ----------
    weight
        Factor of the value, 0 or more.
    size
        Work x dominant share over the atoms of the first options (`planner.value.size_of`).
    accepted
        Whether its reservation is accepted, active, completed or cancelled; False for degraded or
        failed ones, and for refusals.
    worth
        Worth of the chosen options, at most 1 (`planner.value.worth_of`).
    held
        (bundle, rows) of every atom, one entry per occurrence.
    """

    weight: float
    size: float
    accepted: bool
    worth: float = 1.0
    held: tuple[tuple[Resources, Rows], ...] = ()


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of a plan, as files.md describes them.

    Attributes
    ----------
    runtime_ms
        Milliseconds of planning; the only figure that differs between two runs.
    acceptance
        Accepted value / requested value with every preference 1; None if nothing of value is
        requested.
    accepted, requests
        Counts.
    falls
        Sum over atoms and steps of max(0, x(t-1) - x(t)), last falls included (bundles).
    falls_inner
        The same without the last fall of each atom.
    uniformity
        Standard deviation / mean, over [0, horizon), of the utilisation of the most used resource;
        None if the mean is 0.
    value
        Sum over accepted requests of weight x size x worth.
    bound
        Upper bound on the value of any plan of the same requests: the solver's, else a quick one.
    gap
        (bound - value) / bound, 0 if nothing more can be accepted, None without a bound.
    status
        Status of the agent's answer.
    cost
        Sum over steps of work x price factor, in steps of the whole cluster; None if the cluster
        has no prices.
    machine_loss
        Loss by promises on machines: 1 - value / value of the agent's plan before its bundles were
        assigned to machines; negative if more requests were admitted. None without such promises.
    """

    runtime_ms: float
    acceptance: float | None
    accepted: int
    requests: int
    falls: int
    falls_inner: int
    uniformity: float | None
    value: float
    bound: float | None = None
    gap: float | None = None
    status: str = "placed"
    cost: float | None = None
    machine_loss: float | None = None

    def with_bound(self, bound: float, status: str) -> Metrics:
        """Return the figures with a proven bound, and the gap to it."""
        return replace(self, bound=bound, gap=relative_gap(self.value, bound), status=status)

    def to_json(self) -> dict[str, object]:
        """Return the ``metrics`` of a plan file; rounded so that the text is stable and short.

        ``cost`` is present only with prices, ``machine_loss`` only if machines are promised.
        """
        further = {"cost": self.cost, "machine_loss": self.machine_loss}
        return {
            "runtime_ms": round(self.runtime_ms, 1),
            "acceptance": _short(self.acceptance),
            "accepted": self.accepted,
            "requests": self.requests,
            "falls": self.falls,
            "falls_inner": self.falls_inner,
            "uniformity": None if self.uniformity is None else round(self.uniformity, 3),
            "value": _short(self.value),
            "bound": _short(self.bound),
            "gap": _short(self.gap),
            "status": self.status,
            **{name: _short(known) for name, known in further.items() if known is not None},
        }


def measure(
    outcomes: Iterable[RequestOutcome],
    nominal: Resources,
    horizon: int,
    *,
    runtime_ms: float = 0.0,
    bound: float | None = None,
    status: str = "placed",
    prices: PriceList | None = None,
) -> Metrics:
    """Return the metrics of a plan.

    Parameters
    ----------
    outcomes
        One for each request, reservations and refusals alike.
    nominal
        Capacity of all machines without outages.
    horizon
        Steps over which to compute uniformity.
    runtime_ms, bound, status
        As reported by the agent.
    prices
        Prices of each step, if the cluster has any.
    """
    every = list(outcomes)
    taken = [outcome for outcome in every if outcome.accepted]
    asked = math.fsum(outcome.weight * outcome.size for outcome in every)
    value = math.fsum(outcome.weight * outcome.size * outcome.worth for outcome in taken)
    held = [atom for outcome in every for atom in outcome.held if len(atom[1])]
    falls, inner = count_falls(rows for _, rows in held)
    return Metrics(
        runtime_ms=runtime_ms,
        acceptance=value / asked if asked > 0 else None,
        accepted=len(taken),
        requests=len(every),
        falls=falls,
        falls_inner=inner,
        uniformity=uniformity(held, nominal, horizon),
        value=value,
        bound=bound,
        gap=None if bound is None else relative_gap(value, bound),
        status=status,
        cost=None if prices is None else prices.cost(held, nominal),
    )


@dataclass(frozen=True, slots=True)
class WorkFigures:
    """Work and times of the accepted requests of a plan file, in absolute units.

    Attributes
    ----------
    hours
        Reserved work by resource: core-hours, GiB-hours of memory, else unit-hours.
    utilisation
        By resource: its share of the capacity of all machines over the horizon, without outages.
    wait_mean_s, wait_p95_s
        Seconds from submission to the start of the allocation; None if nothing is accepted.
    late_mean_s, late_p95_s
        Seconds from the end of the outermost window to the end of the allocation, negative if it
        ends earlier; None if no accepted request has a window around it.
    """

    hours: Mapping[str, float]
    utilisation: Mapping[str, float]
    wait_mean_s: float | None
    wait_p95_s: float | None
    late_mean_s: float | None = None
    late_p95_s: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON."""
        return {
            "hours": {name: _short(amount) for name, amount in self.hours.items()},
            "utilisation": {name: _short(share) for name, share in self.utilisation.items()},
            "wait_mean_s": _short(self.wait_mean_s),
            "wait_p95_s": _short(self.wait_p95_s),
            "late_mean_s": _short(self.late_mean_s),
            "late_p95_s": _short(self.late_p95_s),
        }


#: Smallest units of a resource per unit of its hours; 1 for all others.
_UNIT_SIZES: Final = {CPU: 1000, MEMORY: 1024}


def work_figures(
    reservations: Iterable[Mapping[str, Any]],
    nominal: Resources,
    grid: TimeGrid,
) -> WorkFigures:
    """Return the figures of the ``reservations`` of a plan file; `grid` is that of its cluster."""
    amounts, waits, late = dict.fromkeys(nominal, 0.0), list[float](), list[float]()
    for one in reservations:
        starts: list[float] = []
        for atom in one["atoms"]:
            bundle = Resources.from_json(atom["bundle"])
            seconds = math.fsum((end - start) * n for start, end, n in atom["allocation"])
            starts += [row[0] for row in atom["allocation"]]
            for name, amount in bundle.items():
                amounts[name] = amounts.get(name, 0.0) + amount * seconds
        if starts:
            waits.append(min(starts) - one["submitted"])
            deadline_s = _deadline_s(one, grid)
            if deadline_s is not None:
                end = max(row[1] for atom in one["atoms"] for row in atom["allocation"])
                late.append(end - deadline_s)
    whole_s = grid.horizon_ms / 1000
    return WorkFigures(
        {name: amount / _UNIT_SIZES.get(name, 1) / 3600 for name, amount in amounts.items()},
        {name: amounts[name] / (whole * whole_s) for name, whole in nominal.items() if whole},
        *_mean_and_p95(waits),
        *_mean_and_p95(late),
    )


def _mean_and_p95(seconds: Sequence[float]) -> tuple[float | None, float | None]:
    if not seconds:
        return None, None
    return math.fsum(seconds) / len(seconds), float(np.percentile(seconds, 95))


def _deadline_s(reservation: Mapping[str, Any], grid: TimeGrid) -> float | None:
    """Return the end of the window around a whole request, in seconds from the origin."""
    from rdl.compile.source import read_source

    expression = read_source(reservation["expression"])
    if not isinstance(expression, Window):
        return None
    submitted_ms = round(1000 * reservation["submitted"])
    try:
        return window_ms(expression, ORIGIN, grid, submitted_ms)[1] / 1000
    except TimeGridError:
        return None  # a plan without a calendar has no such time


def count_falls(atoms: Iterable[Rows]) -> tuple[int, int]:
    """Return the sum of all falls, and of all but the last of each atom, in bundles.

    Allocations start and end at 0, so the sum of falls of an atom is the sum of its rises.
    """
    falls = last = 0
    for rows in atoms:
        heights = rows[:, 2]
        # Height just before each row: that of the previous row if they are adjacent, else 0.
        before = np.where(rows[1:, 0] == rows[:-1, 1], heights[:-1], 0)
        falls += int(heights[0]) + int(np.maximum(heights[1:] - before, 0).sum())
        last += int(heights[-1])
    return falls, falls - last


def uniformity(
    held: Sequence[tuple[Resources, Rows]], nominal: Resources, horizon: int
) -> float | None:
    """Return standard deviation / mean of the utilisation of the most used resource.

    Utilisation is relative to nominal capacity; the resource is the one with the largest mean (the
    first by name of equals). None if nothing is used.
    """
    best: tuple[float, NDArray[np.float64]] | None = None
    for resource, capacity in nominal.items():
        change = np.zeros(horizon + 1, dtype=np.int64)
        for bundle, rows in held:
            amount = bundle.get(resource, 0)
            if amount:
                np.add.at(change, np.clip(rows[:, 0], 0, horizon), rows[:, 2] * amount)
                np.add.at(change, np.clip(rows[:, 1], 0, horizon), -rows[:, 2] * amount)
        used = np.cumsum(change[:-1]) / capacity
        mean = float(used.mean())
        if mean > 0 and (best is None or mean > best[0]):
            best = mean, used
    return None if best is None else float(best[1].std()) / best[0]


def outcome_of(request: Request, result: PlacementResult, reference: Resources) -> RequestOutcome:
    """Return the outcome of a request from an agent's answer."""
    graph = request.graph
    size = size_of(graph, reference)
    if not result.placed:
        return RequestOutcome(request.weight, size, accepted=False)
    held = tuple(atoms_held(graph, result))
    worth = worth_of(graph, result.choices, reference)
    return RequestOutcome(request.weight, size, accepted=True, worth=worth, held=held)


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.12g}")
