"""The example day carried out by the dispatcher: what each promise level keeps of it."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from dispatch.applications.application import Application, Component
from dispatch.simulation.admission import admit_in_turn
from dispatch.simulation.plan_run import PlanRun, run_plan
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files import read_cluster, read_workload
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.request import Request
from planner.workload.compile import compile_workload
from rdl.resources import Resources
from service.cli.experiments.effort import ExperimentEffort
from service.cli.experiments.results import ExperimentResult, Table
from service.example_day import SEED, write_example_day
from service.pictures.experiments import ExperimentPanel, PanelSeries

_LEVELS = (PromiseLevel.POOLED, PromiseLevel.PLACED)
_AGENT = "gree-l"
_HEADER = ("level", "requests", "accepted", "below", "slots kept", "broken", "lost", "stopped")


@dataclass(frozen=True, slots=True)
class _Day:
    """What came of the day under one level."""

    level: PromiseLevel
    requests: int
    run: PlanRun

    def row(self) -> tuple[object, ...]:
        """Return the cells under `_HEADER`."""
        run, slots = self.run, self.run.slots
        accepted, below = run.reservations, len(run.below)
        kept = (slots.kept, slots.broken, slots.lost)
        return (self.level.value, self.requests, accepted, below, *kept, run.stopped)


def run_day(effort: ExperimentEffort) -> ExperimentResult:
    """Admit the day one request after the other, and run what was accepted."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_example_day(Path(folder), SEED)
        cluster = read_cluster(files[0])
        lines = list(islice(read_workload(files[1], cluster.origin), 60 if effort.small else None))
    parts = []
    for level in _LEVELS:
        promised = replace(cluster, promise=level)
        parts.append(partial(_run, level, promised, compile_workload(lines, promised).requests))
    days: list[_Day] = effort.parts(parts)
    return _result_of(days)


def _run(level: PromiseLevel, cluster: Cluster, requests: tuple[Request, ...]) -> _Day:
    plan, agent = Plan(cluster, cluster.grid()), agent_named(_AGENT)
    admit_in_turn(plan, agent, requests)
    return _Day(level, len(requests), run_plan(plan, [_best_effort(n) for n in range(6)]))


def _best_effort(number: int) -> Application:
    """Return an application that takes all that is left."""
    core = Component("core", 1, True, Resources.of({"cpu": 2000, "memory": 4096}))
    more = Component("more", 60, False, Resources.of({"cpu": 4000, "memory": 8192}))
    return Application(f"rest-{number}", (core, more))


def _result_of(days: list[_Day]) -> ExperimentResult:
    rows = [day.row() for day in days]
    document = {
        "experiment": "example-day",
        "params": {"seeds": [SEED], "agent": _AGENT},
        "rows": [
            {
                "level": day.level.value,
                "requests": day.requests,
                "accepted": day.run.reservations,
                "below": sorted(day.run.below),
                "slots": asdict(day.run.slots),
                "stopped": day.run.stopped,
            }
            for day in days
        ],
    }
    names = [day.level.value for day in days]
    series = [
        PanelSeries(label, names, [float(str(row[_HEADER.index(key)])) for row in rows], ())
        for key, label in (("accepted", "accepted"), ("below", "below their entitlement"))
    ]
    panel = ExperimentPanel("the example day", "", "reservations", series, form="bars")
    return ExperimentResult(document, (Table(_HEADER, rows),), (panel,))
