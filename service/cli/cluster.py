"""`agenda cluster check|show|what-if|apply|table`: cluster files, and a server's cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from planner.cluster.cluster import Cluster
from planner.files import cluster_from_json, cluster_to_json, read_cluster, read_cluster_document
from planner.files.cluster_writer import difference
from rdl.time_grid import duration_text
from service.cli.kit.commands import Listing, Table, server_command
from service.cli.kit.errors import DONE, as_cli_error
from service.cli.kit.options import READABLE
from service.cli.kit.output import local_text
from service.cli.kit.server import Server
from service.cli.operations import AFFECTED, affected_title
from service.sentences import counted

_PATH: Final = "/v1/cluster"
_FILE: Final = click.argument("file", type=READABLE)


@click.group()
def cluster() -> None:
    """Check a cluster file, show a cluster, or preview a change of it."""


@server_command(
    cluster, "table", lists=True, short_help="Show the dispatch table that a server follows."
)
def table(server: Server) -> Listing:
    """Show the LoTES dispatch table of a server: the target jobs of each machine.

    Below it are its job classes: the request of one job as a share of the largest machine, the
    machines for its arrivals, and the running and the target number there.
    """
    body = server.call("GET", "/v1/dispatch/table").good()
    found: Mapping[str, Any] = body["table"] or {}
    runs = found.get("runs", [])
    columns = Table(
        "group first count target",
        "",
        {"group": "machines", "target": "jobs that each is to run"},
        group=lambda run: run["configuration"],
        first=lambda run: run["first_machine"],
        count=lambda run: run["machines"],
        target=lambda run: _jobs(found["classes"], run["jobs"]),
    )
    listed = {**body, "runs": runs}
    after = partial(_echo_lines, _class_lines(found, body["running"])) if found else None
    title, empty = _title(body), _absence(body)
    return Listing(listed, runs, columns, title, empty, "runs", timed=False, after=after)


def _jobs(classes: list[str], counts: list[int]) -> str:
    jobs = [f"{count} {name}" for name, count in zip(classes, counts, strict=True) if count]
    return ", ".join(jobs) or "none"


def _echo_lines(lines: Iterator[str]) -> None:
    """Print lines below a table."""
    click.echo()
    for line in lines:
        click.echo(line)


def _absence(body: Mapping[str, Any]) -> str:
    """Return why there is no table."""
    if not body["used"]:
        return "no dispatch table: the policy has none made (tables = false)"
    if body["problem"]:
        return f"no dispatch table, so best fit: {body['problem']}"
    return "no dispatch table yet: it is made once the dispatcher has something to do"


def _title(body: Mapping[str, Any]) -> str:
    """Return version and age of the table, its sustainable rate, and the future work."""
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


def _had_text(
    found: Mapping[str, Any], running: Mapping[str, list[int]], group: str, number: int
) -> str:
    """Return how many of a class run on a group of how many wanted; empty if not known."""
    if group not in running:
        return ""
    runs = [run for run in found["runs"] if run["configuration"] == group]
    wanted = sum(run["machines"] * run["jobs"][number] for run in runs)
    return f" ({running[group][number]} of {wanted} run)"


def _class_lines(found: Mapping[str, Any], running: Mapping[str, list[int]]) -> Iterator[str]:
    """Yield a line for each class: its request, where its arrivals go, and how many run there."""
    for number, name in enumerate(found["classes"]):
        asked = ", ".join(
            f"{part:.3g} {resource}"
            for resource, part in zip(found["resources"], found["requests"][number], strict=True)
            if part
        )
        where = ", ".join(
            f"{100 * row[number]:.0f} % to {group}{_had_text(found, running, group, number)}"
            for group, row in zip(found["configurations"], found["wheel"], strict=True)
            if row[number] or running.get(group, [0] * (number + 1))[number]
        )
        yield f"{name}: {asked or 'nothing'} of the largest machine; {where or 'no machines'}"


@server_command(
    cluster,
    "check",
    _FILE,
    lists=True,
    offline=True,
    short_help="Say what a cluster file holds, or all that is wrong with it.",
)
def check(file: Path) -> Listing:
    """Read the cluster FILE and print its content, or all of its errors."""
    return _described(read_cluster(file))


@server_command(cluster, "show", lists=True, short_help="Show the cluster that a server plans on.")
def show(server: Server) -> Listing:
    """Show the cluster that a server plans on; with -o json as a file for `agenda plan`."""
    body = server.call("GET", _PATH).good()
    with as_cli_error(server.url):
        return _described(cluster_from_json(body, server.url))


@server_command(
    cluster,
    "what-if",
    _FILE,
    lists=True,
    short_help="Show who would be affected by another cluster.",
)
def what_if(file: Path, server: Server) -> Listing:
    """Show which reservations a change of the server's cluster to FILE would affect; nothing is
    changed."""
    present = server.call("GET", _PATH).good()
    body = server.call("PUT", _PATH, _wanted(file, present), {"dry_run": "true"}).good()
    text = affected_title(body["affected"])
    short = f"machines would be short: {body['short']}"
    after = partial(click.echo, short, err=True) if body["short"] else None
    return Listing(
        body, body["affected"], AFFECTED, text, text, "affected", timed=False, after=after
    )


def _wanted(file: Path, present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a cluster file, with the server's other outages: those stay."""
    wanted, _ = read_cluster_document(file)
    given = {one["id"] for one in wanted["outages"]}
    wanted["outages"] += [one for one in present.get("outages", ()) if one["id"] not in given]
    return wanted


@server_command(
    cluster,
    "apply",
    _FILE,
    click.option("--yes", is_flag=True, help="Do not ask."),
    forms=(),
    short_help="Change a server's cluster to a file, after showing what that changes.",
)
def apply(file: Path, yes: bool, server: Server) -> int:
    """Change the cluster that a server plans on to the cluster FILE.

    First shows the differences and the affected reservations, and asks for confirmation. Nothing
    is changed if the cluster has changed meanwhile.
    """
    reply = server.call("GET", _PATH)
    present, wanted = reply.good(), _wanted(file, reply.good())
    with as_cli_error(server.url):
        known = cluster_from_json(present, "its cluster")
    shown = cluster_to_json(
        cluster_from_json(wanted, str(file), level=known.promise, present=known)
    )
    for kept in ("origin", "promises"):  # the server keeps its own where a file has none
        if kept in present and kept not in wanted:
            shown[kept] = present[kept]
    lines = list(difference(present, shown))
    if not lines:
        click.echo("nothing differs", err=True)
        return DONE
    for line in lines:
        click.echo(line)
    tried = server.call("PUT", _PATH, wanted, {"dry_run": "true"}).good()
    click.echo(affected_title(tried["affected"]))
    if tried["affected"]:
        AFFECTED.print(tried["affected"])
    if not yes:
        click.confirm("change the cluster?", abort=True, err=True)
    server.call("PUT", _PATH, wanted, headers={"If-Match": reply.tag or "*"}).good()
    click.echo("the cluster is changed", err=True)
    return DONE


_GROUPS: Final = Table(
    "name count resources labels",
    "",
    {"name": "machines", "resources": "each has"},
    resources=lambda group: _amounts(group["resources"]),
    labels=lambda group: " ".join(group.get("labels", ())) or None,
)


def _described(found: Cluster) -> Listing:
    document = cluster_to_json(found)
    groups = document["machines"]
    after = partial(_echo_lines, iter(_notes(document)))
    summary = _summary(found)
    return Listing(
        document, groups, _GROUPS, summary, "no machines", "machines", timed=False, after=after
    )


def _amounts(resources: Mapping[str, Any]) -> str:
    return ", ".join(
        amount if name == "memory" else f"{amount} {name}" for name, amount in resources.items()
    )


def _summary(found: Cluster) -> str:
    count = sum(group.count for group in found.machines)
    step, horizon = duration_text(found.step_ms), duration_text(found.horizon_ms)
    total = _amounts(found.nominal.to_json())
    return f"{counted(count, 'machine')}: {total}; planned in steps of {step}, {horizon} ahead"


def _notes(document: Mapping[str, Any]) -> list[str]:
    """Return a line for each other part of a description that is there."""
    queues = [
        one["name"] if one["reservable"] else f"{one['name']} (takes no reservations)"
        for one in document.get("queues", ())
    ]
    parts = {
        "pools": ", ".join(f"{one['count']:,} {one['name']}" for one in document.get("pools", ())),
        "queues": ", ".join(queues),
        "outages": len(document.get("outages", ())),
        "policies": ", ".join(one["type"] for one in document.get("policies", ())),
        "prices": len(document.get("prices", ())),
        "promises": document["promises"]["level"],
    }
    return [f"{name:<10}{one}" for name, one in parts.items() if one]
