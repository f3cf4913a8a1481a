"""`agenda cluster check|show|what-if|table`: cluster files, and what a server plans on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from planner.cluster.cluster import Cluster
from planner.files import cluster_from_json, cluster_to_json, read_cluster, read_cluster_document
from rdl.time_grid import duration_text
from service.cli.kit.errors import DONE, as_cli_error, reports_errors
from service.cli.kit.options import READABLE
from service.cli.kit.output import TABLE, ListColumn, listing_options, local_text, print_listing
from service.cli.kit.server import Server, client_options
from service.cli.operations import AFFECTED, affected_rows, affected_title

_TABLE_PATH: Final = "/v1/dispatch/table"
_RUN: Final = (
    ListColumn("group", "machines"),
    ListColumn("first"),
    ListColumn("count"),
    ListColumn("target", "jobs that each is to run"),
)


@click.command(short_help="Show the dispatch table that a server follows.")
@client_options
@listing_options()
@reports_errors
def table(server: Server, form: str) -> int:
    """Show the dispatch table of LoTES that a server follows: what each machine is to run.

    Below it stand the classes of jobs that it was made for, what one of each asks for, as a part of
    the largest machine, and which machines its arrivals go to.
    """
    body = server.call("GET", _TABLE_PATH).good()
    found: Mapping[str, Any] = body["table"] or {}
    rows = [_run_row(found, run) for run in found.get("runs", ())]
    listed = {**body, "runs": found.get("runs", [])}
    print_listing(listed, _RUN, rows, form, _absence(body), _title(body), "runs")
    if form == TABLE and found:
        click.echo()
        for line in _class_lines(found):
            click.echo(line)
    return DONE


def _absence(body: Mapping[str, Any]) -> str:
    """Return why there is no table."""
    if not body["used"]:
        return "no dispatch table: the policy has none made (tables = false)"
    if body["problem"]:
        return f"no dispatch table, so best fit: {body['problem']}"
    return "no dispatch table yet: it is made once the dispatcher has something to do"


def _title(body: Mapping[str, Any]) -> str:
    """Return version and age of the table, what it sustains, and how much is to come."""
    if body["table"] is None:
        return ""
    parts = [f"table {body['version']}, made {local_text(body['at_at'])} UTC"]
    parts.append(f"sustains {body['table']['arrival_rate_per_h']:,.1f} jobs an hour")
    if body["load"] is not None:
        parts.append(f"load {body['load']:.2f}")
        if body["load"] > 1:
            parts.append("queues grow")
    if not body["used"]:
        parts.append("not used: the policy has tables = false")
    return "; ".join(parts)


def _run_row(found: Mapping[str, Any], run: Mapping[str, Any]) -> list[object]:
    jobs = [
        f"{count} {name}"
        for name, count in zip(found["classes"], run["jobs"], strict=True)
        if count
    ]
    return [
        run["configuration"],
        run["first_machine"],
        run["machines"],
        ", ".join(jobs) or "none",
    ]


def _class_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each class: its request, and the part of its arrivals that goes where."""
    for number, name in enumerate(found["classes"]):
        asked = ", ".join(
            f"{part:.3g} {resource}"
            for resource, part in zip(found["resources"], found["requests"][number], strict=True)
            if part
        )
        where = ", ".join(
            f"{100 * row[number]:.0f} % to {group}"
            for group, row in zip(found["configurations"], found["wheel"], strict=True)
            if row[number]
        )
        yield f"{name}: {asked or 'nothing'} of the largest machine; {where or 'no machines'}"


_PATH: Final = "/v1/cluster"
_GROUP: Final = (
    ListColumn("name", "machines"),
    ListColumn("count"),
    ListColumn("resources", "each has"),
    ListColumn("labels"),
)


@click.group()
def cluster() -> None:
    """Check a cluster file, show a cluster, and ask what another one would change."""


cluster.add_command(table)


@cluster.command(short_help="Say what a cluster file holds, or all that is wrong with it.")
@click.argument("file", type=READABLE)
@listing_options()
@reports_errors
def check(file: Path, form: str) -> int:
    """Read the cluster FILE and say what it holds, or everything that is wrong with it."""
    return _print_cluster(read_cluster(file), form)


@cluster.command(short_help="Show the cluster that a server plans on.")
@client_options
@listing_options()
@reports_errors
def show(server: Server, form: str) -> int:
    """Show the cluster that a server plans on; with -o json as a file for `agenda plan`."""
    body = server.call("GET", _PATH).good()
    with as_cli_error(server.url):
        return _print_cluster(cluster_from_json(body, server.url), form)


@cluster.command("what-if", short_help="Show who would be affected by another cluster.")
@click.argument("file", type=READABLE)
@client_options
@listing_options()
@reports_errors
def what_if(file: Path, server: Server, form: str) -> int:
    """Show who would be affected if a server planned on the cluster FILE; nothing is changed."""
    wanted, _ = read_cluster_document(file)
    # At a start with the file the server's other outages stay.
    given = {one["id"] for one in wanted["outages"]}
    present = server.call("GET", _PATH).good().get("outages", ())
    wanted["outages"] += [one for one in present if one["id"] not in given]
    body = server.call("PUT", _PATH, wanted, {"dry_run": "true"}).good()
    affected = body["affected"]
    print_listing(
        body,
        AFFECTED,
        affected_rows(affected),
        form,
        affected_title(affected),
        affected_title(affected),
        "affected",
    )
    if form == TABLE and body["short"]:
        click.echo(f"machines would be short: {body['short']}", err=True)
    return DONE


def _print_cluster(found: Cluster, form: str) -> int:
    document = cluster_to_json(found)
    rows = [_group_row(one) for one in document["machines"]]
    print_listing(document, _GROUP, rows, form, "no machines", _summary(found), "machines")
    if form == TABLE:
        click.echo()
        for line in _notes(document):
            click.echo(line)
    return DONE


def _group_row(group: Mapping[str, Any]) -> list[object]:
    return [
        group["name"],
        group["count"],
        _amounts(group["resources"]),
        " ".join(group.get("labels", ())) or None,
    ]


def _amounts(resources: Mapping[str, Any]) -> str:
    return ", ".join(
        amount if name == "memory" else f"{amount} {name}" for name, amount in resources.items()
    )


def _summary(found: Cluster) -> str:
    count = sum(group.count for group in found.machines)
    step, horizon = duration_text(found.step_ms), duration_text(found.horizon_ms)
    total = _amounts(found.nominal.to_json())
    return f"{count:,} machines: {total}; planned in steps of {step}, {horizon} ahead"


def _notes(document: Mapping[str, Any]) -> list[str]:
    """Return a line for each other part of a description that is there."""
    queues = [
        one["name"] if one["reservable"] else f"{one['name']} (takes no reservations)"
        for one in document.get("queues", ())
    ]
    parts = {
        "queues": ", ".join(queues),
        "outages": len(document.get("outages", ())),
        "policies": ", ".join(one["type"] for one in document.get("policies", ())),
        "prices": len(document.get("prices", ())),
        "promises": document["promises"]["level"],
    }
    return [f"{name:<10}{one}" for name, one in parts.items() if one]
