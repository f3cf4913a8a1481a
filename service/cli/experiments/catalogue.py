"""The experiments that `agenda simulate` knows: what each runs, prints and draws.

An experiment's module is imported when it runs. Where it can be cut into parts, parts run one by
one, so that progress can be shown and ^C keeps what is done.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.cli.experiments.effort import (
    POLICIES,
    TRACES,
    Experiment,
    ExperimentEffort,
    google_folder,
    reading,
)

if TYPE_CHECKING:
    from dispatch.simulation.experiments.zoe.runs import ExperimentDesign, ZoeOptions
    from service.cli.experiments.outcomes import ExperimentResult

_SWIM: Final = "swim/FB-2009_samples_24_times_1hr_0.tsv.gz"


def _lotes_trace(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.lotes.trace import TraceOptions, lotes_trace
    from service.cli.experiments.outcomes import lotes_outcome

    folder = google_folder("lotes-trace")
    part = 0.05 if effort.small else 0.5
    runs = [("scaled", 0.15)] if effort.small else [
        ("initial", 1.0), ("empty", 1.0), ("scaled", 0.15), ("scaled", 0.125)
    ]  # fmt: skip
    parts = [
        lambda run=run, share=share, seed=seed: lotes_trace(
            folder, TraceOptions(runs=(run,), shares=(share,), seeds=(seed,), part=part)
        )
        for run, share in runs
        for seed in effort.seeds_or((1, 2, 3, 4, 5))
    ]
    with reading(folder):
        return lotes_outcome(effort.parts(parts))


def _lotes_resources(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.lotes.rates import lotes_resources
    from service.cli.experiments.outcomes import lotes_outcome

    phis = (0.0, 0.015) if effort.small else (0.0, 0.003, 0.006, 0.009, 0.012, 0.015)
    parts = [
        lambda phi=phi, seed=seed: lotes_resources((phi,), options=_drawn(effort, seed))
        for phi in phis
        for seed in effort.seeds_or((1, 2, 3, 4, 5))
    ]
    return lotes_outcome(effort.parts(parts))


def _lotes_rates(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.lotes.rates import lotes_rates
    from service.cli.experiments.outcomes import lotes_outcome

    omegas = (0.0, 0.4) if effort.small else (0.0, 0.1, 0.2, 0.3, 0.4)
    parts = [
        lambda omega=omega, seed=seed: lotes_rates((omega,), options=_drawn(effort, seed))
        for omega in omegas
        for seed in effort.seeds_or((1, 2, 3, 4, 5))
    ]
    return lotes_outcome(effort.parts(parts))


def _drawn(effort: ExperimentEffort, seed: int) -> Any:
    from dispatch.simulation.experiments.lotes.rates import DrawnOptions
    from dispatch.simulation.experiments.lotes.variants import LOTES, LOTES_PAPER

    own, asked = DrawnOptions(seeds=(seed,)), effort.sizes
    if effort.small:
        own = DrawnOptions(machines=20, hours=10.0, seeds=(seed,))
    policies = asked.policies or POLICIES
    named = [one for one in own.variants if one.name.replace(" ", "-") in policies]
    is_paper = asked.mode == "paper"
    return DrawnOptions(
        machines=asked.machines or own.machines,
        hours=asked.hours or own.hours,
        seeds=own.seeds,
        variants=tuple(LOTES_PAPER if is_paper and one == LOTES else one for one in named),
    )


def _lotes_drift(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.lotes.drift import DriftOptions, lotes_drift
    from dispatch.simulation.machine_level.traces import read_google_machines, read_google_tasks
    from service.cli.experiments.outcomes import lotes_outcome

    folder = google_folder("lotes-drift")
    # The share of the machines on which there is something to schedule (docs/lotes.md).
    with reading(folder):
        machines = read_google_machines(folder).scaled(0.15)
        tasks = read_google_tasks(folder).after(0.0)
    every, part = ((4.0,), 0.05) if effort.small else (DriftOptions().every_h, 0.5)
    parts = [
        lambda seed=seed: lotes_drift(
            machines, tasks, DriftOptions(every_h=every, seeds=(seed,), part=part)
        )
        for seed in effort.seeds_or((1, 2, 3, 4, 5))
    ]
    return lotes_outcome(effort.parts(parts))


def _zoe_example(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.zoe.example import zoe_example
    from service.cli.experiments.outcomes import example_outcome

    return example_outcome(effort.whole(zoe_example))


def _zoe(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run one experiment of `zoe_tables`, on Google's trace where there is one."""
    from dataclasses import replace

    from dispatch.simulation.experiments.zoe.tables import zoe_options, zoe_plan

    root = Path(os.environ.get(TRACES, ""))
    folder = root / "google2011"
    trace = folder if os.environ.get(TRACES) and folder.is_dir() else None
    own = zoe_options(name, trace)
    workload = own.workload
    if effort.small:
        # More than the cluster can do: so few would end before there is a line.
        workload = replace(workload, applications=2_000, load=1.5)
    options = replace(own, workload=workload, seeds=effort.seeds_or(own.seeds))
    with reading(folder):
        return _zoe_by_seed(effort, zoe_plan(name), options)


def _zoe_cluster(effort: ExperimentEffort) -> ExperimentResult:
    from dispatch.simulation.experiments.zoe.cluster import SEEDS, SERVERS, cluster_plan
    from dispatch.simulation.experiments.zoe.runs import ZoeOptions

    options = ZoeOptions(SERVERS, effort.seeds_or(SEEDS))
    return _zoe_by_seed(effort, cluster_plan(), options)


def _zoe_by_seed(
    effort: ExperimentEffort, plan: ExperimentDesign, options: ZoeOptions
) -> ExperimentResult:
    from functools import partial

    from dispatch.simulation.experiments.zoe.runs import run_seed, table_of
    from dispatch.simulation.records import records_of
    from service.cli.experiments.outcomes import zoe_outcome

    keep = effort.keeps(records_of)
    runs = effort.parts([partial(run_seed, plan, options, s, keep) for s in options.seeds])
    return zoe_outcome(table_of(plan, options, runs))


def _rayon(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run one experiment of `rayon_tables`, on SWIM's jobs where they are."""
    from dataclasses import replace
    from functools import partial

    from dispatch.simulation.experiments.rayon.tables import (
        RayonOptions,
        rayon_plan,
        rayon_table,
        run_rayon_seed,
    )
    from dispatch.simulation.records import rayon_records_of
    from service.cli.experiments.rayon_outcomes import rayon_outcome

    file = Path(os.environ.get(TRACES, "")) / _SWIM
    own = RayonOptions()
    workload = replace(
        own.workload, trace=file if os.environ.get(TRACES) and file.is_file() else None
    )
    if effort.small:
        # Few machines, so that the largest of few jobs fill them; a fifth with deadlines, so that
        # there are some.
        workload = replace(workload, machines=4, jobs_per_hour=500.0, hours=0.5, production=0.2)
    options = replace(own, workload=workload, seeds=effort.seeds_or(own.seeds))
    plan = rayon_plan(name)
    keep = effort.keeps(rayon_records_of)
    with reading(file):
        runs = effort.parts(
            [partial(run_rayon_seed, plan, options, s, keep) for s in options.seeds]
        )
    return rayon_outcome(rayon_table(plan, options, runs))


def _promise_levels(effort: ExperimentEffort) -> ExperimentResult:
    from dataclasses import replace
    from functools import partial

    from dispatch.simulation.experiments.promise.levels import promise_table, run_promise_seed
    from dispatch.simulation.experiments.promise.requests import PromiseOptions
    from service.cli.experiments.rayon_outcomes import promise_outcome

    own = PromiseOptions()
    options = replace(own, seeds=effort.seeds_or(own.seeds))
    if effort.small:
        options = replace(options, machines=8, requests=80, horizon=240)
    runs = effort.parts([partial(run_promise_seed, options, seed) for seed in options.seeds])
    return promise_outcome(promise_table(options, runs))


def _omega(effort: ExperimentEffort) -> ExperimentResult:
    from functools import partial
    from itertools import product

    from dispatch.simulation.experiments.omega import OmegaRun, run_omega
    from service.cli.experiments.outcomes import omega_outcome

    planners = (1, 8) if effort.small else (1, 2, 4, 8, 16, 32)
    length_s = 20.0 if effort.small else 240.0
    runs = [
        OmegaRun(
            planners=count,
            length_s=length_s,
            slice_s=length_s / 12,
            coarse=coarse,
            all_or_nothing=gang,
            seed=seed,
        )
        for coarse, gang, count, seed in product(
            (False, True), (False, True), planners, effort.seeds_or((1, 2, 3))
        )
    ]
    return omega_outcome(effort.parts([partial(run_omega, run) for run in runs]))


def _zoe_experiment(name: str, about: str) -> Experiment:
    return Experiment(name, about, lambda effort: _zoe(effort, name), has_jobs=True)


def _rayon_experiment(name: str, about: str) -> Experiment:
    return Experiment(name, about, lambda effort: _rayon(effort, name), has_jobs=True)


EXPERIMENTS: Final = {
    one.name: one
    for one in (
        Experiment("omega", "1 to 32 planners on one Plan (Omega 4.3, 5.2)", _omega),
        Experiment("lotes-trace", "Google's trace by LoTES, Tetris, Greedy (5.3)", _lotes_trace),
        Experiment(
            "lotes-resources",
            "classes of differing requests (5.4.2)",
            _lotes_resources,
            has_sizes=True,
        ),
        Experiment(
            "lotes-rates", "rates that differ by machine (5.4.3)", _lotes_rates, has_sizes=True
        ),
        Experiment("lotes-drift", "classes renewed, or of the first hours", _lotes_drift),
        Experiment("zoe-example", "Zoe's worked example, exact (figure 1)", _zoe_example),
        _zoe_experiment("zoe-baseline", "flexible against rigid (4.2)"),
        _zoe_experiment("zoe-malleable", "flexible against malleable (table 1)"),
        _zoe_experiment("zoe-sizes", "definitions of size (4.4)"),
        _zoe_experiment("zoe-preemption", "with and without preemption (4.5)"),
        _zoe_experiment("zoe-widths", "what the gains depend on"),
        Experiment("zoe-cluster", "the shape of the ten servers (6)", _zoe_cluster, has_jobs=True),
        _rayon_experiment("rayon-sla", "deadlines kept, against a capacity scheduler (6.4)"),
        _rayon_experiment("rayon-overreserve", "work asked for 50 % above the truth (6.4.2)"),
        _rayon_experiment("rayon-mixed", "MapReduce, gangs and workflows (6.4.3)"),
        Experiment("promise-levels", "what pooled, packable and placed promise", _promise_levels),
    )
}
