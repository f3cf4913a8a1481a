"""What re-solving LoTES on a sliding window gains over classes learnt once.

The paper fixes classes on the first day and leaves drift to future work. Here the same trace runs
several times on the same machines: with the plan of the first hours to the end, and with plans
renewed every few hours from the arrivals of the last ones in the ways of `Renewal`; running and
waiting jobs are classed anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from dispatch.machines.placement.state import Machines
from dispatch.simulation.experiments.lotes.tables import Loads, LotesRow, LotesTable, row_of
from dispatch.simulation.machine_level.measures import SimulationOptions, SimulationResult
from dispatch.simulation.machine_level.simulator import MachineSimulator
from dispatch.simulation.machine_level.traces import TraceJobs
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.job_classes import fit_job_classes, with_mix
from lp.lotes.pipeline import LotesOptions, LotesResult, plan_lotes

Renewal = Literal["classes", "shares", "known shares"]
"""New clusters; the first clusters with the shares and times of the last hours; or with those of
the hours to come, which nobody could know: what the best forecast would gain."""

NAMES: Final[dict[Renewal, str]] = {
    "classes": "lotes",
    "shares": "the same classes, new shares",
    "known shares": "the same classes, shares of the hours to come",
}


@dataclass(frozen=True, slots=True)
class DriftOptions:
    """How often to renew, and from how much of the past.

    Attributes
    ----------
    every_h
        Hours between renewals; each is a row of its own.
    renewals
        What is renewed; each is a policy of its own.
    least_gain
        With `shares`: keep the table unless a new one sustains more by this share.
    window_h
        Arrivals that a renewal learns from.
    part, start_all_h
        As in `TraceOptions`: what a seed draws, and time after the end for every job to start.
    """

    every_h: tuple[float, ...] = (1.0, 2.0, 4.0)
    renewals: tuple[Renewal, ...] = ("classes", "shares", "known shares")
    least_gain: float = 0.0
    window_h: float = 5.0
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: float = 0.5
    start_all_h: float = 200.0
    lotes: LotesOptions = field(default_factory=LotesOptions)


def lotes_drift(
    machines: MachineConfigurations, jobs: TraceJobs, options: DriftOptions | None = None
) -> LotesTable:
    """Static classes against renewed ones on one trace; `setting["every_h"]` is 0 for static."""
    options = options or DriftOptions()
    rows: list[LotesRow] = []
    some = machines.with_share(options.part)
    for seed in options.seeds:
        rng = np.random.default_rng((seed, 53))
        drawn = jobs.random_part(options.part, rng) if options.part < 1 else jobs
        first = _plan(some, _fit(drawn, _first_window(drawn, options), seed), options)
        loads = Loads(drawn.rate_per_h, *[first.assignment.relaxed_rate] * 2)
        for renewal, every_h in _ways(options):
            run = _DriftSide(some, drawn, renewal, every_h, seed, first)
            name = NAMES[renewal]
            rows.append(row_of(_simulate(run, options), {"every_h": every_h}, seed, loads, name))
    notes: dict[str, object] = {
        "window_h": options.window_h,
        "machines": some.machines,
        "part": options.part,
    }
    return LotesTable("lotes-drift", tuple(rows), notes)


@dataclass(frozen=True, slots=True)
class _DriftSide:
    """One side of the comparison: `every_h` is 0 where nothing is renewed."""

    machines: MachineConfigurations
    jobs: TraceJobs
    renewal: Renewal
    every_h: float
    seed: int
    first: LotesResult


def _ways(options: DriftOptions) -> Iterator[tuple[Renewal, float]]:
    yield "classes", 0.0
    for renewal in options.renewals:
        for every_h in options.every_h:
            yield renewal, every_h


def _simulate(run: _DriftSide, options: DriftOptions) -> SimulationResult:
    jobs, planned = run.jobs, run.first
    now, end = float(jobs.arrival_h[0]), float(jobs.arrival_h[-1])
    simulator = MachineSimulator(
        Machines(run.machines.count, run.machines.capacity),
        np.ones(planned.table.wheel.shape),
        "lotes",
        planned.table,
        SimulationOptions(interval_h=1.0, horizon_h=end + 1.0, start_all_h=options.start_all_h),
    )
    rng = np.random.default_rng(run.seed)
    # The first plan is its window's own; renewals begin after it.
    until = now + options.window_h if run.every_h else np.inf
    while True:
        chunk = jobs.between(now, until).with_classes(planned.instance.classes)
        simulator.feed(chunk, rng.random(chunk.arrival_h.size))
        if until > end:
            break
        now, until = until, until + run.every_h
        renewed = _plan_from(run, planned, now, options)
        if renewed is not planned:
            planned = renewed
            simulator.retarget(planned.table, planned.instance.classes)
    simulator.start_all(options.start_all_h)
    return simulator.result()


def _plan_from(
    run: _DriftSide, planned: LotesResult, now_h: float, options: DriftOptions
) -> LotesResult:
    """The plan from `now_h` on: a new one, or the one that there is."""
    if run.renewal == "classes":
        window = (now_h - options.window_h, now_h)
        classes = _fit(run.jobs, window, run.seed)
        return _plan(run.machines, classes, options)
    ahead = run.renewal == "known shares"
    window = (now_h, now_h + run.every_h) if ahead else (now_h - options.window_h, now_h)
    sample = run.jobs.sample(*window)
    if sample.jobs == 0:
        return planned
    classes = with_mix(run.first.instance.classes, sample)
    new = _plan(run.machines, classes, options)
    enough = planned.table.rate_for(classes) * (1.0 + options.least_gain)
    return new if options.least_gain == 0 or new.arrival_rate > enough else planned


def _first_window(jobs: TraceJobs, options: DriftOptions) -> tuple[float, float]:
    start = float(jobs.arrival_h[0])
    return start, start + options.window_h


def _fit(jobs: TraceJobs, window: tuple[float, float], seed: int) -> JobClasses:
    return fit_job_classes(jobs.sample(*window), np.random.default_rng(seed))


def _plan(
    machines: MachineConfigurations, classes: JobClasses, options: DriftOptions
) -> LotesResult:
    return plan_lotes(LotesInstance.of(machines, classes), options.lotes)
