"""Zoe's schedulers run on one workload by seed: variants, ratios, and the worked example.

The worked example is figure 1 of the journal and figure 2 of D5.2; the distributions of the
workload are those of the journal's figure 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.baselines import scheduler_named, scheduler_on_machines
from bench.papers.cluster.generator import ZoeWorkload, zoe_workload
from bench.papers.cluster.machine_fit import Fit
from bench.papers.cluster.metrics import RunMetrics, measure_run
from bench.papers.cluster.simulator import SimulatedRun, simulate_cluster
from bench.papers.cluster.workload import Submission, WorkModel
from bench.papers.spread import Figure, figure_of, figures_json, figures_over_seeds
from dispatch.pool.claims import Claim, ClaimPart
from dispatch.pool.ordering import ORDERINGS, ordering_named

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
        Which machine takes a component; None if the cluster is one pool.
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
    """Rows of one experiment, and its claims alongside what came out.

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
        """Return one row; KeyError if there is none."""
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


UNITS = 10
CORE = 3
ELASTIC = (4, 3, 5, 2)
ALONE_S = 10
SCHEDULERS = ("rigid", "malleable", "flexible")


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """Average turnaround and last end of one scheduler under one work model, s."""

    model: str
    scheduler: str
    average_turnaround_s: Fraction
    last_end_s: Fraction
    ends_s: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class ZoeExample:
    """The six rows of the example."""

    rows: tuple[ExampleRow, ...]

    def average(self, model: WorkModel, scheduler: str) -> Fraction:
        """Average turnaround of one row, s."""
        return next(
            row.average_turnaround_s
            for row in self.rows
            if (row.model, row.scheduler) == (model.value, scheduler)
        )

    def to_json(self) -> dict[str, object]:
        """Return the rows with times as numbers, and as fractions where a number is not exact."""
        return {
            "units": UNITS,
            "rows": [
                {
                    "model": row.model,
                    "scheduler": row.scheduler,
                    "average_turnaround_s": float(row.average_turnaround_s),
                    "last_end_s": float(row.last_end_s),
                    "ends": [str(end) for end in row.ends_s],
                }
                for row in self.rows
            ],
        }


def zoe_example() -> ZoeExample:
    """Run four requests at time 0, FIFO, on ten units, under both work models."""
    rows = [_row(model, name) for model in WorkModel for name in SCHEDULERS]
    return ZoeExample(tuple(rows))


def _row(model: WorkModel, name: str) -> ExampleRow:
    one = (1,)
    submissions = [
        Submission(
            Claim(
                "ABCD"[index],
                (ClaimPart(CORE, one),),
                (ClaimPart(elastic, one),),
                0.0,
                float(ALONE_S),
            ),
            Fraction(0),
            Fraction(ALONE_S),
        )
        for index, elastic in enumerate(ELASTIC)
    ]
    run = simulate_cluster(
        submissions, scheduler_named(name, {"units": UNITS}, ORDERINGS["fifo"]), model
    )
    ends = tuple(Fraction(outcome.turnaround) for outcome in run.outcomes)
    return ExampleRow(model.value, name, sum(ends, Fraction(0)) / len(ends), max(ends), ends)


Floats: TypeAlias = NDArray[np.float64]

#: Parts of a group whose values are reported; the first and the last are its range.
PARTS: Final = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

#: Panels of figure 2, with units.
METRICS: Final = (
    "time between arrivals, s",
    "run time, s",
    "cpu of a component, cores",
    "memory of a component, MiB",
    "core components",
    "elastic components",
)

#: What the journal says of each range (3.1).
CLAIMS: Final[Mapping[str, str]] = {
    METRICS[0]: "bursts, and pauses between them",
    METRICS[1]: "few dozen seconds to several weeks",
    METRICS[2]: "few millicores to 6 cores",
    METRICS[3]: "few MB to a few dozens of GB",
    METRICS[4]: "rigid: to a thousand",
    METRICS[5]: "batch: to thousands; interactive: to hundreds",
}

ALL: Final = "all"

#: Metric and group -> the value at each of `PARTS`.
WorkloadShape: TypeAlias = dict[tuple[str, str], Floats]


def workload_shape(options: ZoeWorkload, seed: int) -> WorkloadShape:
    """Return the quantiles of every metric, by group; times between arrivals are of all."""
    submissions = zoe_workload(options, np.random.default_rng(seed))
    found: WorkloadShape = {}
    gaps = np.diff([float(one.at) for one in submissions])
    found[METRICS[0], ALL] = np.quantile(gaps, PARTS)
    for label in sorted({one.label for one in submissions}):
        own = [one for one in submissions if one.label == label]
        for metric, values in zip(METRICS[1:], _columns(own), strict=True):
            found[metric, label] = np.quantile(values, PARTS)
    return found


def _columns(submissions: Sequence[Submission]) -> list[list[float]]:
    """Return the values of each metric but the first, one an application."""
    parts = [one.claim.core[0] for one in submissions]
    return [
        [float(one.run) for one in submissions],
        [part.amounts[0] / 1000 for part in parts],
        [float(part.amounts[1]) for part in parts],
        [float(part.count) for part in parts],
        [float(sum(part.count for part in one.claim.elastic)) for one in submissions],
    ]
