"""`agenda lotes`: job classes on a cluster, from lambda at each stage to the dispatch table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from service.cli.lotes_output import LotesInput, print_answer
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR
from service.cli.terminal.options import (
    READABLE,
    WRITABLE,
    arrival_rate,
    known_name,
    read_text,
    seed_option,
)
from service.cli.terminal.output import format_option
from service.cli.terminal.progress import running

if TYPE_CHECKING:
    from lp.lotes.pipeline import LotesResult

_SOLVERS = ("highs", "glop", "pdlp", "pulp:CBC")


def _solver(value: str) -> str:
    """Return a solver's name; `pulp:` takes any that PuLP knows."""
    if value not in _SOLVERS and value.startswith("pulp:") and len(value) > len("pulp:"):
        from lp.solver import backend_named

        try:
            backend_named(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return value
    return known_name("solver", value, _SOLVERS)


@click.command()
@click.argument("cluster", type=READABLE)
@click.argument("classes", type=READABLE, metavar="CLASSES|WORKLOAD|PLAN")
@click.option(
    "--mode",
    type=click.Choice(("priced", "paired", "paper")),
    default="priced",
    show_default=True,
    help="Find bins by column generation over every pair, or over the pairs of the paper's first "
    "stage (paired), or enumerate the latter as the paper does.",
)
@click.option(
    "--solver",
    type=_solver,
    metavar="NAME",
    default="highs",
    show_default=True,
    help="Solver of the LPs: highs, glop, pdlp or pulp:NAME.",
)
@click.option(
    "--wheel",
    type=click.Choice(("delta", "flow")),
    default="delta",
    show_default=True,
    help="Share a class's arrivals among machines by jobs in service, or by jobs finished.",
)
@seed_option("the clustering")
@click.option(
    "--rate",
    type=arrival_rate,
    metavar="RATE",
    help="Say what this rate of arrivals does: 3000/h, 50/m or 0.8/s.",
)
@click.option("--explain", is_flag=True, help="Also print every intermediate result.")
@click.option("--picture", type=WRITABLE, help="Draw the result to this file, .svg or .png.")
@format_option()
@reports_errors
def lotes(
    cluster: Path,
    classes: Path,
    mode: Literal["priced", "paired", "paper"],
    solver: str,
    wheel: Literal["delta", "flow"],
    seed: int,
    rate: float | None,
    explain: bool,
    picture: Path | None,
    form: str,
) -> int:
    """Show how much work of these classes CLUSTER sustains, and which machine should run what.

    Classes come from a class file (TOML), from the requests of a workload (JSON Lines) or from the
    allocations of a Plan (JSON). lambda is the total arrival rate, in jobs a second, at each stage:
    the allocation LP (machines pooled), the machine-assignment LP (whole jobs in bins), rounded to
    whole machines. --rate says what a rate of arrivals does: whether it is served, what it uses,
    and which class is the first to wait without end. -o json prints the dispatch table; --explain
    adds every step on the way.
    """
    from dispatch.tables.job_classes import plan_work
    from lp.lotes.pipeline import LotesOptions, plan_lotes
    from service.pictures.paths import check_picture_path

    if picture is not None:
        check_picture_path(picture)
    options = LotesOptions(mode=mode, wheel=wheel, solver=solver)
    with running("job classes") as run:
        run.progress(0, 2)
        inputs = replace(_read(cluster, classes), asked_per_h=rate)
        run.progress(1, 2)
        try:
            if inputs.instance is not None:
                result = plan_lotes(inputs.instance, options)
            else:
                assert inputs.work is not None
                result = plan_work(inputs.cluster, inputs.work, seed, options)
        except ValueError as error:
            raise CliError(f"{classes}: {error}") from error
        run.progress(2, 2)
    if picture is not None:
        from service.pictures.lotes import write_lotes

        write_lotes(result, inputs.own_rate_per_h, picture)
    print_answer(inputs, result, form, explain)
    return _warn(inputs, result)


def _read(cluster_path: Path, path: Path) -> LotesInput:
    """Read the cluster and the classes, or the work they are made of."""
    from dispatch.tables.job_classes import instance_of_classes, work_of_plan, work_of_requests
    from planner.files import read_classes, read_cluster, read_plan

    source = kind_of_file(path)
    if source == "classes":
        cluster = read_cluster(cluster_path)
        instance = instance_of_classes(cluster, read_classes(path), str(path))
        return LotesInput(cluster, source, instance)
    if source == "plan":
        cluster, document = read_cluster(cluster_path), read_plan(path)
        work = work_of_plan(cluster, document.reservations, document.step_s)
    else:
        from service.cli.plans.plan import read_day

        cluster, compiled = read_day(cluster_path, path)
        for left in compiled.refusals:
            click.echo(f"{path}: {left.line.id} left out: {left.error}", err=True)
        work = work_of_requests(cluster, compiled.requests)
    if not work.jobs:
        raise CliError(f"{path}: there is no work to make job classes of")
    return LotesInput(cluster, source, work=work)


def kind_of_file(path: Path) -> str:
    """Return `classes`, `workload` or `plan`, by what the file begins with.

    JSON begins with a brace: a Plan is one object with reservations, a workload an object a line.
    Anything else is TOML.
    """
    import json

    text = read_text(str(path)).lstrip()
    if not text.startswith("{"):
        return "classes"
    if '"rdl"' in text.partition("\n")[0]:
        return "workload"
    if text[1:].lstrip().startswith('"cluster"'):
        return "plan"
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return "workload"
    return "plan" if isinstance(whole, dict) and "reservations" in whole else "workload"


def _warn(inputs: LotesInput, result: LotesResult) -> int:
    """Report on standard error what is not served; an error if that is everything."""
    for left in result.classes_without_machine:
        too_large = 1 < left.shortfall < float("inf")
        nearest = f"; nearest is {left.nearest}, one takes {left.shortfall:.2f} of it"
        message = f"class {left.name!r} gets nothing: {left.reason}{nearest if too_large else ''}"
        click.echo(message, err=True)
    for name in result.allocation.free:
        click.echo(f"class {name!r} asks for nothing and limits nothing", err=True)
    if not result.arrival_rate and result.assignment.relaxed_rate:
        held = (result.assignment.in_service * result.instance.rate).sum(axis=0) > 0
        idle = int((~held & (result.instance.classes.share > 0)).sum()) - len(
            result.classes_without_machine
        )
        click.echo(
            f"agenda: {len(result.table.classes):,} classes are too many for "
            f"{result.table.machines:,} machines: rounded to whole ones, some class has none and "
            f"lambda is 0 ({idle:,} classes get nothing)",
            err=True,
        )
        return ERROR
    if not result.arrival_rate:
        click.echo("agenda: no class has a machine at a positive rate: lambda is 0", err=True)
        return ERROR
    own = inputs.own_rate_per_h
    if own is not None and own > result.arrival_rate:
        click.echo(
            f"the {inputs.source} brings {own / result.arrival_rate:.2f} times what the machines "
            "sustain: its queue grows without end",
            err=True,
        )
    return DONE
