"""Rayon's figures 12 and 14 on its workloads A, B and C, relative to GREE as in the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from dispatch.simulation.experiments.rayon_planning import (
    AGENTS,
    LOAD,
    PlanningPoint,
    PlanningSet,
    planning_point,
)
from dispatch.simulation.spread import Figure, figure_of, figures_json
from service.cli.experiments.effort import ExperimentEffort, reading
from service.cli.experiments.rayon import rayon_options, swim_file
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel

_SIZES: Final = (100, 300, 1000)
_SHARES: Final = (0.1, 0.2, 0.5, 1.0)
_JOBS: Final = 100
_SOLVER_S: Final = 10.0

#: Metrics that are told over GREE's; the time is told as it is.
_RELATIVE: Final = ("acceptance", "preemption", "uniformity")
#: What the paper says of them; a name is ``<set>: <agent>, <metric>``.
_CLAIMS: Final = {
    "100 atoms of A: exact, acceptance": "above 1.2",
    "1000 atoms of A: exact, acceptance": "about 1",
    "100 atoms of A: gree-l, acceptance": "about 1",
    "1000 atoms of A: gree-l, acceptance": "about 1",
    "1000 atoms of A: gree-l, preemption": "below 1",
    "1000 atoms of A: gree-l, uniformity": "about 0.8",
    "1000 atoms of A: gree-l, seconds": "at most 0.13",
    "100 jobs, 20% of B: milp-cold, acceptance": "below 1",
    "100 jobs, 10% of C: milp-cold, acceptance": "below 1",
}


def run_planning(effort: ExperimentEffort) -> ExperimentResult:
    """Place growing sets of A, then 100 jobs with more and more of B and of C."""
    sets = _sets(effort.small)
    seeds = effort.seeds_or((1, 2, 3))
    workload = rayon_options(effort.small).workload
    limit = 0.3 if effort.small else _SOLVER_S
    parts = [partial(planning_point, of, workload, seed, limit) for of in sets for seed in seeds]
    with reading(swim_file()):
        points = effort.parts(parts)
    source = "drawn" if workload.trace is None else "swim-facebook-2009"
    params = {"load": LOAD, "solver_s": limit, "source": source, "seeds": list(seeds)}
    return _result(points, params)


def _sets(small: bool) -> list[PlanningSet]:
    sizes, kinds, shares = ((30, 100), "B", (0.2,)) if small else (_SIZES, "BC", _SHARES)
    return [
        *(PlanningSet("12", "A", 0.0, size) for size in sizes),
        PlanningSet("14", "A", 0.0, _JOBS),
        *(PlanningSet("14", kind, share, _JOBS) for kind in kinds for share in shares),
    ]


def _result(points: list[PlanningPoint], params: dict[str, Any]) -> ExperimentResult:
    groups: dict[PlanningSet, list[PlanningPoint]] = {}
    for point in points:
        groups.setdefault(point.of, []).append(point)
    found = {of: _figures_of(same) for of, same in groups.items()}
    rows = [
        (of.name, agent, *figure_cells(figures, _COLUMNS))
        for of, agents in found.items()
        for agent, figures in agents.items()
    ]
    claimed = _claimed(found)
    claims = {name: _CLAIMS[name] for name in claimed}
    document = {
        "experiment": "rayon-planning",
        "params": params,
        "rows": [
            {**dataclasses.asdict(of), "agent": agent, "figures": figures_json(figures)}
            for of, agents in found.items()
            for agent, figures in agents.items()
        ],
        "claimed": figures_json(claimed),
        "claims": claims,
    }
    header = ["set", "agent", *spread_header(_HEADS)]
    tables = (Table.of(header, rows), claims_table("over gree", claimed, claims))
    return ExperimentResult(document, tables, _panels(found))


_COLUMNS: Final = ("value", "acceptance", "preemption", "uniformity", "gap", "seconds")
_HEADS: Final = ("value held", "acceptance / gree", "preemption / gree", "uniformity / gree",
                 "gap", "seconds")  # fmt: skip

#: Figures of every agent.
_Agents = dict[str, dict[str, Figure]]


def _figures_of(points: Sequence[PlanningPoint]) -> _Agents:
    """Return the figures of every agent on one set, over the seeds."""
    found: _Agents = {}
    for name in AGENTS:
        own = [point.agents[name] for point in points]
        figures = {
            "value": figure_of([one.acceptance for one in own]),
            "seconds": figure_of([one.seconds for one in own]),
        }
        for metric in _RELATIVE if _holds_much(points, name) else _RELATIVE[:1]:
            base = [float(getattr(point.agents["gree"], metric)) for point in points]
            values = [float(getattr(one, metric)) for one in own]
            if all(base):
                pairs = zip(values, base, strict=True)
                figures[metric] = figure_of([value / of for value, of in pairs])
        gaps = [one.gap for one in own if one.gap is not None]
        if gaps:
            figures["gap"] = figure_of(gaps)
        found[name] = figures
    return found


def _holds_much(points: Sequence[PlanningPoint], name: str) -> bool:
    """Return whether an agent's plans have a shape to speak of: a tenth of GREE's value."""
    return all(
        point.agents[name].acceptance >= 0.1 * point.agents["gree"].acceptance for point in points
    )


def _claimed(found: dict[PlanningSet, _Agents]) -> dict[str, Figure]:
    """Return the figures that the paper says something of, among the sets that were run."""
    named = {
        f"{of.name}: {agent}, {metric}": figure
        for of, agents in found.items()
        for agent, figures in agents.items()
        for metric, figure in figures.items()
    }
    return {name: named[name] for name in _CLAIMS if name in named}


def _panels(found: dict[PlanningSet, _Agents]) -> list[ExperimentPanel]:
    """Draw each metric over the size of figure 12, then over the shares of figure 14."""
    panels = []
    lines = (
        ("figure 12: atoms of A", "atoms", [of for of in found if of.figure == "12"]),
        *(
            (f"figure 14: from A to {kind}", f"% of {kind}",
             [of for of in found if of.figure == "14" and of.kind in ("A", kind)])
            for kind in "BC"
        ),
    )  # fmt: skip
    for title, x_label, sets in lines:
        if len(sets) < 2:
            continue
        x = [of.jobs if of.figure == "12" else 100 * of.share for of in sets]
        for metric in ("acceptance", "preemption", "uniformity", "seconds"):
            series = [
                figure_series(agent, x, [found[of][agent][metric] for of in sets])
                for agent in AGENTS
                if all(metric in found[of][agent] for of in sets)
            ]
            timed = metric == "seconds"
            y_label = "s" if timed else f"{metric} / gree"
            panels.append(ExperimentPanel(title, x_label, y_label, series, log_y=timed, least=1e-4))
    return panels
