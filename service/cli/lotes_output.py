"""What `agenda lotes` answers: the dispatch table as JSON, CSV and tables, and what led to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from service.cli.terminal.output import CSV, JSON, print_csv, print_json, print_table

if TYPE_CHECKING:
    from dispatch.tables.job_classes import JobSample
    from lp.lotes.instance import LotesInstance
    from lp.lotes.pipeline import LotesResult, RateAnswer
    from planner.cluster.cluster import Cluster

_SHOWN_BINS = 40
_TABLE_COLUMNS = ("class", "machines", "part", "target")


@dataclass(frozen=True, slots=True)
class LotesInput:
    """What the LPs are given, and where it came from.

    Attributes
    ----------
    source
        `classes`, `workload` or `plan`.
    instance
        The classes of a class file; None where they are made of work.
    work
        The jobs behind the classes; None for a class file, which has no rate of its own.
    asked_per_h
        The rate that is asked about, or None.
    """

    cluster: Cluster
    source: str
    instance: LotesInstance | None = None
    work: JobSample | None = None
    asked_per_h: float | None = None

    @property
    def own_rate_per_h(self) -> float | None:
        """The work's own arrival rate, where there is work."""
        return None if self.work is None else self.work.rate_per_h


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


def _explanation(inputs: LotesInput, result: LotesResult) -> dict[str, Any]:
    """Return every intermediate result, and the work's own rate (a second) against lambda."""
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
    from dispatch.tables.job_classes import request_of

    return request_of(inputs.cluster, result.instance, index)


def print_answer(inputs: LotesInput, result: LotesResult, form: str, explain: bool) -> None:
    """Print the answer in one of the three forms; `explain` adds what led to it."""
    document = lotes_json(result)
    asked = None if inputs.asked_per_h is None else result.at_rate(inputs.asked_per_h)
    if asked is not None:
        document["at_rate"] = asked.to_json()
    if form == JSON:
        print_json(document | ({"explain": _explanation(inputs, result)} if explain else {}))
    elif form == CSV:
        print_csv(_TABLE_COLUMNS, [list(row.values()) for row in document["table"]])
    else:
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
        print_table(_TABLE_COLUMNS, [list(row.values()) for row in document["table"]])


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
    """Print what a rate of arrivals does, in jobs an hour."""
    load = "no rate is sustained" if asked.load is None else f"{asked.load:.3f}"
    rows: list[tuple[object, ...]] = [
        ("load", load),
        ("served, jobs/h", asked.served_per_h),
        ("queue grows by, jobs/h", asked.growth_per_h),
        ("first to wait without end", asked.tightest or "-"),
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
