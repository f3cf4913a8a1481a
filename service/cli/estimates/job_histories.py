"""The runs of each recurring job, from files or from a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import click

from planner.history.prediction import LEAST_RUNS
from planner.history.run import JobRun, runs_by_job
from rdl.errors import nearest
from service.cli.client.server import Server
from service.cli.terminal.errors import CliError, as_cli_error
from service.importers.runs.agenda_applications import read_applications
from service.importers.runs.finished_run import FinishedRun, RunHistory
from service.importers.runs.reading import read_history
from service.importers.runs.recurring_names import job_runs

_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True)
class JobHistories:
    """Runs of each job in order of their begins, those with the most work first.

    Attributes
    ----------
    calendar
        Whether times are instants.
    is_mean
        Whether only the mean width of some runs is known.
    """

    jobs: dict[str, list[JobRun]]
    calendar: bool
    is_mean: bool


def histories_of_files(files: Sequence[str], form: str | None, zone: ZoneInfo) -> list[RunHistory]:
    """Read files, one after the other; records left out are counted on standard error.

    Raises
    ------
    CliError
        If one cannot be read.
    """
    found = []
    for file in files:
        with as_cli_error(file):
            history = read_history(file, form, zone)
        _tell_skipped(file, history)
        found.append(history)
    return found


def history_of_server(server: Server) -> RunHistory:
    """Ask a server for the applications that completed.

    Raises
    ------
    CliError
        If it does not list them.
    """
    query = {"state": "completed"}
    entries = server.list_all("/v1/applications", "applications", query)
    with as_cli_error(server.url):
        history = read_applications({"applications": entries})
    _tell_skipped(server.url, history)
    return history


def _tell_skipped(where: str, history: RunHistory) -> None:
    if not history.skipped:
        return
    first, count = history.skipped[0], len(history.skipped)
    records = "1 record is" if count == 1 else f"{count:,} records are"
    click.echo(
        f"{where}: {records} left out, the first is {first.line}: {first.why}",
        err=True,
    )


def jobs_of(histories: Sequence[RunHistory], keys: Sequence[str], job: str | None) -> JobHistories:
    """Return the jobs that have enough runs, or the one that is asked for.

    Raises
    ------
    CliError
        If there is none, or histories with and without a calendar come together.
    """
    calendars = {history.calendar for history in histories if history.runs}
    if len(calendars) > 1:
        raise CliError(
            "one file has instants, another counts from the zero of a trace; estimate each alone"
        )
    jobs = runs_by_job(job_runs(_each_once(histories), keys))
    kept = {name: runs for name, runs in jobs.items() if len(runs) >= LEAST_RUNS}
    if job is not None:
        kept = {job: _asked(jobs, job)}
    if not kept:
        raise CliError(
            f"{len(jobs):,} jobs, and none has {LEAST_RUNS} runs that ended well; give more of the "
            "history, or tell jobs apart by less (--key)"
        )
    left = len(jobs) - len(kept)
    if left and job is None:
        click.echo(f"left out: {left:,} with fewer than {LEAST_RUNS} runs", err=True)
    works = {name: sum(run.work_s for run in runs) for name, runs in kept.items()}
    ordered = {name: kept[name] for name in sorted(kept, key=lambda name: (-works[name], name))}
    is_mean = any(history.is_mean for history in histories)
    return JobHistories(ordered, calendars != {False}, is_mean)


def _each_once(histories: Sequence[RunHistory]) -> list[FinishedRun]:
    """Return all runs; one that stands in two files counts once."""
    found: list[FinishedRun] = []
    seen: set[object] = set()
    for history in histories:
        here = [(run.name, run.user, run.queue, run.began_s, run.stretches) for run in history.runs]
        found += [run for run, key in zip(history.runs, here, strict=True) if key not in seen]
        seen.update(here)
    return found


def _asked(jobs: dict[str, list[JobRun]], job: str) -> list[JobRun]:
    if job not in jobs:
        some = ", ".join(list(jobs)[:_SHOWN_NAMES]) + (", ..." if len(jobs) > _SHOWN_NAMES else "")
        raise CliError(f"there is no job {job!r}; write {nearest(job, jobs) or some or 'another'}")
    if len(jobs[job]) < LEAST_RUNS:
        raise CliError(
            f"{job}: {len(jobs[job])} runs that ended well; at least {LEAST_RUNS} are needed"
        )
    return jobs[job]
