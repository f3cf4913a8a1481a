"""Rayon's figure 13: recurring jobs predicted from their past runs (6.2.4), on recorded traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from bench.papers.experiment import (
    ExperimentEffort,
    ExperimentResult,
    Table,
    google_folder,
    reading,
)
from planner.history.prediction import MAXIMUM, MEAN, PEAK, PREDICTION, RuleScore, back_test, pooled
from planner.history.run import ONE_CORE, JobRun, run_of_tasks, runs_by_job
from service.importers.lines import open_trace
from service.importers.runs import USUAL_KEYS, job_runs
from service.importers.stages import number, read_rows
from service.importers.swf import read_swf_runs
from service.pictures.experiments import ExperimentPanel, last_run_panel

_KTH: Final = "swf/KTH-SP2-first20000.swf.gz"
_GOOGLE_NAME, _KTH_NAME = "google 2011", "kth sp2"
_CONFIDENCES: Final = (0.5, 0.8, 0.9, 0.95)
_DRAWN: Final = 0.9
#: The paper's figures: the predictor's average over-estimation, and that of static peaks.
_CLAIMED: Final = {PREDICTION: 0.0825, PEAK: 14.70}


@dataclass(frozen=True, slots=True)
class TraceTest:
    """The back-test of one trace at one confidence.

    Attributes
    ----------
    scores
        By rule, the score of each job.
    """

    trace: str
    confidence: float
    scores: dict[str, list[RuleScore]]


@dataclass(frozen=True, slots=True)
class _Trace:
    name: str
    jobs: Jobs
    step_s: int
    least_runs: int


def run_history(effort: ExperimentEffort) -> ExperimentResult:
    """Predict later runs of recurring jobs from earlier ones, by four rules."""
    folder = google_folder("rayon-prediction")
    kth = folder.parent / _KTH
    most = 6 if effort.small else 40
    with reading(folder):
        traces = [_Trace(_GOOGLE_NAME, google_jobs(folder, most), 10, 4)]
    if kth.is_file():
        with reading(kth):
            traces.append(_Trace(_KTH_NAME, kth_jobs(kth, most), 60, 8))
    confidences = _CONFIDENCES[:1] if effort.small else _CONFIDENCES
    parts: list[Callable[[], Any]] = [
        partial(_test, trace, confidence) for confidence in confidences for trace in traces
    ]
    return _result(effort.parts(parts), traces)


def _test(trace: _Trace, confidence: float) -> TraceTest:
    """Hold the last 30 % of the trace's time out; jobs by themselves, so that each has a score."""
    scores: dict[str, list[RuleScore]] = {name: [] for name in (PREDICTION, MAXIMUM, MEAN, PEAK)}
    for job, runs in trace.jobs.items():
        found = back_test({job: runs}, confidence, trace.step_s, least_runs=trace.least_runs)
        for name, score in found.items():
            if score.runs:
                scores[name].append(score)
    return TraceTest(trace.name, confidence, scores)


def _result(tests: list[TraceTest], traces: list[_Trace]) -> ExperimentResult:
    rows: list[tuple[object, ...]] = []
    for place, test in enumerate(tests):
        seen = {one.trace for one in tests[:place]}
        for rule, scores in test.scores.items():
            if rule == PREDICTION or test.trace not in seen:  # others know no confidence
                rows.append(_row(test, rule, scores))
    rows.sort(key=lambda row: (str(row[0]), str(row[1]) != PREDICTION))
    header = (
        "trace",
        "rule",
        "confidence",
        "jobs",
        "runs",
        "fit %",
        "over %",
        "over %, median job",
    )
    claims = _claims(tests)
    document = {
        "figure": "13",
        "rows": [dict(zip(header, row, strict=True)) for row in rows],
        "claims": [dict(zip(_CLAIM_HEADER, row, strict=True)) for row in claims],
    }
    tables = (Table.of(header, rows), Table.of(_CLAIM_HEADER, claims))
    return ExperimentResult(document, tables, _panels(traces))


def _row(test: TraceTest, rule: str, scores: list[RuleScore]) -> tuple[object, ...]:
    total = pooled(scores)
    confidence = test.confidence if rule == PREDICTION else None
    if not total.runs:
        return (test.trace, rule, confidence, 0, 0, None, None, None)
    middle = median(score.over for score in scores)
    return (
        test.trace, rule, confidence, len(scores), total.runs,
        100 * total.share, 100 * total.over, 100 * middle,
    )  # fmt: skip


_CLAIM_HEADER: Final = (
    "trace",
    "over-estimation %",
    "claimed",
    "here, all runs",
    "median job",
    "it",
)


def _claims(tests: list[TraceTest]) -> list[tuple[object, ...]]:
    """Return the paper's two figures alongside those of the least confidence, which gives least."""
    rows: list[tuple[object, ...]] = []
    for test in tests:
        if test.confidence != _CONFIDENCES[0]:
            continue
        for rule, claimed in _CLAIMED.items():
            scores = test.scores[rule]
            if not scores:
                continue
            here, middle = pooled(scores).over, median(score.over for score in scores)
            least, most = (0.0, claimed) if rule == PREDICTION else (claimed, float("inf"))
            said = "holds" if least <= here <= most else "does not hold"
            rows.append((test.trace, rule, 100 * claimed, 100 * here, 100 * middle, said))
    return rows


def _panels(traces: list[_Trace]) -> list[ExperimentPanel]:
    """Return the two jobs of each trace with the most work: their last run and its prediction."""
    panels: list[ExperimentPanel] = []
    for trace in traces:
        drawn = 0
        for runs in trace.jobs.values():
            panel = last_run_panel(runs, _DRAWN, trace.step_s)
            if panel is not None and drawn < 2:
                panels.append(panel)
                drawn += 1
    return panels


_WINDOW: Final = "0_70756s.csv.gz"
#: Of a job's tasks, how many may lack a run time.
_UNKNOWN: Final = 0.1
_LEAST_RUNS_GOOGLE: Final = 6
_LEAST_PEAK: Final = 4
_LEAST_RUNS_KTH: Final = 15

Jobs = dict[str, list[JobRun]]


def google_jobs(folder: Path, most: int) -> Jobs:
    """Return jobs of several tasks that came at least 6 times in the trace's first 19.6 hours.

    Jobs of one user and one logical name recur. A container is a task, whatever it asks for; nine
    of ten tasks of a run must have finished in the window.

    Parameters
    ----------
    most
        This many of them, those with the most work.

    Raises
    ------
    TraceError
        If a file is not as the trace's notes say.
    """
    columns = ("job_id", "submit_s", "user", "logical_name", "n_tasks")
    names: dict[str, tuple[str, float]] = {}
    for line, row in read_rows(open_trace(str(folder / f"jobs_{_WINDOW}")), columns):
        if number(row, "submit_s", line):  # else it was there before the trace
            tasks = number(row, "n_tasks", line) or 0.0
            names[row["job_id"]] = f"{row['user']}/{row['logical_name']}", tasks
    held, unknown = _tasks_of(folder, names)
    runs = [
        run_of_tasks(names[job][0], tasks, ONE_CORE)
        for job, tasks in held.items()
        if unknown[job] <= _UNKNOWN * names[job][1]
    ]
    jobs = {
        job: found
        for job, found in runs_by_job(runs).items()
        if len(found) >= _LEAST_RUNS_GOOGLE
        and float(np.median([run.peak for run in found])) >= _LEAST_PEAK
    }
    return _largest(jobs, most)


def _tasks_of(
    folder: Path, names: dict[str, tuple[str, float]]
) -> tuple[dict[str, list[tuple[float, float]]], Counter[str]]:
    """Return begin and end of each task that finished, by job, and how many did not."""
    held: dict[str, list[tuple[float, float]]] = {}
    unknown: Counter[str] = Counter()
    columns = ("job_id", "run_s", "last_s")
    for line, row in read_rows(open_trace(str(folder / f"tasks_{_WINDOW}")), columns):
        job = row["job_id"]
        if job not in names:
            continue
        ran, end = number(row, "run_s", line), number(row, "last_s", line)
        if ran is None or end is None or ran <= 0:
            unknown[job] += 1
        else:
            held.setdefault(job, []).append((end - ran, end))
    return held, unknown


def kth_jobs(file: Path, most: int) -> Jobs:
    """Return jobs of KTH's log that ran at least 15 times: one user, processors and time asked for.

    Parameters
    ----------
    most
        This many of them, those with the most work.

    Raises
    ------
    TraceError
        If the log cannot be read.
    """
    runs = job_runs(read_swf_runs(open_trace(str(file))).runs, USUAL_KEYS)
    jobs = {job: one for job, one in runs_by_job(runs).items() if len(one) >= _LEAST_RUNS_KTH}
    return _largest(jobs, most)


def _largest(jobs: Jobs, most: int) -> Jobs:
    works = {job: sum(run.work_s for run in runs) for job, runs in jobs.items()}
    return {job: jobs[job] for job in sorted(jobs, key=lambda job: -works[job])[:most]}
