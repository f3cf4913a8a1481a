"""`agenda estimate`: requests for recurring jobs from their finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from planner.history.back_test import RuleScore, back_test
from planner.history.estimate import JobEstimate, estimate
from planner.history.request import RequestForm
from planner.history.run import JobRun
from service.cli.client.server import Server, client_options
from service.cli.estimates.answers import (
    HEADER,
    SCORE_HEADER,
    document_of,
    rdl_of,
    row_of,
    score_rows,
    scores_document,
)
from service.cli.estimates.job_histories import (
    JobHistories,
    histories_of_files,
    history_of_server,
    jobs_of,
)
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE, STOPPED
from service.cli.terminal.options import (
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    duration,
    known_name,
    names,
    zone_named,
)
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    print_json,
    print_table,
    print_title,
)
from service.cli.terminal.progress import CommandProgress, running
from service.importers.runs.reading import RUN_FORMATS
from service.importers.runs.recurring_names import KEYS, USUAL_KEYS

_RDL = "rdl"
#: Requests are printed under the table for so many jobs; `-o rdl` and `-o json` print all.
_SHOWN_REQUESTS = 3
_DRAWN_JOBS = 6
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(2200, 1, 1)


def _keys(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return what tells jobs apart, separated by commas."""
    return tuple(known_name("key", one, KEYS) for one in names(value))


def _whole_step(value: str | int) -> int:
    """Return a step in seconds; plans here have whole ones."""
    if isinstance(value, int):
        return value
    milliseconds = duration(value)
    if milliseconds % 1000:
        raise click.BadParameter(f"{value} is not a whole number of seconds")
    return milliseconds // 1000


def _day(value: str | date) -> date:
    """Return a day of a century that plans are made in."""
    try:
        day = value if isinstance(value, date) else date.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value} is no day; write such as 2026-12-01") from error
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise click.BadParameter(f"{value} is not a day from {_FIRST_DAY} to {_LAST_DAY}")
    return day


@click.command("estimate")
@click.argument("files", type=READABLE_OR_STDIN, nargs=-1, metavar="[FILE]...")
@click.option(
    "--format",
    "format_",
    type=click.Choice(tuple(RUN_FORMATS)),
    help="What the files are.  [default: told by how each begins]",
)
@click.option(
    "--confidence",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Chance that the request holds the next run whole.",
)
@click.option("--job", metavar="NAME", help="Only the job of this name.")
@click.option(
    "--key",
    "keys",
    type=_keys,
    metavar="NAMES",
    default=",".join(USUAL_KEYS),
    show_default=True,
    help=f"What runs of one job share: some of {','.join(KEYS)}. Names without dates and numbers.",
)
@click.option(
    "--step",
    "step_s",
    type=_whole_step,
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="Step of the plan.",
)
@click.option(
    "--slack",
    type=FiniteRange(0, 100),
    default=0.5,
    show_default=True,
    help="What the window has beyond the predicted length, as a share of it.",
)
@click.option("--gang", is_flag=True, help="Ask for all containers at once; else for one at least.")
@click.option(
    "--zone",
    type=zone_named,
    metavar="NAME",
    default="UTC",
    show_default=True,
    help="Whose clocks count days.",
)
@click.option(
    "--for",
    "day",
    type=_day,
    metavar="DATE",
    help="First day that is asked for.  [default: the day after the last run]",
)
@click.option(
    "--back-test",
    "tested",
    is_flag=True,
    help="Predict the last 30 % of the time from what was before, by several rules.",
)
@click.option("--figure", type=WRITABLE, help="Draw each job's last run and what was predicted.")
@client_options
@format_option(TABLE, JSON, _RDL)
@reports_errors
def estimate_(
    files: tuple[str, ...],
    server: Server,
    format_: str | None,
    confidence: float,
    job: str | None,
    keys: tuple[str, ...],
    step_s: int,
    slack: float,
    gang: bool,
    zone: ZoneInfo,
    day: date | None,
    tested: bool,
    figure: Path | None,
    form: str,
) -> int:
    """Predict what recurring jobs need from finished runs: in FILEs, or else of a server.

    Files are logs in the Standard Workload Format, Slurm's `sacct --parsable2`, the apps of YARN's
    ResourceManager and the applications of a server, as JSON, and jobs.csv of a simulation. The
    first ^C prints what is done so far; the second gives up.
    """
    if figure is not None:
        from service.pictures.paths import check_picture_path

        check_picture_path(figure)
    read = histories_of_files(files, format_, zone) if files else [history_of_server(server)]
    found = jobs_of(read, keys, job)
    request = RequestForm(step_s, slack, gang, zone)
    with running("estimating jobs") as run:
        made = _estimates(found, confidence, request, day, run)
        scores = _scores(found.jobs, confidence, request, run) if tested else None
    if not made:
        return STOPPED
    if figure is not None:
        _draw(found.jobs, confidence, step_s, figure)
    if found.is_mean:
        click.echo("these histories have totals alone: each run counts as its mean width", err=True)
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
    from service.pictures.experiments import write_panels
    from service.pictures.predictions import last_run_panel

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
