"""Zoe's experiments: section 4 of the journal, sections 6 and 10 of D5.2.

Each compares schedulers and orderings on one workload; tables show the papers' claims.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.papers.cluster.generator import (
    BATCH_ELASTIC,
    BATCH_RIGID,
    ZoeWorkload,
    without_elastic,
    without_interactive,
)
from bench.papers.cluster.machine_fit import Fit
from bench.papers.cluster.records import JobRecord, records_of
from bench.papers.cluster.simulator import SimulatedRun
from bench.papers.cluster.workload import Submission
from bench.papers.experiment import (
    TRACES,
    ExperimentEffort,
    ExperimentResult,
    PartRun,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    reading,
    spread_header,
)
from bench.papers.spread import figure_of
from bench.papers.zoe_runs import (
    CLAIMS,
    METRICS,
    PARTS,
    ExperimentDesign,
    Ratios,
    Variant,
    WorkloadShape,
    ZoeExample,
    ZoeOptions,
    ZoeTable,
    run_seed,
    table_of,
    workload_shape,
    zoe_example,
)
from dispatch.pool.claims import Claim, ClaimPart
from service.pictures.experiments import ExperimentPanel, PanelSeries

#: Without interactive applications the load is the batch's own; the papers' lines grow to days, so
#: theirs was at what the cluster can do.
BATCH = ZoeWorkload(interactive=0.0, load=1.0)

#: Shares of the cluster that `zoe-widths` allows one application.
WIDTHS = (0.1, 0.25, 0.5)
#: Most components of a rigid application there: without, and with, those of figure 2's tail.
RIGID = (64, 1_000)

#: Applications where the papers' 80,000 take too long.
_FEWER = {"zoe-widths": 16_000, "zoe-machines": 8_000}

_MEDIAN, _MEAN = "all turnaround median_s", "all turnaround mean_s"

#: Orders of the comparisons. What the published simulator calls SJF keeps those in service in order
#: of size and lets an arrival take elastic components (its PSJF, D5.2's table 10.4a): the last.
_ORDERS = (("fifo", False), ("sjf", False), ("sjf", True))


def zoe_design(name: str) -> ExperimentDesign:
    """Return what an experiment runs and compares; KeyError for a name that is none."""
    return _DESIGNS[name]()


def zoe_options(name: str, trace: Path | None = None) -> ZoeOptions:
    """Return the size of an experiment (the papers' but for `_FEWER`), drawn or sampled."""
    workload = ZoeWorkload() if name.startswith("zoe-preemption") else BATCH
    if name in _FEWER:
        workload = replace(workload, applications=_FEWER[name])
    return ZoeOptions(replace(workload, trace=trace))


def _word(order: str, preemptive: bool) -> str:
    return f"{order}, preemptive" if preemptive else order


def _baseline() -> ExperimentDesign:
    """Flexible against rigid, batch alone, FIFO and SJF (journal, 4.2, figures 3 to 5)."""
    variants, ratios = [], {}
    for order, preemptive in _ORDERS:
        rigid = Variant("rigid", order, preemptive)
        flexible = Variant("flexible", order, preemptive)
        variants += [rigid, flexible]
        word = _word(order, preemptive)
        ratios[f"{word}: median turnaround, rigid / flexible"] = (rigid, flexible, _MEDIAN)
        ratios[f"{word}: mean turnaround, rigid / flexible"] = (rigid, flexible, _MEAN)
        ratios[f"{word}: cpu allocation, flexible / rigid"] = (
            flexible,
            rigid,
            "cpu allocation",
        )
    claims = {
        name: "about 2" if "median" in name else "above 1.2" if "cpu" in name else "not stated"
        for name in ratios
    }
    return ExperimentDesign("zoe-baseline", variants, ratios, claims, without_interactive)


def _malleable() -> ExperimentDesign:
    """Flexible against malleable, batch alone, FIFO and SJF (journal, table 1).

    `flexible-grow` is what the published simulator ran.
    """
    variants, ratios, claims = [], {}, {}
    for order, preemptive in _ORDERS:
        base = Variant("malleable", order, preemptive)
        variants.append(base)
        for name in ("flexible", "flexible-grow"):
            other = Variant(name, order, preemptive)
            variants.append(other)
            key = f"{_word(order, preemptive)}: mean turnaround, {name} / malleable"
            ratios[key] = (other, base, _MEAN)
            claims[key] = "0.90" if order == "fifo" else "0.84"
    return ExperimentDesign("zoe-malleable", variants, ratios, claims, without_interactive)


def _sizes() -> ExperimentDesign:
    """Definitions of size, flexible and rigid, batch alone (journal, 4.4; D5.2, table 10.3b).

    SRPT is preemptive: among those that wait nothing has begun, and without preemption it is SJF.
    """
    sjf = ("sjf", "sjf-2d", "sjf-3d")
    srpt = ("srpt", "srpt-2d1", "srpt-2d2", "srpt-3d1", "srpt-3d2")
    hrrn = ("hrrn", "hrrn-2d", "hrrn-3d", "hrrn-2d-printed", "hrrn-3d-printed")
    orders = [
        *((order, False) for order in (*sjf, *hrrn)),
        *((order, True) for order in (*sjf, *srpt)),
    ]
    names = ("flexible", "rigid")
    variants = [Variant(name, order, early) for order, early in orders for name in names]
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for name in names:
        for early in (False, True):
            for size, claim in zip(sjf[1:], ("below 1", "below that of sjf-2d"), strict=True):
                key = f"{name} mean turnaround, {_word(size, early)} / {_word('sjf', early)}"
                ratios[key] = (Variant(name, size, early), Variant(name, "sjf", early), _MEAN)
                claims[key] = claim if name == "flexible" else "not stated"
    for size in hrrn[1:3]:
        key = f"flexible mean turnaround, {size}-printed / {size}"
        ratios[key] = (Variant("flexible", f"{size}-printed"), Variant("flexible", size), _MEAN)
        claims[key] = "not stated"
    return ExperimentDesign("zoe-sizes", variants, ratios, claims, without_interactive)


def _preemption() -> ExperimentDesign:
    """With and without preemption, interactive applications included (journal, 4.5, figure 9).

    Without preemption the line is ordered by size alone; with it, interactive applications have
    priority and may take elastic components.
    """
    variants, ratios, claims = [], {}, {}
    for order in ("srpt", "fifo"):
        plain = Variant("flexible", order)
        with_it = Variant("flexible", order, preemptive=True, by_priority=True)
        variants += [plain, with_it]
        for figure in ("p95", "mean", "median"):
            key = f"{order}: Int queuing {figure}, without / with"
            ratios[key] = (plain, with_it, f"Int queuing {figure}_s")
            claims[key] = "about 100"
        key = f"{order}: B-E turnaround median, with / without"
        ratios[key] = (with_it, plain, "B-E turnaround median_s")
        claims[key] = "stable"
    return ExperimentDesign("zoe-preemption", variants, ratios, claims)


def _widths() -> ExperimentDesign:
    """What the gains depend on: how wide applications are, and how many cores rigid ones have.

    FIFO, batch alone. A rigid scheduler empties the cluster for a wide head of the line, and a
    malleable one for a head with many cores; nothing else sets them apart from the flexible one.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    for rigid in RIGID:
        for widest in WIDTHS:
            ones = {
                name: Variant(name, "fifo", widest=widest, most_rigid=rigid)
                for name in ("rigid", "malleable", "flexible")
            }
            variants += ones.values()
            setting = ones["rigid"].setting
            for name in ("rigid", "malleable"):
                key = f"{setting}: mean turnaround, {name} / flexible"
                ratios[key] = (ones[name], ones["flexible"], _MEAN)
            key = f"{setting}: median turnaround, rigid / flexible"
            ratios[key] = (ones["rigid"], ones["flexible"], _MEDIAN)
            key = f"{setting}: cpu allocation, flexible / rigid"
            ratios[key] = (ones["flexible"], ones["rigid"], "cpu allocation")
    return ExperimentDesign(
        "zoe-widths", variants, ratios, dict.fromkeys(ratios, ""), without_interactive
    )


def on_machines() -> ExperimentDesign:
    """Flexible against rigid and malleable, on one pool and on machines (journal, 4.2, table 1).

    Allocation cannot be whole where what is left of machines holds no component.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for fit in (None, *Fit):
        for order, preemptive in _ORDERS:
            rigid = Variant("rigid", order, preemptive, fit=fit)
            flexible = Variant("flexible", order, preemptive, fit=fit)
            variants += [rigid, flexible]
            word = f"{order}, preemptive" if preemptive else order
            where = rigid.setting or "one pool"
            key = f"{where}, {word}: median turnaround, rigid / flexible"
            ratios[key], claims[key] = (rigid, flexible, _MEDIAN), "about 2"
            key = f"{where}, {word}: cpu allocation, flexible / rigid"
            ratios[key], claims[key] = (flexible, rigid, "cpu allocation"), "above 1.2"
            if not preemptive:
                malleable = Variant("malleable", order, fit=fit)
                variants.append(malleable)
                key = f"{where}, {word}: mean turnaround, flexible / malleable"
                ratios[key] = (flexible, malleable, _MEAN)
                claims[key] = "0.90" if order == "fifo" else "0.84"
    return ExperimentDesign("zoe-machines", variants, ratios, claims, without_interactive)


#: Orders by what size is, the plain one first; D5.2's PSJF is `sjf` that takes elastic components.
#: Among those that wait nothing has begun, so without preemption SRPT is SJF.
_SIZES: Final = {
    "sjf": ("sjf", "sjf-2d", "sjf-3d"),
    "srpt": ("srpt", "srpt-2d1", "srpt-2d2", "srpt-3d1", "srpt-3d2"),
    "hrrn": ("hrrn", "hrrn-2d", "hrrn-3d"),
}
_TAKES: Final = ("srpt",)


def inelastic() -> ExperimentDesign:
    """Flexible against rigid where every component is core (D5.2, table 10.4a): they are one."""
    variants, ratios = [], {}
    for order, preemptive in (("fifo", False), ("sjf", True), ("srpt", True), ("hrrn", False)):
        rigid = Variant("rigid", order, preemptive)
        flexible = Variant("flexible", order, preemptive)
        variants += [rigid, flexible]
        word = f"{order}, preemptive" if preemptive else order
        ratios[f"{word}: mean turnaround, flexible / rigid"] = (flexible, rigid, _MEAN)
    claims = dict.fromkeys(ratios, "exactly 1")
    return ExperimentDesign("zoe-inelastic", variants, ratios, claims, _batch_of_cores)


def _batch_of_cores(submissions: list[Submission]) -> list[Submission]:
    return without_elastic(without_interactive(submissions))


def malleable_sizes() -> ExperimentDesign:
    """Definitions of size by a malleable scheduler, batch alone (D5.2, figures 18 to 23)."""
    variants: list[Variant] = []
    ratios: Ratios = {}
    for plain, sizes in _SIZES.items():
        ones = [Variant("malleable", size, plain in _TAKES) for size in sizes]
        variants += ones
        for size, one in zip(sizes[1:], ones[1:], strict=True):
            ratios[f"malleable mean turnaround, {size} / {plain}"] = (one, ones[0], _MEAN)
    claims = {key: "not stated" if "hrrn" in key else "below 1" for key in ratios}
    return ExperimentDesign("zoe-malleable-sizes", variants, ratios, claims, without_interactive)


def preemption_sizes() -> ExperimentDesign:
    """With and without preemption, every order and size (D5.2, figures 31 to 33).

    Without it a line is ordered by size alone; with it interactive applications have priority and
    may take elastic components.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for sizes in _SIZES.values():
        for size in sizes:
            plain = Variant("flexible", size)
            with_it = Variant("flexible", size, preemptive=True, by_priority=True)
            variants += [plain, with_it]
            key = f"{size}: Int queuing mean, without / with"
            ratios[key] = (plain, with_it, "Int queuing mean_s")
            claims[key] = "about 100"
            key = f"{size}: cpu allocation, with / without"
            ratios[key] = (with_it, plain, "cpu allocation")
            claims[key] = "below 1"
            key = f"{size}: waiting applications, with / without"
            ratios[key] = (with_it, plain, "waiting mean")
            claims[key] = "above 1"
    return ExperimentDesign("zoe-preemption-sizes", variants, ratios, claims)


SERVERS = ZoeWorkload(applications=100, interactive=0.0, rigid=0.2, machines=10)
SEEDS = tuple(range(1, 11))
MEDIAN_RUN_S, RUN_SPREAD = 180.0, 0.5
_GIB = 1024


def cluster_design() -> ExperimentDesign:
    """Flexible against rigid on the paper's ten servers (journal, section 6, figure 10)."""
    rigid, flexible = Variant("rigid", "fifo"), Variant("flexible", "fifo")
    ratios = {
        f"{label} median turnaround, flexible / rigid": (
            flexible,
            rigid,
            f"{label} turnaround median_s",
        )
        for label in (BATCH_ELASTIC, BATCH_RIGID)
    }
    claims = dict(zip(ratios, ("0.63", "0.78"), strict=True))
    ratios["memory allocation, flexible / rigid"] = (flexible, rigid, "memory allocation")
    claims["memory allocation, flexible / rigid"] = "1.2"
    return ExperimentDesign("zoe-cluster", (rigid, flexible), ratios, claims, draw=draw_templates)


def draw_templates(workload: ZoeWorkload, random: np.random.Generator) -> list[Submission]:
    """Return applications of the four templates, in order of time."""
    found: list[Submission] = []
    at = 0.0
    for index in range(workload.applications):
        # Cut at a second: a Gaussian gap would be negative once in fifteen times.
        at += max(1.0, float(random.normal(60.0, 40.0)))
        run = float(MEDIAN_RUN_S * np.exp(RUN_SPREAD * random.standard_normal()))
        is_rigid = random.random() < workload.rigid
        core, elastic, profile = _template(is_rigid, random)
        claim = Claim(f"z{index}", core, elastic, at, run)
        label = BATCH_RIGID if is_rigid else BATCH_ELASTIC
        found.append(Submission(claim, at, run, label, profile))
    return found


def _template(
    is_rigid: bool, random: np.random.Generator
) -> tuple[tuple[ClaimPart, ...], tuple[ClaimPart, ...], str]:
    if is_rigid:
        worker = (4_000, 16 * _GIB)
        count = 1 if random.random() < 0.5 else 15
        return (ClaimPart(count, worker),), (), f"tensorflow-{count}"
    memory = (16 if random.random() < 0.5 else 8) * _GIB
    if random.random() < 0.5:
        each, count, name = (1_000, memory), 32, "random-forest"
    else:
        each, count, name = (6_000, memory), 24, "recommender"
    return (ClaimPart(3, each),), (ClaimPart(count, each),), name


_DESIGNS: dict[str, Callable[[], ExperimentDesign]] = {
    "zoe-baseline": _baseline,
    "zoe-malleable": _malleable,
    "zoe-sizes": _sizes,
    "zoe-preemption": _preemption,
    "zoe-widths": _widths,
    "zoe-machines": on_machines,
    "zoe-inelastic": inelastic,
    "zoe-malleable-sizes": malleable_sizes,
    "zoe-preemption-sizes": preemption_sizes,
}

_CLUSTER: Final = "zoe-cluster"

_FIGURES = (
    "all turnaround median_s",
    "all turnaround mean_s",
    "all alone median_s",
    "Int queuing mean_s",
    "cpu allocation",
    "memory allocation",
)


def run_table(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run one comparison of schedulers, on Google's trace if there is one."""
    root = Path(os.environ.get(TRACES, ""))
    folder = root / "google2011"
    trace = folder if os.environ.get(TRACES) and folder.is_dir() else None
    own = zoe_options(name, trace)
    workload = own.workload
    if effort.small:
        # More than the cluster can do: so few would end before there is a line.
        workload = replace(workload, applications=2_000, load=1.5)
        if name == "zoe-machines":  # each event takes longer there
            workload = replace(workload, applications=500, machines=20)
    options = replace(own, workload=workload, seeds=effort.seeds_or(own.seeds))
    with reading(folder):
        return _run_seeds(effort, name, options)


def run_cluster(effort: ExperimentEffort) -> ExperimentResult:
    """Run flexible against rigid on the ten servers."""
    options = ZoeOptions(SERVERS, effort.seeds_or(SEEDS))
    return _run_seeds(effort, _CLUSTER, options)


def run_example(effort: ExperimentEffort) -> ExperimentResult:
    """Run the worked example; it has no seeds."""
    return _example_result(effort.whole(zoe_example))


def _run_seeds(effort: ExperimentEffort, name: str, options: ZoeOptions) -> ExperimentResult:
    wants_jobs = effort.jobs is not None
    parts = [
        partial(run_zoe_seed, name, replace(options, seeds=(seed,)), wants_jobs)
        for seed in options.seeds
    ]
    return _result_of(table_of(_design(name), options, effort.parts(parts)))


def run_zoe_seed(name: str, options: ZoeOptions, wants_jobs: bool) -> PartRun:
    """Run every variant of an experiment by the seed of its options, with its jobs if wanted."""
    records: list[JobRecord] = []

    def keep(variant: str, run: SimulatedRun) -> None:
        records.extend(records_of(run, variant))

    found = run_seed(_design(name), options, options.seeds[0], keep if wants_jobs else None)
    return PartRun(found, records)


def _design(name: str) -> ExperimentDesign:
    return cluster_design() if name == _CLUSTER else zoe_design(name)


def _result_of(table: ZoeTable) -> ExperimentResult:
    """Return figures of each variant, and each ratio alongside the papers' words on it."""
    shown = [name for name in _FIGURES if name in table.rows[0].figures]
    has_setting = any(row.variant.setting for row in table.rows)
    rows = [
        (
            row.variant.scheduler,
            row.variant.ordering,
            row.variant.preemptive,
            *([row.variant.setting] if has_setting else []),
            *figure_cells(row.figures, shown),
        )
        for row in table.rows
    ]
    header = ["scheduler", "ordering", "preemptive", *(["workload"] if has_setting else [])]
    header += spread_header(name.replace("all ", "").replace("_s", " s") for name in shown)
    tables = (Table.of(header, rows), claims_table("ratio", table.ratios, table.claims))
    return ExperimentResult(table.to_json(), tables, _panels(table))


def _panels(table: ZoeTable) -> list[ExperimentPanel]:
    names = [_name_of(row.variant) for row in table.rows]
    medians = [row.figures["all turnaround median_s"] for row in table.rows]
    turnaround = figure_series("", names, medians)
    ratios = figure_series(
        "",
        [
            f"{name} (claimed: {table.claims[name]})" if table.claims[name] else name
            for name in table.ratios
        ],
        table.ratios.values(),
    )
    return [
        ExperimentPanel("median turnaround", "", "s", (turnaround,), log_y=True, form="rows"),
        ExperimentPanel(
            "ratios", "", "", (ratios,), log_y=True, least=1e-3, form="rows", claimed=1.0
        ),
    ]


def _name_of(variant: Variant) -> str:
    words = f"{variant.scheduler} {variant.ordering}{' preemptive' if variant.preemptive else ''}"
    return f"{words}, {variant.setting}" if variant.setting else words


def _example_result(example: ZoeExample) -> ExperimentResult:
    """Return the six averages."""
    rows = [
        (row.model, row.scheduler, float(row.average_turnaround_s), float(row.last_end_s))
        for row in example.rows
    ]
    models = list(dict.fromkeys(row.model for row in example.rows))
    schedulers = list(dict.fromkeys(row.scheduler for row in example.rows))
    averages = {(model, scheduler): average for model, scheduler, average, _ in rows}
    series = [
        PanelSeries(model, schedulers, [averages[model, scheduler] for scheduler in schedulers])
        for model in models
    ]
    header = ("model", "scheduler", "average turnaround s", "last end s")
    panel = ExperimentPanel("average turnaround of four requests", "", "s", series, form="bars")
    document = {"experiment": "zoe-example", **example.to_json()}
    return ExperimentResult(document, (Table(header, rows),), (panel,))


def run_workload(effort: ExperimentEffort) -> ExperimentResult:
    """Draw the workload, from Google's trace if there is one, and tell its quantiles."""
    folder = Path(os.environ.get(TRACES, "")) / "google2011"
    trace = folder if os.environ.get(TRACES) and folder.is_dir() else None
    options = replace(ZoeWorkload(), trace=trace)
    if effort.small:
        options = replace(options, applications=2_000)
    seeds = effort.seeds_or((1, 2, 3))
    with reading(folder):
        found = effort.parts([partial(workload_shape, options, seed) for seed in seeds])
    return _shape_result(options, seeds, found)


def _shape_result(
    options: ZoeWorkload, seeds: tuple[int, ...], found: list[WorkloadShape]
) -> ExperimentResult:
    means = {
        key: [figure_of([float(one[key][at]) for one in found]) for at in range(len(PARTS))]
        for key in found[0]
    }
    rows = [[*key, *(f"{one.mean:,.6g}" for one in line)] for key, line in means.items()]
    header = ["metric", "group", *(f"{100 * part:g} %" for part in PARTS)]
    claims = [[metric, CLAIMS[metric]] for metric in METRICS]
    panels = [
        ExperimentPanel(
            metric,
            metric,
            "part of the applications",
            [
                PanelSeries(group, [float(f"{one.mean:.2g}") for one in line], PARTS)
                for (of, group), line in means.items()
                if of == metric
            ],
            log_x=True,
        )
        for metric in METRICS
    ]
    document: dict[str, Any] = {
        "experiment": "zoe-workload",
        "params": {
            "applications": options.applications,
            "source": "drawn" if options.trace is None else "google-2011",
            "seeds": list(seeds[: len(found)]),
        },
        "parts": list(PARTS),
        "rows": [
            {"metric": metric, "group": group, "values": [one.mean for one in line]}
            for (metric, group), line in means.items()
        ],
        "claims": dict(CLAIMS),
    }
    tables = (Table.of(header, rows), Table.of(["metric", "claimed"], claims))
    return ExperimentResult(document, tables, panels)
