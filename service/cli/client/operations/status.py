"""`agenda status`: a server's cluster at one look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from service.cli.client.server import Server, client_options
from service.cli.forms.local_times import local_text, zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import JSON, TABLE, format_option, print_json, print_table

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
