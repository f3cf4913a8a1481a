"""`agenda simulate`: the papers' experiments, as tables, JSON and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.errors import reports_errors
from service.cli.exit_codes import DONE
from service.cli.experiments.catalogue import EXPERIMENTS
from service.cli.experiments.effort import POLICIES, DrawnSizes, Experiment, ExperimentEffort
from service.cli.options import WRITABLE, FiniteRange, names, unknown_name
from service.cli.output import JSON, TABLE, format_option, print_json, print_table
from service.cli.progress import running

if TYPE_CHECKING:
    from service.cli.experiments.outcomes import ExperimentResult


def _experiment(value: str) -> str:
    """Return the name of an experiment; the message for another names the nearest, or all."""
    if value in EXPERIMENTS:
        return value
    raise unknown_name("experiment", value, EXPERIMENTS)


def _policies(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return names of policies separated by commas; the message for another names all."""
    found = names(value)
    for one in found:
        if one not in POLICIES:
            known = ", ".join(POLICIES)
            raise click.BadParameter(f"there is no policy {one!r}; write some of {known}")
    return found


@click.command()
@click.argument("experiment", type=_experiment, required=False)
@click.option("--seeds", type=click.IntRange(min=1), help="Seeds 1 to so many; spread over them.")
@click.option("--small", is_flag=True, help="Sizes that take seconds, to see what comes out.")
@click.option(
    "--machines-per-configuration",
    "machines",
    type=click.IntRange(1, 10_000),
    help="lotes-resources, lotes-rates: machines of each of the ten kinds (1000).",
)
@click.option(
    "--hours",
    type=FiniteRange(0, 1000, min_open=True),
    help="lotes-resources, lotes-rates: simulated hours (100).",
)
@click.option(
    "--policies",
    type=_policies,
    metavar="NAMES",
    help=f"lotes-resources, lotes-rates: of {','.join(POLICIES)}.",
)
@click.option(
    "--mode",
    type=click.Choice(("priced", "paper")),
    help="lotes-resources, lotes-rates: LoTES plans over all bins (priced) or the paper's.",
)
@click.option("--picture", type=WRITABLE, help="Draw it here, .svg or .png.")
@click.option("--jobs", type=WRITABLE, help="Write every job of every run here, CSV.")
@format_option(TABLE, JSON)
@reports_errors
def simulate(experiment: str | None, form: str, picture: Path | None, **asked: Any) -> int:
    """Run EXPERIMENT; without one, list them.

    Without --small the sizes are the papers': some take minutes, lotes-resources and lotes-rates
    many hours, unless asked for fewer machines or hours. lotes-trace and lotes-drift read Google's
    2011 trace below the folder that AGENDA_TRACES names; zoe-* and rayon-* sample the
    traces there, and draw where there are none. The first ^C prints what is done
    so far where an experiment has parts; the second gives up.
    """
    if experiment is None:
        print_table(("experiment", "what"), [(one.name, one.help) for one in EXPERIMENTS.values()])
        return DONE
    if picture is not None:
        from service.pictures.paths import check_picture_path

        check_picture_path(picture)
    outcome = _run(EXPERIMENTS[experiment], **asked)
    if picture is not None:
        from service.pictures.experiments import write_panels

        write_panels(experiment, outcome.panels, picture)
    if form == JSON:
        print_json(outcome.document)
        return DONE
    for index, table in enumerate(outcome.tables):
        if index:
            click.echo()
        print_table(table.header, table.rows)
    return DONE


def _run(
    experiment: Experiment, seeds: int | None, small: bool, jobs: Path | None, **sizes: Any
) -> ExperimentResult:
    """Run an experiment; where asked for, every job is written as its run ends."""
    asked = DrawnSizes(**sizes)
    if asked.any and not experiment.has_sizes:
        known = " and ".join(one.name for one in EXPERIMENTS.values() if one.has_sizes)
        raise click.UsageError(
            f"--machines-per-configuration, --hours, --policies and --mode are for {known} only"
        )
    if jobs is None:
        with running(experiment.name) as run:
            return experiment.run(ExperimentEffort(seeds, small, run, sizes=asked))
    if not experiment.has_jobs:
        known = ", ".join(one.name for one in EXPERIMENTS.values() if one.has_jobs)
        raise click.UsageError(f"{experiment.name} writes no jobs; these do: {known}")
    from dispatch.simulation.records import JobsFile

    with jobs.open("w", newline="", encoding="utf-8") as file, running(experiment.name) as run:
        return experiment.run(ExperimentEffort(seeds, small, run, JobsFile(file), asked))
