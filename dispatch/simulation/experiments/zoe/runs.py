"""What Zoe's experiments share: runs over seeds, their rows, and mean and spread of each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dispatch.pool.ordering import ordering_named
from dispatch.simulation.cluster.baselines import scheduler_named, scheduler_on_machines
from dispatch.simulation.cluster.generator import ZoeWorkload, zoe_workload
from dispatch.simulation.cluster.machine_fit import Fit
from dispatch.simulation.cluster.simulator import SimulatedRun, simulate_cluster
from dispatch.simulation.cluster.workload import Submission, WorkModel
from dispatch.simulation.metrics import RunMetrics, measure_run
from dispatch.simulation.spread import Figure, figure_of, figures_json, figures_over_seeds

Choose = Callable[[list[Submission]], list[Submission]]
Draw = Callable[[ZoeWorkload, np.random.Generator], list[Submission]]


@dataclass(frozen=True, slots=True)
class ZoeOptions:
    """Sizes of the experiments; the papers ran 80,000 applications ten times."""

    workload: ZoeWorkload = field(default_factory=ZoeWorkload)
    seeds: tuple[int, ...] = (1, 2, 3)
    model: WorkModel = WorkModel.EVERY


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of a table: a scheduler and an ordering, and what is its own of what it runs on.

    Attributes
    ----------
    fit
        Which machine takes a component; None where the cluster is one pool.
    """

    scheduler: str
    ordering: str
    preemptive: bool = False
    by_priority: bool = False
    widest: float | None = None
    most_rigid: int | None = None
    fit: Fit | None = None

    @property
    def setting(self) -> str:
        """What is its own of the workload or the cluster, in words."""
        if self.fit is not None:
            return f"machines, {self.fit.name.lower()} fit"
        if self.widest is None or self.most_rigid is None:
            return ""
        return f"widest {self.widest:g}, cores to {self.most_rigid:,}"

    @property
    def name(self) -> str:
        """Scheduler, ordering and what is its own, in words."""
        plain = f"{self.scheduler} {self.ordering}{' preemptive' if self.preemptive else ''}"
        return f"{plain}, {self.setting}" if self.setting else plain

    def workload(self, options: ZoeOptions) -> ZoeWorkload:
        """Return the workload it is run on."""
        common = options.workload
        return replace(
            common,
            widest=common.widest if self.widest is None else self.widest,
            most_rigid=common.most_rigid if self.most_rigid is None else self.most_rigid,
        )


@dataclass(frozen=True, slots=True)
class ZoeRow:
    """One variant's figures; the keys of `figures` carry group and unit."""

    variant: Variant
    figures: dict[str, Figure]


@dataclass(frozen=True, slots=True)
class ZoeTable:
    """Rows of one experiment, and its claims beside what came out.

    Attributes
    ----------
    name
        Of the experiment.
    params
        What was run.
    rows
        One a variant.
    ratios
        What the papers claim something about, over seeds.
    claims
        The papers' words on each of `ratios`.
    """

    name: str
    params: dict[str, object]
    rows: tuple[ZoeRow, ...]
    ratios: dict[str, Figure]
    claims: dict[str, str]

    def row(self, scheduler: str, ordering: str, *, preemptive: bool = False) -> ZoeRow:
        """Return one row; KeyError where there is none."""
        for row in self.rows:
            one = row.variant
            if (one.scheduler, one.ordering, one.preemptive) == (scheduler, ordering, preemptive):
                return row
        raise KeyError((scheduler, ordering, preemptive))

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "experiment": self.name,
            "params": self.params,
            "rows": [
                {
                    "scheduler": row.variant.scheduler,
                    "ordering": row.variant.ordering,
                    "preemptive": row.variant.preemptive,
                    "setting": row.variant.setting,
                    "figures": figures_json(row.figures),
                }
                for row in self.rows
            ],
            "ratios": figures_json(self.ratios),
            "claims": self.claims,
        }


#: Name of a ratio -> (variant above, variant below, figure).
Ratios = dict[str, tuple[Variant, Variant, str]]


@dataclass(frozen=True, slots=True)
class ExperimentDesign:
    """What an experiment runs and compares."""

    name: str
    variants: Sequence[Variant]
    ratios: Ratios
    claims: dict[str, str]
    choose: Choose = list
    draw: Draw = zoe_workload


#: Figures of one seed, by variant.
SeedFigures = dict[Variant, dict[str, float]]


def run_seed(
    design: ExperimentDesign,
    options: ZoeOptions,
    seed: int,
    keep: Callable[[str, SimulatedRun], None] | None = None,
) -> SeedFigures:
    """Run every variant once; those that share a workload meet the very same submissions.

    `keep` is given each run with its name, to write its jobs.
    """
    drawn: dict[ZoeWorkload, list[Submission]] = {}
    found: SeedFigures = {}
    for variant in design.variants:
        workload = variant.workload(options)
        if workload not in drawn:
            submissions = design.draw(workload, np.random.default_rng(seed))
            drawn[workload] = design.choose(submissions)
        run = _simulate(drawn[workload], variant, options)
        if keep is not None:
            keep(f"{design.name} {variant.name} seed {seed}", run)
        found[variant] = _flat(measure_run(run, workload.total))
    return found


def table_of(
    design: ExperimentDesign, options: ZoeOptions, runs: Sequence[SeedFigures]
) -> ZoeTable:
    """Return mean and spread over the seeds that were run, the first of `options.seeds`."""
    rows = tuple(
        ZoeRow(one, figures_over_seeds([run[one] for run in runs])) for one in design.variants
    )
    ratios = {
        name: figure_of([_ratio(run[top][key], run[base][key]) for run in runs])
        for name, (top, base, key) in design.ratios.items()
    }
    done = replace(options, seeds=options.seeds[: len(runs)])
    return ZoeTable(design.name, _params(done), rows, ratios, design.claims)


def run_variant(
    submissions: Sequence[Submission], variant: Variant, options: ZoeOptions
) -> RunMetrics:
    """Run one variant once and measure it."""
    total = variant.workload(options).total
    return measure_run(_simulate(submissions, variant, options), total)


def _simulate(
    submissions: Sequence[Submission], variant: Variant, options: ZoeOptions
) -> SimulatedRun:
    ordering = ordering_named(
        variant.ordering,
        preemptive=variant.preemptive,
        by_priority=True if variant.by_priority else None,
    )
    workload = variant.workload(options)
    if variant.fit is None:
        scheduler = scheduler_named(variant.scheduler, workload.total, ordering)
    else:
        scheduler = scheduler_on_machines(
            variant.scheduler, workload.machine, workload.machines, ordering, variant.fit
        )
    return simulate_cluster(submissions, scheduler, options.model)


def _flat(metrics: RunMetrics) -> dict[str, float]:
    flat: dict[str, float] = {}
    for label, group in metrics.groups.items():
        for name, spread in (
            ("turnaround", group.turnaround),
            ("queuing", group.queuing),
            ("slowdown", group.slowdown),
            ("alone", group.alone),
        ):
            unit = "" if name == "slowdown" else "_s"
            flat[f"{label} {name} mean{unit}"] = spread.mean
            flat[f"{label} {name} median{unit}"] = spread.median
            flat[f"{label} {name} p95{unit}"] = spread.p95
        flat[f"{label} rejected"] = float(group.rejected)
    for kind, spread in metrics.allocation.items():
        flat[f"{kind} allocation"] = spread.mean
    flat["waiting mean"] = metrics.waiting.mean
    flat["running mean"] = metrics.running.mean
    return flat


def _ratio(above: float, below: float) -> float:
    """Return above over below; queuing times of zero count as a second, so that it is finite."""
    return max(above, 1e-9) / max(below, 1.0 if below == 0.0 else 1e-9)


def _params(options: ZoeOptions) -> dict[str, object]:
    workload = options.workload
    return {
        "applications": workload.applications,
        "machines": workload.machines,
        "cores": workload.cores,
        "memory_gib": workload.memory_gib,
        "load": workload.load,
        "interactive": workload.interactive,
        "widest": workload.widest,
        "most_rigid": workload.most_rigid,
        "source": "drawn" if workload.trace is None else "google-2011",
        "work_model": options.model.value,
        "seeds": list(options.seeds),
    }
