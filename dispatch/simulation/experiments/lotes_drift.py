"""What re-solving LoTES on a sliding window gains over classes learnt once.

The paper fixes classes on the first day and leaves drift to future work. Here the same trace runs
twice on the same machines: with the plan of the first hours to the end, and with classes, LPs and
table renewed every few hours from the arrivals of the last ones; running and waiting jobs are
classed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dispatch.placement.state import Machines
from dispatch.simulation.experiments.lotes_tables import Loads, LotesRow, LotesTable, row_of
from dispatch.simulation.machine_level.measures import SimulationOptions, SimulationResult
from dispatch.simulation.machine_level.simulator import MachineSimulator
from dispatch.simulation.machine_level.traces import TraceJobs
from lp.lotes.instance import LotesInstance, MachineConfigurations
from lp.lotes.job_classes import fit_job_classes
from lp.lotes.pipeline import LotesOptions, LotesResult, plan_lotes


@dataclass(frozen=True, slots=True)
class DriftOptions:
    """How often to renew, and from how much of the past.

    Attributes
    ----------
    every_h
        Hours between renewals; each is a row of its own.
    window_h
        Arrivals that a renewal learns from.
    part, start_all_h
        As in `TraceOptions`: what a seed draws, and time after the end for every job to start.
    """

    every_h: tuple[float, ...] = (1.0, 2.0, 4.0)
    window_h: float = 5.0
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: float = 0.5
    start_all_h: float = 200.0
    # Renewed clusterings reach a dozen classes, more than bins can be enumerated for.
    lotes: LotesOptions = field(default_factory=LotesOptions)


def lotes_drift(
    machines: MachineConfigurations, jobs: TraceJobs, options: DriftOptions | None = None
) -> LotesTable:
    """Static classes against renewed ones on one trace; `setting["every_h"]` is 0 for static."""
    options = options or DriftOptions()
    rows: list[LotesRow] = []
    some = machines.scaled(options.part)
    for seed in options.seeds:
        rng = np.random.default_rng((seed, 53))
        drawn = jobs.thinned(options.part, rng) if options.part < 1 else jobs
        for every_h in (0.0, *options.every_h):
            result, first = _run(some, drawn, every_h, options, seed)
            sustained = first.assignment.relaxed_rate
            loads = Loads(drawn.rate_per_h, sustained, sustained)
            rows.append(row_of(result, {"every_h": every_h}, seed, loads))
    notes: dict[str, object] = {
        "window_h": options.window_h,
        "machines": some.machines,
        "part": options.part,
    }
    return LotesTable("lotes-drift", tuple(rows), notes)


def _run(
    machines: MachineConfigurations,
    jobs: TraceJobs,
    every_h: float,
    options: DriftOptions,
    seed: int,
) -> tuple[SimulationResult, LotesResult]:
    start, end = float(jobs.arrival_h[0]), float(jobs.arrival_h[-1])
    first = _planned(machines, jobs, start, start + options.window_h, options, seed)
    simulator = MachineSimulator(
        Machines(machines.count, machines.capacity),
        np.ones(first.table.wheel.shape),
        "lotes",
        first.table,
        SimulationOptions(interval_h=1.0, horizon_h=end + 1.0, start_all_h=options.start_all_h),
    )
    rng = np.random.default_rng(seed)
    planned, now = first, start
    while now <= end:
        # The first plan is the window's own; renewals begin after it.
        if every_h == 0.0:
            until = np.inf
        else:
            until = start + options.window_h if now == start else now + every_h
        inside = (jobs.arrival_h >= now) & (jobs.arrival_h < until)
        part = TraceJobs(
            jobs.arrival_h[inside], jobs.hours[inside], jobs.request[inside], jobs.weight[inside], 0
        )
        chunk = part.classified(planned.instance.classes)
        simulator.feed(chunk, rng.random(chunk.arrival_h.size))
        now = until
        if now <= end:
            planned = _planned(machines, jobs, now - options.window_h, now, options, seed)
            simulator.retarget(planned.table, planned.instance.classes)
    simulator.start_all(options.start_all_h)
    return simulator.result(), first


def _planned(
    machines: MachineConfigurations,
    jobs: TraceJobs,
    start_h: float,
    end_h: float,
    options: DriftOptions,
    seed: int,
) -> LotesResult:
    classes = fit_job_classes(jobs.sample(start_h, end_h), np.random.default_rng(seed))
    return plan_lotes(LotesInstance.of(machines, classes), options.lotes)
