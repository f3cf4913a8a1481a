"""`agenda outages add|list|remove`: machines that go and come back, told to a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from service.cli.client.server import Server, client_options, entry_path
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import (
    CSV,
    JSON,
    format_option,
    print_csv,
    print_json,
    print_listing,
    print_table,
)

_PATH: Final = "/v1/cluster/outages"
_OUTAGE: Final = ("id", "kind", "machines", "start", "end")
_AFFECTED: Final = ("id", "tenant", "fate", "value", "moved", "reason")
_SHOWN_NAMES: Final = 6


@click.group()
def outages() -> None:
    """Take machines of a server away, list outages and give machines back."""


@outages.command()
@click.argument("machines")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="Take so many machines of the group, from the highest number down; a drain takes those "
    "with the least to move.",
)
@click.option("--name", "names", multiple=True, help="Take this machine; may be repeated.")
@click.option(
    "--end",
    required=True,
    help="When the machines are back: seconds from the origin, +2h (from now) or RFC 3339.",
)
@click.option("--start", help="When the machines go.  [default: now]")
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
    _print_answer(server.call("POST", _PATH, body, query).good(), form)
    return DONE


@outages.command("list")
@client_options
@format_option()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List the outages that are not over, earliest first."""
    body = server.call("GET", _PATH).good()
    header = (*_OUTAGE, "names")
    rows = [[*_outage_row(one), _names(one["names"])] for one in body["outages"]]
    print_listing(body, header, rows, form, "no outages")
    return DONE


@outages.command()
@click.argument("id_", metavar="ID")
@client_options
@format_option()
@reports_errors
def remove(id_: str, server: Server, form: str) -> int:
    """End the outage ID: give its machines back and show which reservations are restored."""
    _print_answer(server.call("DELETE", entry_path(_PATH, id_)).good(), form)
    return DONE


def _print_answer(body: Mapping[str, Any], form: str) -> None:
    rows = [_row(one, _AFFECTED) for one in body["affected"]]
    if form == JSON:
        print_json(body)
        return
    if form == CSV:
        print_csv(_AFFECTED, rows)
        return
    if body["outage"] is not None:
        print_table(_OUTAGE, [_outage_row(body["outage"])])
        click.echo()
    if rows:
        print_table(_AFFECTED, rows)
    else:
        click.echo("no reservation is affected")
    if body["short"]:
        click.echo(f"machines are still short: {body['short']}", err=True)


def _outage_row(outage: Mapping[str, Any]) -> list[object]:
    """Return the columns of an outage; times by the calendar where the server says them."""
    return [outage.get(f"{name}_at", outage[name]) for name in _OUTAGE]


def _row(entry: Mapping[str, Any], columns: tuple[str, ...]) -> list[object]:
    return [entry[name] for name in columns]


def _names(names: list[str]) -> str:
    shown = " ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} ... ({len(names)})"
