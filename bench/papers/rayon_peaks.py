"""Rayon's figure 3: how far the peak of a workflow is above its mean."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.rayon_workload import RayonWorkload, rayon_workload
from bench.papers.experiment import (
    TRACES,
    ExperimentEffort,
    ExperimentResult,
    Table,
    claims_table,
    reading,
)
from bench.papers.spread import Figure, figures_json
from service.importers.lines import open_trace
from service.importers.stages import number, read_rows
from service.pictures.experiments import ExperimentPanel, PanelSeries

_FILE: Final = "alibaba/v2018_dags_medium.csv.gz"
_ALIBABA, _DRAWN = "alibaba 2018", "workload C, drawn"
_COLUMNS: Final = ("job", "instances", "start_s", "end_s", "mean_inst_s", "plan_cpu_pct")
#: Workflows with less work (core-seconds) are not called large.
_LARGE_S: Final = 3600.0
#: Peak over mean at which shares are reported.
_RATIOS: Final = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 15.7, 20.0, 40.0)
#: The paper's over-estimation of peak provisioning, per cent (its 6.2.4).
_CLAIMED: Final = "about 1470"

#: Start and end (s) of a task, and the cores that it holds in between.
Task = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class WorkflowPeak:
    """One workflow.

    Attributes
    ----------
    work_s
        Core-seconds.
    ratio
        The most cores that it holds, over its mean.
    """

    name: str
    tasks: int
    work_s: float
    length_s: float
    ratio: float


def run_peaks(effort: ExperimentEffort) -> ExperimentResult:
    """Hold the peak of each workflow against its mean; draw the two with the highest peaks."""
    count = 200 if effort.small else 2_000
    root = os.environ.get(TRACES, "")
    file = Path(root) / _FILE
    sources: dict[str, dict[str, list[Task]]] = {}
    with reading(file):
        if root and file.is_file():
            sources[_ALIBABA] = read_workflows(file)
    sources[_DRAWN] = effort.parts([partial(_drawn_workflows, count)])[0]
    return _result(sources)


def read_workflows(file: Path) -> dict[str, list[Task]]:
    """Return the tasks of each recorded workflow; a task without a time or work is left out."""
    found: dict[str, list[Task]] = {}
    for line, row in read_rows(open_trace(str(file)), _COLUMNS):
        values = [number(row, name, line) for name in _COLUMNS[1:]]
        if any(value is None for value in values):
            continue
        instances, start, end, each_s, percent = (float(value or 0) for value in values)
        length = max(end - start, 1.0)
        cores = instances * each_s * percent / 100 / length
        if cores > 0:
            found.setdefault(row["job"], []).append((start, start + length, cores))
    return found


def _drawn_workflows(count: int) -> dict[str, list[Task]]:
    """Return workflows of workload C as they run alone, one stage after the other."""
    workload = RayonWorkload(mix=(0.0, 0.0, 1.0), jobs_per_hour=float(count))
    found = {}
    for job in rayon_workload(workload, np.random.default_rng(1)):
        tasks, at = [], 0.0
        for stage in job.stages:
            tasks.append((at, at + stage.alone_s, float(stage.tasks)))
            at += stage.alone_s
        found[job.name] = tasks
    return found


def profile_of(tasks: Sequence[Task]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the instants at which a workflow's cores change, and the cores from each on.

    The last is its end, where none are held.
    """
    starts, ends, cores = (np.array(column) for column in zip(*tasks, strict=True))
    at, place = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, place, np.concatenate([cores, -cores]))
    return at, np.cumsum(change)


def peak_of(name: str, tasks: Sequence[Task]) -> WorkflowPeak:
    """Return how far the most cores that a workflow holds lie above its mean."""
    at, cores = profile_of(tasks)
    work = float((np.diff(at) * cores[:-1]).sum())
    length = float(at[-1] - at[0])
    return WorkflowPeak(name, len(tasks), work, length, float(cores.max()) * length / work)


def _result(sources: Mapping[str, Mapping[str, list[Task]]]) -> ExperimentResult:
    peaks = {
        name: [peak_of(job, tasks) for job, tasks in jobs.items()] for name, jobs in sources.items()
    }
    rows = [(name, *_row(found)) for name, found in peaks.items()]
    header = ("workflows", "number", "peak over mean: median", "90 %", "99 %", "most",
              "over by peak, all, %")  # fmt: skip
    figures = {}
    for name, found in peaks.items():
        ratios = [one.ratio for one in found]
        figures[f"{name}: over-estimated by the peak, median, %"] = _over(float(np.median(ratios)))
        pair = [one.ratio for one in _largest(found)]
        figures[f"{name}: the two with the highest peaks, %"] = _over(float(np.mean(pair)))
    claims = dict.fromkeys(figures, _CLAIMED)
    document: dict[str, Any] = {
        "experiment": "rayon-peaks",
        "rows": [dict(zip(header, row, strict=True)) for row in rows],
        "claimed": figures_json(figures),
        "claims": claims,
    }
    tables = (Table.of(header, rows), claims_table("figure", figures, claims))
    first = next(iter(sources))
    panels = [_share_panel(peaks), *_drawings(first, sources[first], peaks[first])]
    return ExperimentResult(document, tables, panels)


def _row(found: Sequence[WorkflowPeak]) -> tuple[float, ...]:
    ratios = np.array([one.ratio for one in found])
    work = np.array([one.work_s for one in found])
    held = np.array([one.work_s * one.ratio for one in found])
    median, most_of, nearly_all, most = np.percentile(ratios, [50, 90, 99, 100])
    over = 100 * (float(held.sum() / work.sum()) - 1)
    return (len(found), float(median), float(most_of), float(nearly_all), float(most), over)


def _over(ratio: float) -> Figure:
    return Figure(100 * (ratio - 1), None)


def _largest(found: Iterable[WorkflowPeak]) -> list[WorkflowPeak]:
    """Return the two large workflows whose peaks are highest above their means."""
    known = list(found)
    large = [one for one in known if one.work_s >= _LARGE_S] or known
    return sorted(large, key=lambda one: -one.ratio)[:2]


def _share_panel(peaks: Mapping[str, Sequence[WorkflowPeak]]) -> ExperimentPanel:
    series = [
        PanelSeries(
            name,
            _RATIOS,
            [sum(one.ratio > ratio for one in found) / len(found) for ratio in _RATIOS],
        )
        for name, found in peaks.items()
    ]
    return ExperimentPanel(
        "how many workflows have a peak above this many times their mean (the paper's two: 15.7)",
        "peak over mean", "share of the workflows", series, log_x=True,
    )  # fmt: skip


def _drawings(
    source: str, jobs: Mapping[str, list[Task]], peaks: Sequence[WorkflowPeak]
) -> list[ExperimentPanel]:
    """Return the two workflows over time, both scaled to 1 as in the paper."""
    panels = []
    for one in _largest(peaks):
        at, cores = profile_of(jobs[one.name])
        x = np.repeat((at - at[0]) / (at[-1] - at[0]), 2)[1:]
        y = np.repeat(cores / cores.max(), 2)[:-1]
        title = f"{one.name} of {source}: {one.tasks} tasks, peak {one.ratio:.1f} times its mean"
        series = PanelSeries("", x.tolist(), y.tolist())
        panels.append(
            ExperimentPanel(title, "part of its time", "part of its peak", [series],
                            claimed=1 / one.ratio)
        )  # fmt: skip
    return panels
