"""`python -m bench.papers NAME`: the papers' experiments, as tables, JSON and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bench.papers.catalogue import EXPERIMENTS, Experiment
from bench.papers.everything import ALL, run_all
from bench.papers.experiment import POLICIES, DrawnSizes, ExperimentEffort
from bench.papers.points import PointsFile
from service.cli.kit.errors import DONE, reports_errors
from service.cli.kit.options import (
    WRITABLE,
    FiniteRange,
    WorkerChoice,
    known_name,
    names,
    worker_options,
)
from service.cli.kit.output import JSON, TABLE, format_option, print_json, print_table
from service.cli.kit.progress import running

if TYPE_CHECKING:
    from bench.papers.cluster.records import JobsFile
    from bench.papers.experiment import ExperimentResult
    from lp.lotes.pipeline import Mode


_LISTED: Final = ("experiment", "time", "traces", "claim", "found")


def _experiment(value: str) -> str:
    """Return the name of an experiment; the message for another names the nearest, or all."""
    return known_name("experiment", value, (*EXPERIMENTS, ALL))


def _policies(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return names of policies separated by commas; the message for another names all."""
    found = names(value)
    for one in found:
        if one not in POLICIES:
            known = ", ".join(POLICIES)
            raise click.BadParameter(f"there is no policy {one!r}; write some of {known}")
    return found


@click.command()
@click.option("--list", "listed", is_flag=True, help="List the experiments.")
@click.argument("experiment", type=_experiment, required=False)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run seeds 1 to N; tables show the spread between them.",
)
@click.option(
    "--small",
    is_flag=True,
    help="Use sizes that take seconds: shows the form of the answer, not the claim.",
)
@click.option(
    "--machines-per-configuration",
    "machines",
    type=click.IntRange(1, 10_000),
    help="lotes-resources, lotes-rates: machines of each of the ten kinds.  [default: 1000]",
)
@click.option(
    "--hours",
    type=FiniteRange(0, 1000, min_open=True),
    help="lotes-resources, lotes-rates: simulated hours.  [default: 100]",
)
@click.option(
    "--policies",
    type=_policies,
    metavar="NAMES",
    help=f"lotes-resources, lotes-rates: some of {','.join(POLICIES)}.",
)
@click.option(
    "--mode",
    type=click.Choice(("priced", "paired", "paper")),
    help="lotes-resources, lotes-rates: LoTES plans over all bins (priced) or those of the paper, "
    "which are enumerated (paper) or made as they are needed (paired).",
)
@click.option("--picture", type=WRITABLE, help="Draw the result to this file, .svg or .png.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="With all: the folder for tables, pictures and the page index.md.")  # fmt: skip
@click.option("--jobs", type=WRITABLE, help="Write every job of every run to this file, CSV.")
@worker_options("each point (a seed of a setting)")
@click.option("--resume", type=WRITABLE, metavar="FILE",
              help="Keep each point that is done in FILE, and take over those in it.")  # fmt: skip
@format_option(TABLE, JSON)
@reports_errors
def main(
    experiment: str | None,
    listed: bool,
    seeds: int | None,
    small: bool,
    machines: int | None,
    hours: float | None,
    policies: tuple[str, ...] | None,
    mode: Mode | None,
    picture: Path | None,
    out: Path | None,
    jobs: Path | None,
    where: WorkerChoice,
    resume: Path | None,
    form: str,
) -> int:
    """Run EXPERIMENT; without a name, list all: time, traces, claim, whether it holds.

    The name all runs every experiment into the folder --out; the same command continues where it
    was stopped, and what has no traces is left out.

    Without --small the sizes are those of the papers: some experiments take minutes, and
    lotes-resources and lotes-rates many hours, unless fewer machines or hours are requested.
    lotes-trace, -arrivals, -queues, -drift and rayon-prediction need Google's 2011 trace in the
    folder that AGENDA_TRACES names; zoe-* and the other rayon-* sample the traces there, or draw
    from distributions if there are none. The first ^C lets the points at work end and prints what
    is done so far; the second gives up. With --resume the same command continues from there.
    """
    if listed or experiment is None:
        _print_list(form)
        return DONE
    if (experiment == ALL) != (out is not None):
        raise click.UsageError("--out DIR goes with the name all, and all needs it")
    if out is not None:
        _refuse_with_all(picture, jobs, resume, sizes=DrawnSizes(machines, hours, policies, mode))
        return _run_all(out, seeds, where, small=small)
    if picture is not None:
        from service.pictures.style import check_picture_path

        check_picture_path(picture)
    sizes = DrawnSizes(machines, hours, policies, mode)
    asked = EXPERIMENTS[experiment]
    _check(asked, sizes, jobs)
    with ExitStack() as held:
        # Before the first file is made: a cluster that does not answer leaves none behind.
        chosen = held.enter_context(where.open())
        points = None
        if resume is not None:
            points = held.enter_context(closing(PointsFile(resume, experiment)))
        records = None if jobs is None else held.enter_context(_jobs_file(jobs))
        run = held.enter_context(running(experiment))
        result = asked.run(ExperimentEffort(seeds, small, run, records, sizes, chosen, points))
    if picture is not None:
        from service.pictures.experiments import write_panels

        write_panels(experiment, result.panels, picture)
    if form == JSON:
        print_json(result.document)
        return DONE
    for index, table in enumerate(result.tables):
        if index:
            click.echo()
        print_table(table.header, table.rows)
    return DONE


def _print_list(form: str) -> None:
    """Print what there is to run, in two lines each where it is a table."""
    if form == JSON:
        fields = ("name", "help", "time", "traces", "claim", "found")
        print_json([{name: getattr(one, name) for name in fields} for one in EXPERIMENTS.values()])
        return
    rows = [
        (one.name, one.time, one.traces or "–", one.claim, one.found or "–")
        for one in EXPERIMENTS.values()
    ]
    print_table(_LISTED, rows)
    click.echo(
        "traces: folders of AGENDA_TRACES; in brackets, drawn from distributions without", err=True
    )


def _refuse_with_all(
    picture: Path | None, jobs: Path | None, resume: Path | None, sizes: DrawnSizes
) -> None:
    """Refuse options that are for one experiment."""
    if picture is not None or jobs is not None or resume is not None or sizes.any:
        raise click.UsageError("all takes --out, --seeds, --small, --workers and --dask only")


def _run_all(out: Path, seeds: int | None, where: WorkerChoice, *, small: bool) -> int:
    """Run every experiment into a folder; points that are done are kept there."""
    with where.open() as chosen, running(ALL) as run:

        def one(experiment: Experiment, points: Path) -> ExperimentResult:
            with closing(PointsFile(points, experiment.name)) as kept:
                effort = ExperimentEffort(seeds, small, run, workers=chosen, points=kept)
                return experiment.run(effort)

        done = run_all(out, one, run.stop)
    failed = [one.experiment.name for one in done if one.result is None]
    if failed:
        click.echo(f"not run: {', '.join(failed)}; index.md says why", err=True)
    click.echo(out / "index.md")
    return DONE


def _check(experiment: Experiment, sizes: DrawnSizes, jobs: Path | None) -> None:
    """Refuse what an experiment does not obey."""
    if sizes.any and not experiment.has_sizes:
        known = " and ".join(one.name for one in EXPERIMENTS.values() if one.has_sizes)
        raise click.UsageError(
            f"--machines-per-configuration, --hours, --policies and --mode are for {known} only"
        )
    if jobs is not None and not experiment.has_jobs:
        known = ", ".join(one.name for one in EXPERIMENTS.values() if one.has_jobs)
        raise click.UsageError(f"{experiment.name} writes no jobs; these do: {known}")


@contextmanager
def _jobs_file(path: Path) -> Iterator[JobsFile]:
    from bench.papers.cluster.records import JobsFile

    with path.open("w", newline="", encoding="utf-8") as file:
        yield JobsFile(file)


if __name__ == "__main__":
    main.main(prog_name="python -m bench.papers")
