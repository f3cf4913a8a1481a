"""LoTES section 5.3 on real machines and tasks: three runs, each by every variant.

`initial`: the tasks that were there when the trace starts arrive at 0, as the paper has it.
`empty`: the cluster starts empty; arrivals are as they are. `scaled`: empty, with a share of the
machines in their proportions, so that there is something to schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dispatch.simulation.experiments.lotes.tables import Loads, LotesRow, LotesTable, row_of
from dispatch.simulation.experiments.lotes.variants import (
    GREEDY,
    LOTES,
    LOTES_BUSY,
    LOTES_PAPER,
    TETRIS,
    TETRIS_BLIND,
    LotesVariant,
    plans_of,
    run_variant,
    sustained_rate,
)
from dispatch.simulation.machine_level.measures import SimulationOptions
from dispatch.simulation.machine_level.traces import (
    GOOGLE_WINDOW_S,
    TraceJobs,
    read_google_machines,
    read_google_tasks,
)
from dispatch.simulation.machine_level.workload import TraceWorkload
from lp.lotes.instance import LotesInstance, MachineConfigurations
from lp.lotes.job_classes import fit_job_classes

VARIANTS = (LOTES, LOTES_PAPER, LOTES_BUSY, TETRIS, TETRIS_BLIND, GREEDY)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Which runs, and how classes are learnt.

    Attributes
    ----------
    shares
        Shares of the machines of the `scaled` runs.
    part
        Below one, each seed draws this part of the tasks, and as large a part of the machines: the
        spread over seeds is then also the trace's own noise, not the clustering's alone.
    learning_h
        Classes come from the arrivals of the first hours of each run.
    start_all_h
        After the trace's end, time for every job to start; then none is missing from the waits.
    """

    runs: tuple[str, ...] = ("initial", "empty", "scaled")
    shares: tuple[float, ...] = (0.15, 0.125)
    variants: tuple[LotesVariant, ...] = VARIANTS
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: float = 0.5
    learning_h: float = 5.0
    interval_h: float = 1.0
    start_all_h: float = 200.0


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
        jobs = tasks if run == "initial" else later
        for share in options.shares if run == "scaled" else (1.0,):
            rows += _run({"run": run, "machines": share}, machines, jobs, options)
    notes: dict[str, object] = {
        "tasks": tasks.jobs,
        "tasks_at_start": tasks.jobs - later.jobs,
        "dropped": tasks.dropped,
        "part": options.part,
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
    tasks: TraceJobs,
    options: TraceOptions,
) -> list[LotesRow]:
    rows = []
    some = machines.with_share(float(setting["machines"]) * options.part)
    for seed in options.seeds:
        rng = np.random.default_rng((seed, 53))
        jobs = tasks.random_part(options.part, rng) if options.part < 1 else tasks
        first = jobs.sample(end_h=float(jobs.arrival_h[0]) + options.learning_h)
        classes = fit_job_classes(first, np.random.default_rng(seed))
        plans = plans_of(LotesInstance.of(some, classes), options.variants)
        workload = TraceWorkload(jobs.with_classes(classes), len(classes.names))
        sustained = sustained_rate(plans)
        loads = Loads(jobs.rate_per_h, sustained, sustained)
        measured = SimulationOptions(
            interval_h=options.interval_h,
            horizon_h=GOOGLE_WINDOW_S / 3600,
            start_all_h=options.start_all_h,
        )
        for variant in options.variants:
            result = run_variant(variant, plans, workload, seed, measured)
            rows.append(row_of(result, setting, seed, loads, variant.name))
    return rows
