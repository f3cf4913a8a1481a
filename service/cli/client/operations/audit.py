"""`agenda audit`: who changed what on a server."""

from __future__ import annotations

import json
from typing import Final

import click

from service.cli.client.completion import completing
from service.cli.client.server import Server, client_options
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_rows, zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import CSV, JSON, TABLE, listing_options, print_listing

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
