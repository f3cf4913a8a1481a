"""`agenda cluster table`: the dispatch table that a server follows now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from service.cli.client.server import Server, client_options
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_text
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import TABLE, listing_options, print_listing

_PATH: Final = "/v1/dispatch/table"
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
    body = server.call("GET", _PATH).good()
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
