"""Promise levels: what each accepts, and what of it the dispatcher keeps; also the example day."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from bench.papers.cluster.admission import admit_in_turn
from bench.papers.cluster.plan_run import PlanRun, run_plan
from bench.papers.experiment import (
    ExperimentEffort,
    ExperimentResult,
    Table,
    figure_cells,
    figure_series,
    spread_header,
)
from bench.papers.spread import Figure, figures_json, figures_over_seeds
from dispatch.applications.application import Application, Component
from dispatch.cycle.options import DispatchOptions
from dispatch.machines.placement.policy import Policy
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.files import read_cluster, read_workload
from planner.files.workload_file import WorkloadLine
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.request import Request
from planner.workload.compile import compile_workload
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources
from service.example_day import SEED, write_example_day
from service.pictures.experiments import ExperimentPanel, PanelSeries

_STEP_MS = 60_000


@dataclass(frozen=True, slots=True)
class PromiseCase:
    """What bundles come on which machines.

    Attributes
    ----------
    cores, gib
        Most of either in one bundle.
    two_kinds
        Half of the machines with 32 cores and 64 GiB, half with 16 cores and 128 GiB; else all
        with 24 cores and 96 GiB.
    """

    cores: int
    gib: int
    two_kinds: bool = False


CASES = {
    "small bundles, identical machines": PromiseCase(3, 12),
    "large bundles, identical machines": PromiseCase(12, 48),
    "large bundles, two kinds of machines": PromiseCase(12, 48, two_kinds=True),
}


@dataclass(frozen=True, slots=True)
class PromiseOptions:
    """What is asked of which cluster.

    Attributes
    ----------
    machines
        How many; an even number.
    requests, horizon
        How many, with windows in this many steps of a minute.
    load
        Work asked for over what the scarcer resource can do.
    agent
        Who plans.
    """

    machines: int = 20
    requests: int = 400
    horizon: int = 480
    load: float = 1.2
    agent: str = "gree-l"
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


def promise_cluster(options: PromiseOptions, case: PromiseCase) -> Cluster:
    """Return the machines; as many cores and GiB in every case."""
    half = options.machines // 2
    cores = (32, 16) if case.two_kinds else (24, 24)
    gib = (64, 128) if case.two_kinds else (96, 96)
    wide, deep = (
        Resources.of({"cpu": 1000 * each, "memory": 1024 * more})
        for each, more in zip(cores, gib, strict=True)
    )
    return Cluster(
        step_ms=_STEP_MS,
        horizon_ms=options.horizon * _STEP_MS,
        machines=(
            MachineGroup("wide", half, wide),
            MachineGroup("deep", options.machines - half, deep),
        ),
    )


def draw_requests(
    options: PromiseOptions,
    cluster: Cluster,
    case: PromiseCase,
    random: np.random.Generator,
) -> list[tuple[Request, Atom]]:
    """Return atoms of up to this many cores and GiB, gangs among them, scaled to the load."""
    nominal = cluster.nominal
    found: list[tuple[Request, Atom]] = []
    budget = options.load * options.horizon
    each = budget / options.requests
    for index in range(options.requests):
        bundle = Resources.of(
            {
                "cpu": 1000 * int(random.integers(1, case.cores + 1)),
                "memory": 1024 * int(random.integers(1, case.gib + 1)),
            }
        )
        share = max(bundle[kind] / nominal[kind] for kind in ("cpu", "memory"))
        lease = int(random.integers(5, 61))
        size = each * float(random.uniform(0.3, 1.7))
        leases = max(1, round(size / (share * lease)))
        width = min(leases, int(random.integers(1, 9)) * (12 // case.cores))
        leases = width * max(1, round(leases / width))
        least = width if random.random() < 0.4 else 1
        atom = Atom(bundle, least, width, lease * _STEP_MS, leases * lease * _STEP_MS)
        request = _request(index, atom, options, cluster, random)
        if request is not None:
            found.append((request, atom))
    return found


def _request(
    index: int,
    atom: Atom,
    options: PromiseOptions,
    cluster: Cluster,
    random: np.random.Generator,
) -> Request | None:
    alone = atom.work_ms // (atom.maximum * _STEP_MS)
    span = int(alone * (1.1 + 2.9 * random.random())) + 1
    start = int(random.integers(0, max(1, options.horizon - span)))
    end = min(start + span, options.horizon)
    window = Window(Offset(start * _STEP_MS), Offset(end * _STEP_MS), atom)
    try:
        graph = compile_expression(window, CompileContext(cluster.grid()))
    except RdlError:  # wider than the horizon
        return None
    return Request(f"r{index}", "t", "default", 0, 1.0, 0, graph)


def work_of(atom: Atom, cluster: Cluster) -> float:
    """Return the work of an atom in steps of the whole cluster, by dominant share."""
    return atom.work_ms / _STEP_MS * atom.bundle.dominant_share(cluster.nominal)


STRATEGIES: Final[tuple[Policy, ...]] = ("best_fit", "spread")

#: Case, level and strategy.
RowKey = tuple[str, str, str]
#: Figures of one seed.
SeedFigures = dict[RowKey, dict[str, float]]


@dataclass(frozen=True, slots=True)
class PromiseTable:
    """Figures by case, level and strategy; mean and spread over seeds."""

    params: dict[str, object]
    rows: dict[RowKey, dict[str, Figure]]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "experiment": "promise-levels",
            "params": self.params,
            "rows": [
                {
                    "case": case,
                    "level": level,
                    "strategy": strategy,
                    "figures": figures_json(figures),
                }
                for (case, level, strategy), figures in self.rows.items()
            ],
        }


def run_promise_seed(options: PromiseOptions, seed: int) -> SeedFigures:
    """Admit the same requests under each level, and carry out what was accepted."""
    found: SeedFigures = {}
    for name, case in CASES.items():
        for level in (PromiseLevel.POOLED, PromiseLevel.PLACED):
            promised = admit_all(options, level, case, seed)
            if level is PromiseLevel.PLACED:
                found[name, level.value, "its slots"] = promised.figures(STRATEGIES[0])
                continue
            for policy in STRATEGIES:
                found[name, level.value, policy] = promised.figures(policy)
    return found


def promise_table(options: PromiseOptions, runs: Sequence[SeedFigures]) -> PromiseTable:
    """Return mean and spread over the seeds that were run, the first of `options.seeds`."""
    rows = {row: figures_over_seeds([run[row] for run in runs]) for row in runs[0]}
    params: dict[str, object] = {
        "machines": options.machines,
        "requests": options.requests,
        "horizon_steps": options.horizon,
        "load": options.load,
        "agent": options.agent,
        "seeds": list(options.seeds[: len(runs)]),
    }
    return PromiseTable(params, rows)


@dataclass(frozen=True, slots=True)
class PromisedPlan:
    """What one level accepted, of how many requests and of how much work."""

    plan: Plan
    accepted: float
    accepted_work: float

    def figures(self, policy: Policy) -> dict[str, float]:
        """Carry everything out; machines that were not promised are found by a strategy."""
        run = run_plan(self.plan, options=DispatchOptions(policy))
        return {
            "accepted": self.accepted,
            "accepted by work": self.accepted_work,
            "broken": len(run.broken) / max(run.reservations, 1),
        }


def admit_all(
    options: PromiseOptions, level: PromiseLevel, case: PromiseCase, seed: int
) -> PromisedPlan:
    """Offer every request of a seed to one level, in order of submission."""
    cluster = replace(promise_cluster(options, case), promise=level)
    plan = Plan(cluster, cluster.grid())
    drawn = draw_requests(options, cluster, case, np.random.default_rng(seed))
    work = {request.id: work_of(atom, cluster) for request, atom in drawn}
    accepted = admit_in_turn(plan, agent_named(options.agent), [one for one, _ in drawn])
    share = sum(work[request.id] for request in accepted) / sum(work.values())
    return PromisedPlan(plan, len(accepted) / len(drawn), share)


def run_levels(effort: ExperimentEffort) -> ExperimentResult:
    """Admit the same requests under each level, and carry out what was accepted."""
    own = PromiseOptions()
    options = replace(own, seeds=effort.seeds_or(own.seeds))
    if effort.small:
        options = replace(options, machines=8, requests=80, horizon=240)
    runs = effort.parts(
        [partial(run_promise_seed, replace(options, seeds=(s,)), s) for s in options.seeds]
    )
    return _levels_result(promise_table(options, runs))


def _levels_result(table: PromiseTable) -> ExperimentResult:
    """Return what each level accepts and what of it breaks, by case and strategy."""
    keys = list(next(iter(table.rows.values())))
    rows = [(*row, *figure_cells(figures, keys)) for row, figures in table.rows.items()]
    header = ["case", "level", "strategy", *spread_header(keys)]
    panels = []
    for case in dict.fromkeys(row[0] for row in table.rows):
        mine = {row: figures for row, figures in table.rows.items() if row[0] == case}
        names = [f"{level}, {strategy.replace('_', ' ')}" for _, level, strategy in mine]
        series = [
            figure_series(label, names, [figures[key] for figures in mine.values()])
            for key, label in (
                ("accepted", "of requests: accepted"),
                ("broken", "of accepted: broken"),
            )
        ]
        panels.append(ExperimentPanel(case, "", "share", series, form="bars"))
    return ExperimentResult(table.to_json(), (Table.of(header, rows),), panels)


_DAY_LEVELS = (PromiseLevel.POOLED, PromiseLevel.PLACED)
_AGENT = "gree-l"
_DAY_HEADER = ("level", "requests", "accepted", "kept", "broken", "stopped")


@dataclass(frozen=True, slots=True)
class _Day:
    """What came of the day under one level."""

    level: PromiseLevel
    requests: int
    run: PlanRun

    def row(self) -> tuple[object, ...]:
        """Return the cells under `_DAY_HEADER`."""
        accepted, broken = self.run.reservations, len(self.run.broken)
        kept = accepted - broken
        return (self.level.value, self.requests, accepted, kept, broken, self.run.stopped)


def run_day(effort: ExperimentEffort) -> ExperimentResult:
    """Admit the day one request after the other, and run what was accepted."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_example_day(Path(folder), SEED)
        cluster = read_cluster(files[0])
        lines = list(islice(read_workload(files[1], cluster.origin), 60 if effort.small else None))
    parts = []
    for level in _DAY_LEVELS:
        promised = replace(cluster, promise=level)
        parts.append(partial(run_level, promised, tuple(lines)))
    days: list[_Day] = effort.parts(parts)
    return _day_result(days)


def run_level(cluster: Cluster, lines: Sequence[WorkloadLine]) -> _Day:
    """Run the day on a cluster of one level."""
    level, requests = cluster.promise, compile_workload(lines, cluster).requests
    plan, agent = Plan(cluster, cluster.grid()), agent_named(_AGENT)
    admit_in_turn(plan, agent, requests)
    return _Day(level, len(requests), run_plan(plan, best_effort_of_a_day()))


def best_effort_of_a_day() -> list[Application]:
    """Return applications that take all that is left."""
    return [_best_effort(number) for number in range(6)]


def _best_effort(number: int) -> Application:
    core = Component("core", 1, True, Resources.of({"cpu": 2000, "memory": 4096}))
    more = Component("more", 60, False, Resources.of({"cpu": 4000, "memory": 8192}))
    return Application(f"rest-{number}", (core, more))


def _day_result(days: list[_Day]) -> ExperimentResult:
    rows = [day.row() for day in days]
    document = {
        "experiment": "example-day",
        "params": {"seeds": [SEED], "agent": _AGENT},
        "rows": [
            {
                "level": day.level.value,
                "requests": day.requests,
                "accepted": day.run.reservations,
                "broken": sorted(day.run.broken),
                "stopped": day.run.stopped,
            }
            for day in days
        ],
    }
    names = [day.level.value for day in days]
    series = [
        PanelSeries(label, names, [float(str(row[_DAY_HEADER.index(key)])) for row in rows], ())
        for key, label in (("accepted", "accepted"), ("broken", "broken"))
    ]
    panel = ExperimentPanel("the example day", "", "reservations", series, form="bars")
    return ExperimentResult(document, (Table(_DAY_HEADER, rows),), (panel,))
