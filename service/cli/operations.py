"""`agenda status`, `outages` and `audit`: a server for its operators."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from service.cli.completion import completing
from service.cli.kit.errors import DONE, reports_errors
from service.cli.kit.options import from_now
from service.cli.kit.output import (
    CSV,
    JSON,
    TABLE,
    ListColumn,
    format_option,
    listing_options,
    local_rows,
    local_text,
    print_csv,
    print_json,
    print_listing,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, client_options, entry_path

#: Columns of a reservation that is affected; work moved is resource share x steps.
AFFECTED: Final = (
    ListColumn("id"),
    ListColumn("tenant"),
    ListColumn("fate"),
    ListColumn("value", is_wide=True),
    ListColumn("moved", is_wide=True),
    ListColumn("reason"),
)

#: Fates in which a reservation no longer has what it was promised.
_LESS: Final = ("degraded", "failed")


def affected_rows(affected: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Return a row of `AFFECTED` for each."""
    return [[one[column.name] for column in AFFECTED] for one in affected]


def affected_title(affected: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line: how many of each fate, and whether anybody loses anything."""
    if not affected:
        return "no reservation is affected"
    counted = Counter(str(one["fate"]) for one in affected)
    fates = ", ".join(f"{count:,} {fate}" for fate, count in counted.most_common())
    loses = any(counted[fate] for fate in _LESS)
    return fates if loses else f"{fates}; nobody loses anything"


_PATH: Final = "/v1/cluster/outages"
_OUTAGE: Final = ("id", "kind", "machines", "start", "end")
_AFFECTED: Final = tuple(column.name for column in AFFECTED)
_SHOWN_NAMES: Final = 6


@click.group()
def outages() -> None:
    """Take machines of a server away, list outages and give machines back."""


@outages.command()
@click.argument("machines")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take N machines of the group, from the highest number down; a drain takes those "
    "with the least to move.",
)
@click.option("--name", "names", multiple=True, help="Take this machine; may be repeated.")
@click.option(
    "--end",
    required=True,
    callback=from_now,
    help="When the machines are back: 2h or +2h from now, or RFC 3339.",
)
@click.option("--start", callback=from_now, help="When the machines go, alike.  [default: now]")
@click.option(
    "--kind",
    type=click.Choice(("loss", "drain", "maintenance")),
    default="loss",
    show_default=True,
    help="A drain lets leases that have begun run out first.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show which reservations would be affected and change nothing."
)
@client_options
@format_option()
@reports_errors
def add(
    machines: str,
    server: Server,
    count: int | None,
    names: tuple[str, ...],
    end: str,
    start: str | None,
    kind: str,
    dry_run: bool,
    form: str,
) -> int:
    """Take machines of the group MACHINES away and show which reservations are affected."""
    if (count is None) == (not names):
        raise click.UsageError("give either --count or --name")
    options = {
        "machines": machines, "count": count, "names": list(names), "start": start, "end": end,
        "kind": kind,
    }  # fmt: skip
    body = {name: value for name, value in options.items() if value}
    query = {"dry_run": "true" if dry_run else None}
    _print_answer(server, server.call("POST", _PATH, body, query).good(), form)
    return DONE


@outages.command("list")
@client_options
@listing_options()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List the outages that are not over, earliest first."""
    body = server.call("GET", _PATH).good()
    header = (*_OUTAGE, ListColumn("names", is_wide=True))
    zone = server.zone() if form == TABLE else None
    rows = [[*_outage_row(one, zone), _names(one)] for one in body["outages"]]
    title = f"{len(rows):,} not over; {zone_line(zone)}"
    print_listing(body, header, rows, form, "no outages", title)
    return DONE


@outages.command()
@click.argument("id_", metavar="ID", shell_complete=completing("outage"))
@client_options
@format_option()
@reports_errors
def remove(id_: str, server: Server, form: str) -> int:
    """End the outage ID: give its machines back and show which reservations are restored."""
    _print_answer(server, server.call("DELETE", entry_path(_PATH, id_)).good(), form)
    return DONE


def _print_answer(server: Server, body: Mapping[str, Any], form: str) -> None:
    rows = affected_rows(body["affected"])
    if form == JSON:
        print_json(body)
        return
    if form == CSV:
        print_csv(_AFFECTED, rows)
        return
    if body["outage"] is not None:
        zone = server.zone()
        print_title(zone_line(zone))
        print_table(_OUTAGE, [_outage_row(body["outage"], zone)])
        click.echo()
    if rows:
        click.echo(f"{affected_title(body['affected'])}\n")
        print_table(_AFFECTED, rows)
    else:
        click.echo(affected_title(body["affected"]))
    if body["pending"]:
        click.echo(
            "the repair goes on and may affect more: agenda reservations list --state degraded",
            err=True,
        )
    if body["short"]:
        click.echo(f"machines are still short: {body['short']}", err=True)


def _outage_row(outage: Mapping[str, Any], zone: str | None) -> list[object]:
    """Return the columns of an outage; times by the clock of a zone where the server says them."""
    row = []
    for name in _OUTAGE:
        instant = outage.get(f"{name}_at")
        if instant is not None and zone is not None:
            instant = local_text(instant, 0, zone)
        row.append(outage[name] if instant is None else instant)
    return row


def _names(outage: Mapping[str, Any]) -> str:
    names = [*outage["names"], *(f"{name} (absent)" for name in outage.get("absent", ()))]
    shown = " ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} ... ({len(names)})"


#: Length of ``2026-11-23 18:12``.
_MINUTES: Final = 16


@click.command()
@client_options
@format_option(TABLE, JSON)
@reports_errors
def status(server: Server, form: str) -> int:
    """Show machines, promises, work, what is at risk, refusals, and what is not up to date."""
    body = server.call("GET", "/v1/status").good()
    if form == JSON:
        print_json(body)
        return DONE
    zone = server.zone()
    click.echo(f"{server.url} at {_when(body['at'], zone)}; {zone_line(zone)}\n")
    for name, lines in _sections(body, zone):
        for place, line in enumerate(lines):
            click.echo(f"{'' if place else name:<10}{line}")
    if body["at_risk"]:
        click.echo()
        rows = [
            [one["id"], one["tenant"], one["state"], _when(one["since_at"], zone), one["reason"]]
            for one in body["at_risk"]
        ]
        print_table(("at risk", "tenant", "state", "since", "reason"), rows)
    if body["ends"]:
        click.echo()
        rows = [
            [one["id"], one["tenant"], one["state"], _when(one["end_at"], zone)]
            for one in body["ends"]
        ]
        print_table(("ends next", "tenant", "state", "end"), rows)
    return DONE


def _sections(body: Mapping[str, Any], zone: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each part of the answer by name, as lines."""
    machines, work = body["machines"], body["work"]
    lines = [f"{machines['up']:,} of {machines['total']:,} are up"]
    for one in machines["outages"]:
        end = "" if one["end_at"] is None else f" until {_when(one['end_at'], zone)}"
        lines.append(f"{one['count']:,} of {one['machines']}: {one['kind']} {one['id']}{end}")
    yield "machines", lines
    lines = [
        f"{one['resource']} {one['now_share']:.0%} now, "
        f"{one['peak_share']:.0%} at {_when(one['peak_at'], zone)}, the most of a day"
        for one in body["promised"]
    ]
    yield "promised", lines or ["nothing can be: the Plan has reached its horizon"]
    yield (
        "work",
        [
            f"{work['running']:,} applications run, {work['waiting']:,} wait; "
            f"{work['components']:,} components on machines"
        ],
    )
    counts = Counter(one["state"] for one in body["at_risk"])
    more = body["at_risk_count"] - len(body["at_risk"])
    told = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    yield "at risk", [told + (f", {more:,} more" if more else "") if told else "nothing"]
    total = sum(one["count"] for one in body["refused"])
    causes = ", ".join(f"{one['count']:,} {one['code']}" for one in body["refused"])
    yield "refused", [f"{total:,} in the last hour{': ' if causes else ''}{causes}"]
    yield "problems", body["problems"] or ["none: Plan, dispatcher and machines are up to date"]


def _when(instant: str | None, zone: str) -> str | None:
    """Return an instant to the minute, which is enough for a look."""
    return None if instant is None else local_text(instant, 0, zone)[:_MINUTES]


PATH: Final = "/v1/audit"

#: Form of one JSON object a line, which other tools read as it comes.
JSON_LINES: Final = "jsonl"

COLUMNS: Final = (
    "at", "user", "address", "call", "kind", "tenant", "about", "detail", "version",
)  # fmt: skip
_WIDE: Final = ("address", "call", "detail", "version")
_LISTED: Final = tuple(ListColumn(name, is_wide=name in _WIDE) for name in COLUMNS)


@click.command()
@client_options
@click.option("--user", help="Only changes by this user.")
@click.option(
    "--tenant",
    shell_complete=completing("tenant"),
    help="Only changes of what belongs to this tenant.",
)
@click.option("--kind", help="Only changes of this kind, such as admit, end or cluster.")
@click.option("--about", help="Only changes of this reservation, application or token.")
@click.option("--from", "start", help="Only changes at or after this time: 2h, +2h or RFC 3339.")
@click.option("--to", "end", help="Only changes before this time.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="List the newest N.  [default: all]", metavar="N"
)
@listing_options(TABLE, JSON, CSV, JSON_LINES)
@reports_errors
def audit(
    server: Server,
    user: str | None,
    tenant: str | None,
    kind: str | None,
    about: str | None,
    start: str | None,
    end: str | None,
    limit: int | None,
    form: str,
) -> int:
    """List who changed what, when and from where, newest first; for operators.

    `-o jsonl` and `-o csv` are for other tools.
    """
    query = {
        "user": user, "tenant": tenant, "kind": kind, "about": about, "from": start, "to": end,
    }  # fmt: skip
    entries = server.list_all(PATH, "changes", query, limit)
    if form == JSON_LINES:
        for entry in entries:
            click.echo(json.dumps(entry, ensure_ascii=False))
    else:
        rows = [[entry[name] for name in COLUMNS] for entry in entries]
        title = None
        if form == TABLE:
            zone = server.zone()
            rows = local_rows(COLUMNS, rows, ("at",), zone)
            title = f"{len(entries):,} changes, newest first; {zone_line(zone)}"
        print_listing(entries, _LISTED, rows, form, title=title)
    return DONE
