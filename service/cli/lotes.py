"""`agenda lotes`: job classes on a cluster, from lambda at each stage to the dispatch table."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.codes import DONE, ERROR
from service.cli.options import READABLE, WRITABLE
from service.cli.output import CSV, JSON, format_option, print_csv, print_json, print_table
from service.cli.running import running
from service.cli.trouble import Trouble, tells_trouble

if TYPE_CHECKING:
    from lp.lotes.instance import LotesInstance
    from lp.lotes.pipeline import LotesResult
    from planner.cluster import Cluster
    from service.job_classes import Work

_SOLVERS = ("highs", "glop", "pdlp", "pulp:CBC")
_SHOWN_BINS = 40
_TABLE_COLUMNS = ("class", "machines", "part", "target")


@dataclass(frozen=True, slots=True)
class _Input:
    """What the LPs are asked, and where it came from.

    Attributes
    ----------
    source
        `classes`, `workload` or `plan`.
    work
        The jobs behind the classes; None for a class file, which has no rate of its own.
    """

    cluster: Cluster
    source: str
    instance: LotesInstance
    work: Work | None


def _solver(value: str) -> str:
    """Return a solver's name; `pulp:` takes any that PuLP knows."""
    if value in _SOLVERS or (value.startswith("pulp:") and len(value) > len("pulp:")):
        return value
    near = get_close_matches(value, _SOLVERS, n=1)
    raise click.BadParameter(
        f"there is no solver {value!r}; write {near[0] if near else ', '.join(_SOLVERS)}"
    )


@click.command()
@click.argument("cluster", type=READABLE)
@click.argument("classes", type=READABLE, metavar="CLASSES|WORKLOAD|PLAN")
@click.option(
    "--mode",
    type=click.Choice(("priced", "paper")),
    default="priced",
    show_default=True,
    help="Bins priced over every pair, or enumerated as the paper.",
)
@click.option("--solver", type=_solver, default="highs", show_default=True, help="Of the LPs.")
@click.option(
    "--wheel",
    type=click.Choice(("delta", "flow")),
    default="delta",
    show_default=True,
    help="What the parts of a class are: jobs in service, or jobs finished.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the clustering."
)
@click.option("--explain", is_flag=True, help="Every intermediate result.")
@click.option("--picture", type=WRITABLE, help="Draw it here, .svg or .png.")
@format_option()
@tells_trouble
def lotes(
    cluster: Path, classes: Path, explain: bool, picture: Path | None, form: str, **how: Any
) -> int:  # fmt: skip
    """Say how much work of these classes CLUSTER sustains, and which machine should run what.

    Classes come from a class file (TOML), from the requests of a workload (JSON Lines) or from the
    allocations of a Plan (JSON). lambda is the total arrival rate, in jobs a second, at each stage:
    the allocation LP (machines pooled), the machine-assignment LP (whole jobs in bins), rounded to
    whole machines. -o json is the dispatch table; --explain adds what led to it.
    """
    from lp.lotes.pipeline import LotesOptions, plan_lotes
    from service.pictures.paths import check_picture_path

    if picture is not None:
        check_picture_path(picture)
    options = LotesOptions(mode=how["mode"], wheel=how["wheel"], solver=how["solver"])
    with running("job classes") as run:
        run.progress(0, 2)
        asked = _read(cluster, classes, how["seed"])
        run.progress(1, 2)
        result = plan_lotes(asked.instance, options)
        run.progress(2, 2)
    if picture is not None:
        from service.pictures.lotes import write_lotes

        write_lotes(result, _own_rate(asked), picture)
    _print(asked, result, form, explain)
    return _warned(asked, result)


def _read(cluster_path: Path, path: Path, seed: int) -> _Input:
    """Read the cluster and the classes, or the work they are made of."""
    import numpy as np

    from planner.files import read_classes, read_cluster, read_plan
    from service.job_classes import (
        instance_of_classes,
        instance_of_work,
        work_of_plan,
        work_of_requests,
    )

    source = kind_of_file(path)
    if source == "classes":
        cluster = read_cluster(cluster_path)
        instance = instance_of_classes(cluster, read_classes(path), str(path))
        return _Input(cluster, source, instance, None)
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
        raise Trouble(f"{path}: there is no work to make job classes of")
    instance = instance_of_work(cluster, work, np.random.default_rng(seed))
    return _Input(cluster, source, instance, work)


def kind_of_file(path: Path) -> str:
    """Return `classes`, `workload` or `plan`, by what the file begins with.

    JSON begins with a brace: a Plan is one object with reservations, a workload an object a line.
    Anything else is TOML.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(4096).lstrip()
    if not head.startswith("{"):
        return "classes"
    if '"rdl"' in head.partition("\n")[0]:
        return "workload"
    return "plan" if head[1:].lstrip().startswith('"cluster"') else _kind_of_json(path)


def _kind_of_json(path: Path) -> str:
    import json

    try:
        whole = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return "workload"
    return "plan" if isinstance(whole, dict) and "reservations" in whole else "workload"


def lotes_json(result: LotesResult) -> dict[str, Any]:
    """Return the form of docs/files.md: lambda in jobs a second, pairs, bins, dispatch table.

    Bins stand in order of their machines: `first` is the index of the first in its group.
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
    """Return what stage 1 gives each class of each group, where it gives anything."""
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
    """Return the dispatch table: part of a class's arrivals a group gets, and its target."""
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


def _own_rate(asked: _Input) -> float | None:
    return None if asked.work is None else asked.work.rate_per_h


def _explained(asked: _Input, result: LotesResult) -> dict[str, Any]:
    """Return every intermediate result, and the work's own rate (a second) against lambda."""
    own = _own_rate(asked)
    return {
        "source": asked.source,
        "jobs": None if asked.work is None else asked.work.jobs,
        "own_rate": None if own is None else own / 3600,
        "load": None if own is None else _finite(result.load(own)),
        "classes": [
            {
                "name": name,
                "share": float(asked.instance.classes.share[k]),
                "request": _request(asked, k).to_json(),
                "mean_time_s": {
                    group: 3600 / float(asked.instance.rate[j, k])
                    for j, group in enumerate(asked.instance.configurations.names)
                    if asked.instance.rate[j, k]
                },
            }
            for k, name in enumerate(asked.instance.classes.names)
        ],
        "stages": result.to_json(),
    }


def _request(asked: _Input, index: int) -> Any:
    from service.job_classes import request_of

    return request_of(asked.cluster, asked.instance, index)


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def _print(asked: _Input, result: LotesResult, form: str, explain: bool) -> None:
    document = lotes_json(result)
    if form == JSON:
        print_json(document | ({"explain": _explained(asked, result)} if explain else {}))
    elif form == CSV:
        print_csv(_TABLE_COLUMNS, [list(row.values()) for row in document["table"]])
    else:
        if explain:
            _print_explained(asked, result)
        _print_stages(asked, result)
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
        print_table(_TABLE_COLUMNS, [list(row.values()) for row in document["table"]])


def _print_stages(asked: _Input, result: LotesResult) -> None:
    fluid = result.allocation.arrival_rate
    rates = [
        ("allocation LP", fluid),
        (f"assignment LP ({result.mode})", result.assignment.relaxed_rate),
        ("rounded", result.arrival_rate),
    ]
    own = _own_rate(asked)
    if own is not None:
        rates.append((f"the {asked.source}'s own rate", own))
    rows = [(name, rate / 3600, rate, rate / fluid if fluid else None) for name, rate in rates]
    print_table(("lambda", "jobs/s", "jobs/h", "of the first"), rows)
    if own is not None and result.arrival_rate:
        click.echo(f"load: {result.load(own):.3f} of lambda after rounding")


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


def _print_explained(asked: _Input, result: LotesResult) -> None:
    explained = _explained(asked, result)
    rates = result.class_rates()
    rows = [
        (
            one["name"],
            one["share"],
            str(_request(asked, k)),
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


def _warned(asked: _Input, result: LotesResult) -> int:
    """Tell on standard error what is not served; an error when that is everything."""
    for left in result.unserved:
        too_large = left.shortfall > 1
        nearest = f"; nearest is {left.nearest}, one takes {left.shortfall:.2f} of it"
        message = f"class {left.name!r} gets nothing: {left.reason}{nearest if too_large else ''}"
        click.echo(message, err=True)
    for name in result.allocation.free:
        click.echo(f"class {name!r} asks for nothing and limits nothing", err=True)
    if not result.arrival_rate:
        click.echo("agenda: no class has a machine at a positive rate: lambda is 0", err=True)
        return ERROR
    own = _own_rate(asked)
    if own is not None and result.load(own) > 1:
        click.echo(
            f"the {asked.source} brings {result.load(own):.2f} times what the machines sustain: "
            "its queue grows without end",
            err=True,
        )
    return DONE
