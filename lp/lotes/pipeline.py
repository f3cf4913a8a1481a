"""The offline stages in one call, with all intermediate results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lp.limits import SolveLimits
from lp.lotes.allocation import Allocation, allocate
from lp.lotes.assignment import Assignment, Bins, assign
from lp.lotes.dispatch_table import DispatchTable, Wheel, dispatch_table
from lp.lotes.instance import LotesInstance, Unserved
from lp.lotes.pricing import DEFAULT_LIMIT, enumerate_bins, price_bins

Mode = Literal["paper", "paired", "priced"]


@dataclass(frozen=True, slots=True)
class LotesOptions:
    """Settings of the offline stages.

    Attributes
    ----------
    mode
        `paper`: bins enumerated over the pairs of a canonical vertex of stage 1. `paired`: bins
        priced over the same pairs, which gives the same lambda if those bins are too many to
        enumerate. `priced`: bins priced over every usable pair; never a smaller lambda.
    solver
        For the LPs of both stages; pricing itself needs duals and always uses HiGHS.
    """

    mode: Mode = "priced"
    wheel: Wheel = "delta"
    solver: str = "highs"
    limits: SolveLimits | None = None
    bin_limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class RateAnswer:
    """The effect of an arrival rate on the machines.

    Attributes
    ----------
    load
        The rate divided by the sustained rate; above one a queue grows. None: no arrival rate is
        sustainable.
    served_per_h
        Jobs served per hour; the others wait in a growing queue.
    tightest
        The class whose queue grows first; None if nothing limits the rate.
    in_service
        Mean number of running jobs of each class.
    used
        Share of each resource of the cluster that they use.
    """

    rate_per_h: float
    load: float | None
    served_per_h: float
    tightest: str | None
    in_service: dict[str, float]
    used: dict[str, float]

    @property
    def growth_per_h(self) -> float:
        """Growth of the queue, jobs per hour."""
        return self.rate_per_h - self.served_per_h

    def to_json(self) -> dict[str, object]:
        """Rates in jobs per second, as in the command's output."""
        return {
            "rate": self.rate_per_h / 3600,
            "load": self.load,
            "served": self.served_per_h / 3600,
            "growth": self.growth_per_h / 3600,
            "tightest": self.tightest,
            "in_service": self.in_service,
            "used": self.used,
        }


@dataclass(frozen=True, slots=True)
class LotesResult:
    """Every stage of one run.

    Attributes
    ----------
    bound
        Proven upper limit of lambda per hour at mean requests: over all bins in priced mode, over
        the bins of the pairs in paired mode, of the fluid model in paper mode.
    """

    instance: LotesInstance
    mode: Mode
    allocation: Allocation
    assignment: Assignment
    table: DispatchTable
    bound: float

    @property
    def arrival_rate(self) -> float:
        """lambda* per hour, after rounding."""
        return self.assignment.arrival_rate

    @property
    def classes_without_machine(self) -> tuple[Unserved, ...]:
        """Classes that no machine can serve; their own rate is zero."""
        return self.allocation.unserved

    def class_rates(self) -> dict[str, float]:
        """Arrivals per hour of each class at lambda*; zero for classes without a bin."""
        held = (self.assignment.in_service * self.instance.rate).sum(axis=0) > 0
        free = np.isin(np.array(self.instance.classes.names), list(self.allocation.free))
        rates = np.where(held | free, self.arrival_rate * self.instance.classes.share, 0.0)
        return dict(zip(self.instance.classes.names, rates.tolist(), strict=True))

    def load(self, arrivals_per_h: float) -> float | None:
        """An arrival rate divided by lambda*; above one a queue grows without limit.

        None if some class that arrives has no machine, so that no arrival rate is sustainable.
        """
        return arrivals_per_h / self.arrival_rate if self.arrival_rate > 0 else None

    def at_rate(self, arrivals_per_h: float) -> RateAnswer:
        """Return the effect of this many jobs per hour of this mix on these machines.

        Parameters
        ----------
        arrivals_per_h
            Not negative.
        """
        instance, held = self.instance, self.assignment.in_service
        served = min(arrivals_per_h, self.arrival_rate)
        asked = instance.classes.share > 0
        done = (held * instance.rate).sum(axis=0)
        sustained = np.divide(done, instance.classes.share, out=np.zeros(done.shape), where=asked)
        free = np.isin(np.array(instance.classes.names), list(self.allocation.free))
        binding = np.flatnonzero(asked & ~free)
        tightest = binding[np.argmin(sustained[binding])] if len(binding) else None
        # Little's law: jobs in service of each pair = its arrival rate times its service time.
        arrivals = served * instance.classes.share * self.table.wheel
        running = np.divide(
            arrivals, instance.rate, out=np.zeros(arrivals.shape), where=instance.rate > 0
        )
        whole = instance.configurations.count @ instance.configurations.capacity
        used = running.sum(axis=0) @ instance.classes.request
        names = instance.configurations.resources
        return RateAnswer(
            arrivals_per_h,
            self.load(arrivals_per_h),
            served,
            None if tightest is None else instance.classes.names[tightest],
            dict(zip(instance.classes.names, running.sum(axis=0).tolist(), strict=True)),
            {name: float(used[at] / whole[at]) for at, name in enumerate(names) if whole[at] > 0},
        )

    def explain(self) -> list[str]:
        """Lines of text: lambda at each stage, pairs, bins in use, classes left out."""
        names = self.instance.configurations.names
        lines = [
            f"allocation LP: {self.allocation.arrival_rate:,.0f} jobs/h (fluid bound)",
            f"assignment LP: {self.assignment.relaxed_rate:,.0f} jobs/h over "
            f"{len(self.assignment.bins.jobs)} bins ({self.mode})",
            f"rounded:       {self.arrival_rate:,.0f} jobs/h on {self.table.machines:,} machines",
        ]
        for j, name in enumerate(names):
            here = self.assignment.bins.configuration == j
            for jobs, machines in zip(
                self.assignment.bins.jobs[here], self.assignment.machines[here], strict=True
            ):
                if machines:
                    lines.append(f"  {name}: {machines:,} machines emulate {jobs.tolist()}")
        lines += [
            f"class {left.name!r} gets nothing: {left.reason}"
            + (
                f" (nearest: {left.nearest}, {left.shortfall:.2f} of it)"
                if np.isfinite(left.shortfall)
                else ""
            )
            for left in self.classes_without_machine
        ]
        return lines

    def to_json(self) -> dict[str, object]:
        """Every stage, ready for JSON."""
        return {
            "mode": self.mode,
            "arrival_rate_per_h": {
                "allocation": self.allocation.arrival_rate,
                "bound": self.bound,
                "assignment": self.assignment.relaxed_rate,
                "rounded": self.arrival_rate,
            },
            "classes": list(self.instance.classes.names),
            "class_rates_per_h": self.class_rates(),
            "configurations": list(self.instance.configurations.names),
            "in_service": {
                "allocation": self.allocation.in_service.tolist(),
                "assignment": self.assignment.in_service.tolist(),
            },
            "share": self.allocation.share.tolist(),
            "pairs": self.allocation.pairs.tolist(),
            "bins": len(self.assignment.bins.jobs),
            "table": self.table.to_json(),
            "unserved": [
                {
                    "class": left.name,
                    "reason": left.reason,
                    "nearest": left.nearest,
                    "shortfall": left.shortfall if np.isfinite(left.shortfall) else None,
                }
                for left in self.classes_without_machine
            ],
            "free": list(self.allocation.free),
            "solves": [solution.to_json() for solution in self.allocation.solutions],
        }


def plan_lotes(instance: LotesInstance, options: LotesOptions | None = None) -> LotesResult:
    """Run the allocation LP, the bins, the machine-assignment LP and the rounding.

    Raises
    ------
    TooManyBinsError
        If paper mode would enumerate more bins than `options.bin_limit`.
    ValueError
        If no class that arrives requests any resource.
    """
    options = options or LotesOptions()
    allocation = allocate(instance, solver=options.solver, limits=options.limits)
    bound = allocation.arrival_rate
    if options.mode == "paper":
        bins = paired_bins(instance, allocation, limit=options.bin_limit)
    else:
        usable = instance if options.mode == "priced" else _paired_only(instance, allocation)
        priced = price_bins(usable, ceiling=bound, limits=options.limits)
        bins, bound = priced.bins, priced.bound
    assignment = assign(instance, bins, solver=options.solver, limits=options.limits)
    table = dispatch_table(instance, assignment, wheel=options.wheel)
    return LotesResult(instance, options.mode, allocation, assignment, table, bound)


def _paired_only(instance: LotesInstance, allocation: Allocation) -> LotesInstance:
    """Return the instance in which a class may run only where stage 1 paired it."""
    return replace(instance, rate=np.where(allocation.pairs, instance.rate, 0.0))


def paired_bins(
    instance: LotesInstance, allocation: Allocation, *, limit: int = DEFAULT_LIMIT
) -> Bins:
    """All maximal bins of the classes that stage 1 paired with each configuration."""
    found = []
    for j, capacity in enumerate(instance.configurations.capacity):
        paired = np.flatnonzero(allocation.pairs[j])
        bins = enumerate_bins(capacity, instance.classes.request[paired], limit=limit)
        full = np.zeros((len(bins), instance.shape[1]), dtype=np.int32)
        full[:, paired] = bins
        found.append(full)
    return Bins.of(found)
