"""LoTES section 5.3 on real machines and tasks: three runs, three policies.

`initial`: the tasks that were there when the trace starts arrive at 0, as the paper has it.
`empty`: the cluster starts empty; arrivals are as they are. `scaled`: empty, with a share of the
machines in their proportions, so that there is something to schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dispatch.placement.interface import Policy
from dispatch.placement.state import Machines
from dispatch.simulation.experiments.lotes_tables import Loads, LotesRow, LotesTable, row_of
from dispatch.simulation.machine_level.simulator import SimulationOptions, simulate
from dispatch.simulation.machine_level.traces import (
    GOOGLE_WINDOW_S,
    TraceJobs,
    read_google_machines,
    read_google_tasks,
)
from dispatch.simulation.machine_level.workload import TraceWorkload
from lp.lotes.instance import LotesInstance, MachineConfigurations
from lp.lotes.job_classes import fit_job_classes
from lp.lotes.pipeline import LotesOptions, LotesResult, plan_lotes


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Which runs, and how classes are learnt.

    Attributes
    ----------
    shares
        Shares of the machines of the `scaled` runs.
    learning_h
        Classes come from the arrivals of the first hours of each run.
    """

    runs: tuple[str, ...] = ("initial", "empty", "scaled")
    shares: tuple[float, ...] = (0.15, 0.125)
    policies: tuple[Policy, ...] = ("lotes", "tetris", "greedy")
    seeds: tuple[int, ...] = (1,)
    learning_h: float = 5.0
    interval_h: float = 1.0
    tetris_hours: float = 1.0
    work_conserving: bool = False
    # The paper's pairing: it reserves machines, which shortens waits (docs/lotes.md).
    lotes: LotesOptions = field(default_factory=lambda: LotesOptions(mode="paper"))


def lotes_trace(folder: Path, options: TraceOptions | None = None) -> LotesTable:
    """Run section 5.3 on the Google 2011 trace.

    Parameters
    ----------
    folder
        Holds `machines.csv.gz` and `tasks_0_70756s.csv.gz`.

    Raises
    ------
    ValueError
        If a file lacks a column or holds a malformed row.
    """
    options = options or TraceOptions()
    machines, tasks = read_google_machines(folder), read_google_tasks(folder)
    later = tasks.after(0.0)
    rows: list[LotesRow] = []
    for run in options.runs:
        if run == "initial":
            rows += _run({"run": run, "machines": 1.0}, machines, tasks, options)
        elif run == "empty":
            rows += _run({"run": run, "machines": 1.0}, machines, later, options)
        else:
            for share in options.shares:
                some = machines.scaled(share)
                rows += _run({"run": run, "machines": share}, some, later, options)
    notes: dict[str, object] = {
        "tasks": tasks.jobs,
        "tasks_at_start": tasks.jobs - later.jobs,
        "dropped": tasks.dropped,
        "mode": options.lotes.mode,
        "window_h": GOOGLE_WINDOW_S / 3600,
        "work_load": work_load(machines, later),
    }
    return LotesTable("lotes-trace", tuple(rows), notes)


def work_load(machines: MachineConfigurations, jobs: TraceJobs) -> list[float]:
    """Work of the jobs over capacity in the window, by resource."""
    work = (jobs.request * (jobs.hours * jobs.weight)[:, None]).sum(axis=0)
    total = (machines.capacity * machines.count[:, None]).sum(axis=0)
    return [float(load) for load in work / total / (GOOGLE_WINDOW_S / 3600)]


def _run(
    setting: dict[str, float | str],
    machines: MachineConfigurations,
    jobs: TraceJobs,
    options: TraceOptions,
) -> list[LotesRow]:
    rows = []
    for seed in options.seeds:
        planned = _planned(machines, jobs, options, seed)
        classes = planned.instance.classes
        workload = TraceWorkload(jobs.classified(classes), len(classes.names))
        sustained = planned.assignment.relaxed_rate
        loads = Loads(jobs.rate_per_h, sustained, sustained)
        for policy in options.policies:
            result = simulate(
                Machines(machines.count, machines.capacity),
                workload,
                policy,
                np.random.default_rng(seed),
                table=planned.table,
                options=SimulationOptions(
                    interval_h=options.interval_h,
                    tetris_hours=options.tetris_hours,
                    work_conserving=options.work_conserving,
                    horizon_h=GOOGLE_WINDOW_S / 3600,
                ),
            )
            rows.append(row_of(result, setting, seed, loads))
    return rows


def _planned(
    machines: MachineConfigurations, jobs: TraceJobs, options: TraceOptions, seed: int
) -> LotesResult:
    first = jobs.sample(end_h=float(jobs.arrival_h[0]) + options.learning_h)
    classes = fit_job_classes(first, np.random.default_rng(seed))
    return plan_lotes(LotesInstance.of(machines, classes), options.lotes)
