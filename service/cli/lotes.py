"""`agenda lotes`: analyse job classes on a cluster, from lambda per stage to a dispatch table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.kit.commands import ALL_FORMS, Answer, flag, server_command
from service.cli.kit.errors import DONE, ERROR, CliError
from service.cli.kit.options import (
    READABLE,
    WRITABLE,
    arrival_rate,
    known_name,
    option_group,
    read_text,
    seed_option,
)
from service.cli.kit.output import print_csv, print_table
from service.cli.kit.progress import running

if TYPE_CHECKING:
    from dispatch.tables import JobSample
    from lp.lotes.instance import LotesInstance
    from lp.lotes.pipeline import LotesOptions, LotesResult, RateAnswer
    from planner.cluster.cluster import Cluster

_SHOWN_BINS = 40
_TABLE_COLUMNS = ("class", "machines", "part", "target")


@dataclass(frozen=True, slots=True)
class LotesInput:
    """The input of the LPs and its source.

    Attributes
    ----------
    source
        `classes`, `workload` or `plan`.
    instance
        The classes of a class file; None if they are derived from jobs.
    work
        The jobs from which classes are derived; None for a class file, which has no rate.
    asked_per_h
        The rate given by the user, or None.
    """

    cluster: Cluster
    source: str
    instance: LotesInstance | None = None
    work: JobSample | None = None
    asked_per_h: float | None = None

    @property
    def own_rate_per_h(self) -> float | None:
        """The arrival rate of the jobs; None without jobs."""
        return None if self.work is None else self.work.rate_per_h


def lotes_json(result: LotesResult) -> dict[str, Any]:
    """Return the JSON of docs/files.md: lambda in jobs per second, pairs, bins, dispatch table.

    Bins are in order of their machines: `first` is the index of the first one in its group.
    """
    return {
        "lambda_allocation": result.allocation.arrival_rate / 3600,
        "lambda_assignment": result.assignment.relaxed_rate / 3600,
        "lambda_rounded": result.arrival_rate / 3600,
        "mode": result.mode,
        "pairs": _pairs(result),
        "bins": _bins(result),
        "table": _table(result),
    }


def _pairs(result: LotesResult) -> list[dict[str, Any]]:
    """Return the nonzero allocations of stage 1 for each class and group."""
    configurations, classes = result.instance.configurations, result.instance.classes
    allocation = result.allocation
    return [
        {
            "machines": configurations.names[j],
            "class": classes.names[k],
            "in_service": float(allocation.in_service[j, k]),
            "share": {
                name: float(allocation.share[j, k, index])
                for index, name in enumerate(configurations.resources)
            },
        }
        for j, k in zip(*allocation.pairs.nonzero(), strict=True)
    ]


def _bins(result: LotesResult) -> list[dict[str, Any]]:
    """Return the bins in use."""
    configurations, names = result.instance.configurations, result.instance.classes.names
    assignment = result.assignment
    found, first = [], dict.fromkeys(configurations.names, 0)
    for j, jobs, machines in zip(
        assignment.bins.configuration.tolist(),
        assignment.bins.jobs.tolist(),
        assignment.machines.tolist(),
        strict=True,
    ):
        if not machines:
            continue
        group = configurations.names[j]
        held = {name: count for name, count in zip(names, jobs, strict=True) if count}
        found.append({"machines": group, "first": first[group], "count": machines, "jobs": held})
        first[group] += machines
    return found


def _table(result: LotesResult) -> list[dict[str, Any]]:
    """Return the dispatch table: the share of a class's arrivals per group, and its target."""
    configurations, classes = result.instance.configurations, result.instance.classes
    wheel, target = result.table.wheel, result.assignment.in_service
    return [
        {
            "class": classes.names[k],
            "machines": configurations.names[j],
            "part": float(wheel[j, k]),
            "target": int(target[j, k]),
        }
        for k in range(len(classes.names))
        for j in range(len(configurations.names))
        if target[j, k]
    ]


def _explanation(inputs: LotesInput, result: LotesResult) -> dict[str, Any]:
    """Return all intermediate results, and the jobs' rate (per second) against lambda."""
    own = inputs.own_rate_per_h
    return {
        "source": inputs.source,
        "jobs": None if inputs.work is None else inputs.work.jobs,
        "own_rate": None if own is None else own / 3600,
        "load": None if own is None else result.load(own),
        "classes": [
            {
                "name": name,
                "share": float(result.instance.classes.share[k]),
                "request": _request(inputs, result, k).to_json(),
                "mean_time_s": {
                    group: 3600 / float(result.instance.rate[j, k])
                    for j, group in enumerate(result.instance.configurations.names)
                    if result.instance.rate[j, k]
                },
            }
            for k, name in enumerate(result.instance.classes.names)
        ],
        "stages": result.to_json(),
    }


def _request(inputs: LotesInput, result: LotesResult, index: int) -> Any:
    from dispatch.tables import request_of

    return request_of(inputs.cluster, result.instance, index)


def _answer(inputs: LotesInput, result: LotesResult, explain: bool) -> Answer:
    """Return the result of the LPs; `explain` adds the intermediate results."""
    document = lotes_json(result)
    asked = None if inputs.asked_per_h is None else result.at_rate(inputs.asked_per_h)
    if asked is not None:
        document["at_rate"] = asked.to_json()
    table = [list(row.values()) for row in document["table"]]

    def text() -> None:
        if explain:
            _print_explained(inputs, result)
        _print_stages(inputs, result)
        if asked is not None:
            click.echo()
            _print_rate(asked)
        _print_bins(document, explain)
        click.echo()
        print_table(
            ("pair: machines", "class", "in service", "largest share"),
            [
                (pair["machines"], pair["class"], pair["in_service"], max(pair["share"].values()))
                for pair in document["pairs"]
            ],
        )
        click.echo()
        print_table(_TABLE_COLUMNS, table)

    return Answer(
        document | ({"explain": _explanation(inputs, result)} if explain else {}),
        text,
        lambda: print_csv(_TABLE_COLUMNS, table),
        DONE if result.arrival_rate else ERROR,
        after=lambda: _warn(inputs, result),
    )


def _print_stages(inputs: LotesInput, result: LotesResult) -> None:
    fluid = result.allocation.arrival_rate
    rates = [
        ("allocation LP", fluid),
        (f"assignment LP ({result.mode})", result.assignment.relaxed_rate),
        ("rounded", result.arrival_rate),
    ]
    own = inputs.own_rate_per_h
    if own is not None:
        rates.append((f"the {inputs.source}'s own rate", own))
    rows = [(name, rate / 3600, rate, rate / fluid if fluid else None) for name, rate in rates]
    print_table(("lambda", "jobs/s", "jobs/h", "of the first"), rows)
    if own is not None and result.arrival_rate:
        click.echo(f"load: {own / result.arrival_rate:.3f} of lambda after rounding")


def _print_rate(asked: RateAnswer) -> None:
    """Print the effect of an arrival rate, in jobs per hour."""
    load = "no arrival rate is sustainable" if asked.load is None else f"{asked.load:.3f}"
    rows: list[tuple[object, ...]] = [
        ("load", load),
        ("served, jobs/h", asked.served_per_h),
        ("queue grows by, jobs/h", asked.growth_per_h),
        ("first class to wait forever", asked.tightest or "-"),
    ]
    rows += [(f"{name} in use", f"{100 * share:.1f} %") for name, share in asked.used.items()]
    rows += [(f"{name} in service", count) for name, count in asked.in_service.items()]
    print_table((f"at {asked.rate_per_h:,.0f} jobs/h", ""), rows)


def _print_bins(document: dict[str, Any], explain: bool) -> None:
    bins = document["bins"]
    rows = [
        (
            one["machines"],
            one["count"],
            " + ".join(f"{n} {name}" for name, n in one["jobs"].items()),
        )
        for one in bins
    ]
    shown = rows if explain else rows[:_SHOWN_BINS]
    click.echo()
    print_table(("bin: machines", "how many", "jobs of one"), shown)
    if len(rows) > len(shown):
        click.echo(f"... and {len(rows) - len(shown):,} more (--explain shows them all)")


def _print_explained(inputs: LotesInput, result: LotesResult) -> None:
    explained = _explanation(inputs, result)
    rates = result.class_rates()
    rows = [
        (
            one["name"],
            one["share"],
            str(_request(inputs, result, k)),
            ", ".join(f"{group} {time:,.1f}" for group, time in one["mean_time_s"].items()),
            rates[one["name"]] / 3600,
        )
        for k, one in enumerate(explained["classes"])
    ]
    print_table(("class", "share", "mean request", "mean time s", "jobs/s at lambda"), rows)
    bins = len(result.assignment.bins.jobs)
    click.echo(f"{bins:,} bins, proven bound {result.bound / 3600:,.3f} jobs/s")
    for solution in result.allocation.solutions:
        click.echo(f"allocation LP: {solution.solver} {solution.status.value}")
    click.echo()


_SOLVERS = ("highs", "glop", "pdlp", "pulp:CBC")


def _solver(value: str) -> str:
    """Return a solver's name; `pulp:` accepts any that PuLP knows."""
    if value not in _SOLVERS and value.startswith("pulp:") and len(value) > len("pulp:"):
        from lp.solver import backend_named

        try:
            backend_named(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return value
    return known_name("solver", value, _SOLVERS)


def _lotes_options(**given: Any) -> LotesOptions:
    from lp.lotes.pipeline import LotesOptions

    return LotesOptions(**given)


@server_command(
    None,
    "lotes",
    click.argument("cluster", type=READABLE),
    click.argument("classes", type=READABLE, metavar="CLASSES|WORKLOAD|PLAN"),
    option_group(
        "options",
        _lotes_options,
        click.option(
            "--mode",
            type=click.Choice(("priced", "paired", "paper")),
            default="priced",
            show_default=True,
            help="Find bins by column generation over every pair, or over the pairs of the paper's "
            "first stage (paired), or enumerate the latter as the paper does.",
        ),
        click.option(
            "--solver",
            type=_solver,
            metavar="NAME",
            default="highs",
            show_default=True,
            help="Solver of the LPs: highs, glop, pdlp or pulp:NAME.",
        ),
        click.option(
            "--wheel",
            type=click.Choice(("delta", "flow")),
            default="delta",
            show_default=True,
            help="Share a class's arrivals among machines by jobs in service, or by jobs finished.",
        ),
    ),
    seed_option("the clustering"),
    click.option(
        "--rate",
        type=arrival_rate,
        metavar="RATE",
        help="Show the effect of this arrival rate: 3000/h, 50/m or 0.8/s.",
    ),
    flag("--explain", "Also print every intermediate result."),
    click.option("--picture", type=WRITABLE, help="Draw the result to this file, .svg or .png."),
    forms=ALL_FORMS,
    offline=True,
)
def lotes(
    cluster: Path,
    classes: Path,
    options: LotesOptions,
    seed: int,
    rate: float | None,
    explain: bool,
    picture: Path | None,
) -> Answer:
    """Show the sustainable rate of these classes on CLUSTER, and the target jobs of each machine.

    Classes come from a class file (TOML), from the requests of a workload (JSON Lines) or from the
    allocations of a Plan (JSON). lambda is the total arrival rate, in jobs a second, at each stage:
    the allocation LP (machines pooled), the machine-assignment LP (whole jobs in bins), rounded to
    whole machines. --rate shows the effect of an arrival rate: whether it is sustainable, its
    use, and which class is the first to wait forever. -o json prints the dispatch table; --explain
    adds every step on the way.
    """
    from dispatch.tables import plan_work
    from lp.lotes.pipeline import plan_lotes
    from service.pictures.style import check_picture_path

    if picture is not None:
        check_picture_path(picture)
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
    return _answer(inputs, result, explain)


def _read(cluster_path: Path, path: Path) -> LotesInput:
    """Read the cluster and the classes, or the jobs from which classes are derived."""
    from dispatch.tables import instance_of_classes, work_of_plan, work_of_requests
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
        from service.cli.plan import read_day

        cluster, compiled = read_day(cluster_path, path)
        for left in compiled.refusals:
            click.echo(f"{path}: {left.line.id} left out: {left.error}", err=True)
        work = work_of_requests(cluster, compiled.requests)
    if not work.jobs:
        raise CliError(f"{path}: there is no work to form job classes from")
    return LotesInput(cluster, source, work=work)


def kind_of_file(path: Path) -> str:
    """Return `classes`, `workload` or `plan`, by the start of the file.

    JSON begins with a brace: a Plan is an object with reservations, a workload an object per line.
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


def _warn(inputs: LotesInput, result: LotesResult) -> None:
    """Print a warning on standard error about work that is not served."""
    for left in result.classes_without_machine:
        too_large = 1 < left.shortfall < float("inf")
        nearest = f"; nearest is {left.nearest}, one takes {left.shortfall:.2f} of it"
        message = f"class {left.name!r} gets nothing: {left.reason}{nearest if too_large else ''}"
        click.echo(message, err=True)
    for name in result.allocation.free:
        click.echo(f"class {name!r} requests nothing and has no effect", err=True)
    if not result.arrival_rate and result.assignment.relaxed_rate:
        held = (result.assignment.in_service * result.instance.rate).sum(axis=0) > 0
        idle = int((~held & (result.instance.classes.share > 0)).sum()) - len(
            result.classes_without_machine
        )
        click.echo(
            f"agenda: {len(result.table.classes):,} classes are too many for "
            f"{result.table.machines:,} machines: after rounding to whole machines some class "
            f"has none, and lambda is 0 ({idle:,} classes get nothing)",
            err=True,
        )
        return
    if not result.arrival_rate:
        click.echo("agenda: no class has a machine at a positive rate: lambda is 0", err=True)
        return
    own = inputs.own_rate_per_h
    if own is not None and own > result.arrival_rate:
        click.echo(
            f"the {inputs.source} brings {own / result.arrival_rate:.2f} times the sustainable "
            "rate: its queue grows without bound",
            err=True,
        )
