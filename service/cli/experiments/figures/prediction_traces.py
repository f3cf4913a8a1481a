"""Recurring jobs of recorded traces: Google's of 2011 with their tasks, and KTH's log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from planner.history.run import ONE_CORE, JobRun, run_of_tasks, runs_by_job
from service.importers.lines import open_trace
from service.importers.runs.recurring_names import USUAL_KEYS, job_runs
from service.importers.runs.swf_runs import read_swf_runs
from service.importers.stages import number, read_rows

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
        So many of them, those with the most work.

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
        So many of them, those with the most work.

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
