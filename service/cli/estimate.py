"""`agenda estimate`: predict the requests of recurring jobs from their finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from planner.history.effects import Drift
from planner.history.estimate import (
    DayPrediction,
    JobEstimate,
    begin_text,
    days_text,
    estimate,
    runs_needed,
)
from planner.history.prediction import LATEST, LEAST_RUNS, RuleScore, back_test
from planner.history.request import RequestForm
from planner.history.run import JobRun, runs_by_job
from rdl.codecs.json_codec import to_json
from rdl.errors import nearest
from rdl.resources import Resources
from rdl.text.formatter import format_pretty
from rdl.time_grid import duration_text
from service.cli.kit.commands import flag, server_command
from service.cli.kit.errors import DONE, STOPPED, CliError, as_cli_error
from service.cli.kit.options import (
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    duration,
    known_name,
    names,
    option_group,
    zone_named,
)
from service.cli.kit.output import JSON, TABLE, print_json, print_table, print_title
from service.cli.kit.progress import CommandProgress, running
from service.cli.kit.server import Server
from service.importers.histories import RUN_FORMATS, read_applications, read_history
from service.importers.runs import KEYS, USUAL_KEYS, FinishedRun, RunHistory, job_runs

_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True)
class JobHistories:
    """Runs of each job in order of their starts; jobs with the most work come first.

    Attributes
    ----------
    calendar
        Whether times are instants, not offsets from a trace's zero.
    is_mean
        Whether some runs have only a mean width.
    """

    jobs: dict[str, list[JobRun]]
    calendar: bool
    is_mean: bool


@dataclass(frozen=True, slots=True)
class JobChoice:
    """Which jobs to estimate: the keys that distinguish them, and the name of the only one."""

    job: str | None
    keys: tuple[str, ...]


def histories_of_files(files: Sequence[str], form: str | None, zone: ZoneInfo) -> list[RunHistory]:
    """Read files in order; the number of skipped records is printed to standard error.

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
    """Return the completed applications of a server.

    Raises
    ------
    CliError
        If the server does not list them.
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


def jobs_of(histories: Sequence[RunHistory], choice: JobChoice) -> JobHistories:
    """Return the jobs that have enough runs, or the requested job.

    Raises
    ------
    CliError
        If there is none, or if histories with and without a calendar are mixed.
    """
    calendars = {history.calendar for history in histories if history.runs}
    if len(calendars) > 1:
        raise CliError(
            "one file has instants, another counts from the zero of a trace; estimate each alone"
        )
    job = choice.job
    jobs = runs_by_job(job_runs(_each_once(histories), choice.keys))
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
    """Return all runs; a run that is in two files counts once."""
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


HEADER: Final = (
    "job", "runs", "period", "begins", "confidence", "takes", "at most", "over %", "noticed",
)  # fmt: skip
SCORE_HEADER: Final = ("rule", "runs", "fit %", "over %")

_WEEK: Final = 7


def row_of(estimate: JobEstimate) -> list[object]:
    """Return the row of one job, under `HEADER`."""
    profiles = [part.prediction.profile for part in estimate.parts]
    period = estimate.period
    return [
        estimate.job,
        estimate.all_runs,
        None if period is None else duration_text(1000 * period.seconds),
        begin_text(estimate) or None,
        f"{estimate.confidence:.2f}",
        duration_text(1000 * max(profile.length_s for profile in profiles)),
        int(max(profile.widths.max() for profile in profiles)),
        f"{100 * estimate.over:+.0f}",
        "; ".join(_noticed(estimate)) or None,
    ]


def _noticed(estimate: JobEstimate) -> list[str]:
    found = [drift_text(drift) for part in estimate.parts[:1] for drift in part.prediction.drifts]
    effect = estimate.parts[0].prediction.weekdays
    return [*found, *([effect.text()] if effect else [])]


def drift_text(drift: Drift) -> str:
    """Describe a trend in words."""
    return f"{drift.of} {100 * drift.change:+.0f} % over {drift.runs} runs"


def notes_of(estimate: JobEstimate, confidence: float) -> list[str]:
    """Return the caveats of an estimate, a missed confidence first."""
    notes = list(estimate.notes)
    if estimate.confidence < confidence - 1e-9:
        counted = min(part.prediction.runs for part in estimate.parts)
        needed = runs_needed(confidence)
        wanted = f"{confidence:g} needs {needed}"
        if needed > LATEST:
            most = LATEST / (LATEST + 1)
            wanted = f"the latest {LATEST} count, so {most:.2f} is the most that can be had"
        said = f"{counted} runs give a confidence of {estimate.confidence:.2f}; {wanted}"
        notes.insert(0, said)
    return notes


def rdl_of(estimate: JobEstimate, confidence: float) -> str:
    """Return the request of a job in RDL, with its caveats as comments."""
    head = f"{estimate.job}: {estimate.all_runs} runs, confidence {estimate.confidence:.2f}"
    said = [head, *notes_of(estimate, confidence)]
    comments = "".join(f"# {_one_line(line)}\n" for line in said)
    return f"{comments}{format_pretty(estimate.expression)}\n"


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def document_of(estimate: JobEstimate, confidence: float) -> dict[str, Any]:
    """Return one estimate as plain JSON."""
    period = estimate.period
    return {
        "job": estimate.job,
        "runs": estimate.all_runs,
        "counted": len(estimate.runs),
        "period_s": None if period is None else period.seconds,
        "begin": begin_text(estimate) or None,
        "confidence": estimate.confidence,
        "over": estimate.over,
        "container": Resources.of(dict(_bundle(estimate))).to_json(),
        "parts": [_part(part) for part in estimate.parts],
        "notes": notes_of(estimate, confidence),
        "rdl": format_pretty(estimate.expression),
        "rdl_json": to_json(estimate.expression),
    }


def _bundle(estimate: JobEstimate) -> Mapping[str, int]:
    names = sorted({name for run in estimate.runs for name in run.bundle})
    return {name: max(run.bundle.get(name, 0) for run in estimate.runs) for name in names}


def _part(part: DayPrediction) -> dict[str, Any]:
    found = part.prediction
    return {
        "days": "every" if len(part.days) == _WEEK else days_text(part.days),
        "runs": found.runs,
        "confidence": found.confidence,
        "length_s": found.profile.length_s,
        "container_s": found.profile.work_s,
        "steps": [
            {"seconds": buckets * found.profile.bucket_s, "containers": width}
            for buckets, width in found.profile.steps()
        ],
        "drifts": [
            {"of": drift.of, "change": drift.change, "runs": drift.runs} for drift in found.drifts
        ],
        "weekdays": None if found.weekdays is None else found.weekdays.text(),
    }


def score_rows(scores: Mapping[str, RuleScore]) -> Sequence[Sequence[object]]:
    """Return a row for each rule, under `SCORE_HEADER`."""
    return [
        (name, one.runs, *((f"{100 * one.share:.1f}", f"{100 * one.over:+.1f}") if one.runs else
                           (None, None)))
        for name, one in scores.items()
    ]  # fmt: skip


def scores_document(scores: Mapping[str, RuleScore]) -> dict[str, Any]:
    """Return the scores of rules as plain JSON; a rule that was not tested has no shares."""
    return {
        name: {
            "runs": one.runs,
            "fit": one.share if one.runs else None,
            "over": one.over if one.runs else None,
        }
        for name, one in scores.items()
    }


_RDL = "rdl"
#: Requests are printed under the table for this many jobs; `-o rdl` and `-o json` print all.
_SHOWN_REQUESTS = 3
_DRAWN_JOBS = 6
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(2200, 1, 1)


def _keys(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys, separated by commas, that distinguish jobs."""
    return tuple(known_name("key", one, KEYS) for one in names(value))


def _whole_step(value: str | int) -> int:
    """Return a step in whole seconds."""
    if isinstance(value, int):
        return value
    milliseconds = duration(value)
    if milliseconds % 1000:
        raise click.BadParameter(f"{value} is not a whole number of seconds")
    return milliseconds // 1000


def _day(value: str | date) -> date:
    """Return a date within the years that plans support."""
    try:
        day = value if isinstance(value, date) else date.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value} is no day; write such as 2026-12-01") from error
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise click.BadParameter(f"{value} is not a day from {_FIRST_DAY} to {_LAST_DAY}")
    return day


@server_command(
    None,
    "estimate",
    click.argument("files", type=READABLE_OR_STDIN, nargs=-1, metavar="[FILE]..."),
    click.option(
        "--format",
        "format_",
        type=click.Choice(tuple(RUN_FORMATS)),
        help="What the files are.  [default: told by how each begins]",
    ),
    click.option(
        "--confidence",
        type=FiniteRange(0, 1, min_open=True, max_open=True),
        default=0.9,
        show_default=True,
        help="Chance that the request holds the next run whole.",
    ),
    option_group(
        "choice",
        JobChoice,
        click.option("--job", metavar="NAME", help="Only the job of this name."),
        click.option(
            "--key",
            "keys",
            type=_keys,
            metavar="NAMES",
            default=",".join(USUAL_KEYS),
            show_default=True,
            help=f"What runs of one job share: some of {','.join(KEYS)}. Names without dates and "
            "numbers.",
        ),
    ),
    option_group(
        "request",
        RequestForm,
        click.option(
            "--step",
            "step_s",
            type=_whole_step,
            metavar="DURATION",
            default="60s",
            show_default=True,
            help="Step of the plan.",
        ),
        click.option(
            "--slack",
            type=FiniteRange(0, 100),
            default=0.5,
            show_default=True,
            help="What the window has beyond the predicted length, as a share of it.",
        ),
        flag("--gang", "Ask for all containers at once; else for one at least."),
        click.option(
            "--zone",
            type=zone_named,
            metavar="NAME",
            default="UTC",
            show_default=True,
            help="Whose clocks count days.",
        ),
    ),
    click.option(
        "--for",
        "day",
        type=_day,
        metavar="DATE",
        help="First day that is requested.  [default: the day after the last run]",
    ),
    click.option(
        "--back-test",
        "tested",
        is_flag=True,
        help="Predict the last 30 % of the time from what was before, by several rules.",
    ),
    click.option(
        "--figure", type=WRITABLE, help="Draw each job's last run and what was predicted."
    ),
    forms=(TABLE, JSON, _RDL),
    shows_itself=True,
)
def estimate_(
    files: tuple[str, ...],
    server: Server,
    format_: str | None,
    confidence: float,
    choice: JobChoice,
    request: RequestForm,
    day: date | None,
    tested: bool,
    figure: Path | None,
    form: str,
) -> int:
    """Predict the needs of recurring jobs from finished runs in FILEs, or else of a server.

    Files are logs in the Standard Workload Format, Slurm's `sacct --parsable2`, the apps of YARN's
    ResourceManager and the applications of a server, as JSON, and jobs.csv of a simulation. The
    first ^C prints the results so far; the second exits.
    """
    if figure is not None:
        from service.pictures.style import check_picture_path

        check_picture_path(figure)
    histories = (
        histories_of_files(files, format_, request.zone) if files else [history_of_server(server)]
    )
    found = jobs_of(histories, choice)
    with running("estimating jobs") as run:
        made = _estimates(found, confidence, request, day, run)
        scores = _scores(found.jobs, confidence, request, run) if tested else None
    if not made:
        return STOPPED
    if figure is not None:
        _draw(found.jobs, confidence, request.step_s, figure)
    if found.is_mean:
        click.echo(
            "these histories have only totals: each run counts with its mean width", err=True
        )
    _print(made, scores, confidence, form)
    return DONE


def _estimates(
    found: JobHistories,
    confidence: float,
    request: RequestForm,
    day: date | None,
    run: CommandProgress,
) -> list[JobEstimate]:
    made: list[JobEstimate] = []
    for runs in found.jobs.values():
        run.progress(len(made), len(found.jobs))
        if run.stop():
            click.echo(f"stopped after {len(made)} of {len(found.jobs)} jobs", err=True)
            break
        made.append(estimate(runs, confidence, request, day, calendar=found.calendar))
    return made


def _scores(
    jobs: Mapping[str, Sequence[JobRun]],
    confidence: float,
    request: RequestForm,
    run: CommandProgress,
) -> dict[str, RuleScore]:
    def go_on(done: int, count: int) -> bool:
        run.progress(done, count)
        if run.stop() and done < count:
            click.echo(f"the back-test stopped after {done} of {count} jobs", err=True)
        return not run.stop()

    return back_test(jobs, confidence, request.step_s, zone=request.zone, go_on=go_on)


def _draw(
    jobs: Mapping[str, Sequence[JobRun]], confidence: float, step_s: int, figure: Path
) -> None:
    from service.pictures.experiments import last_run_panel, write_panels

    panels = [
        last_run_panel(runs, confidence, step_s) for runs in list(jobs.values())[:_DRAWN_JOBS]
    ]
    drawn = [panel for panel in panels if panel is not None]
    if not drawn:
        click.echo(f"{figure} is not written: no job has 3 runs before its last one", err=True)
        return
    if len(jobs) > len(drawn):
        click.echo(f"{figure}: {len(drawn)} of {len(jobs)} jobs, those with most work", err=True)
    write_panels(f"last runs and predictions of them, confidence {confidence:g}", drawn, figure)


def _print(
    made: Sequence[JobEstimate],
    scores: Mapping[str, RuleScore] | None,
    confidence: float,
    form: str,
) -> None:
    if form == JSON:
        jobs = [document_of(one, confidence) for one in made]
        tested = None if scores is None else scores_document(scores)
        print_json({"confidence": confidence, "jobs": jobs, "back_test": tested})
        return
    if form == _RDL:
        click.echo("\n".join(rdl_of(one, confidence) for one in made), nl=False)
        return
    print_title("takes: least and most at once; over %: asked beyond what past runs used")
    print_table(HEADER, [row_of(one) for one in made])
    for one in made[:_SHOWN_REQUESTS]:
        click.echo()
        click.echo(rdl_of(one, confidence), nl=False)
    if len(made) > _SHOWN_REQUESTS:
        click.echo(f"\n{len(made) - _SHOWN_REQUESTS} more requests: --job NAME, or -o rdl")
    if scores is not None:
        click.echo()
        print_title("held-out runs, by the rule that asked for them")
        print_table(SCORE_HEADER, score_rows(scores))
