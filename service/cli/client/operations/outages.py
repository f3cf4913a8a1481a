"""`agenda outages add|list|remove`: machines that go and come back, told to a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from service.cli.client.completion import completing
from service.cli.client.operations.affected import AFFECTED, affected_rows, affected_title
from service.cli.client.server import Server, client_options, entry_path
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_text, zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import from_now
from service.cli.terminal.output import (
    CSV,
    JSON,
    TABLE,
    format_option,
    listing_options,
    print_csv,
    print_json,
    print_listing,
    print_table,
    print_title,
)

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
