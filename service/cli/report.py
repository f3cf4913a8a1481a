"""`agenda report`: report a month of a cluster by tenant, queue or user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from service.cli.kit.commands import Entry, Listing, Table, server_command
from service.cli.kit.errors import as_cli_error
from service.cli.kit.options import WRITABLE, before_now
from service.cli.kit.output import local_text
from service.cli.kit.server import Server

#: Columns of core-hours, by their names in the API.
_HOURS: Final = ("promised", "used", "kept", "late", "broken", "refused")

#: Length of ``2026-11-23 18:12``.
_MINUTES: Final = 16


def _hours(entry: Entry, name: str) -> float:
    return round(float(entry[f"{name}_core_hours"]), 1)


def _broken(entry: Entry) -> int:
    return int(entry["degraded"] + entry["failed"] + entry["unused"])


_REPORT: Final = Table(
    "name promised_h used_h kept_h late_h broken_h refused_h promised kept late broken refused "
    "peak_cores peak_at*",
    "peak_at",
    {f"{name}_h": f"{name} core-h" for name in _HOURS}
    | {"peak_cores": "peak cores", "peak_at": "peak at"},
    name=lambda one: "(others)" if one["name"] is None else one["name"],
    broken=_broken,
    **{f"{name}_h": partial(_hours, name=name) for name in _HOURS},
)


@server_command(
    None,
    "report",
    click.option("--from", "since", callback=before_now,
                 help="From this time: 7d before now, a date such as 2026-11-01, or RFC 3339.  "
                 "[default: 30 days before the end]"),
    click.option("--to", "until", callback=before_now, help="Until this time.  [default: now]"),
    click.option(
        "--by",
        type=click.Choice(("tenant", "queue", "user")),
        default="tenant",
        show_default=True,
        help="Attribute to group rows by.",
    ),
    click.option("--html", type=WRITABLE, help="Also write the report as a page to this file."),
    lists=True,
)  # fmt: skip
def report(
    server: Server, since: str | None, until: str | None, by: str, html: Path | None
) -> Listing:
    """Report promised, used, kept, late, broken and refused work as core-hours and counts.

    Used counts the components of applications while they ran, core and elastic ones; broken are
    promises that were degraded, failed or passed unused.
    """
    query = {"from": server.instant(since), "to": server.instant(until), "by": by}
    body = server.call("GET", "/v1/report", query=query).good()
    zone = server.zone()
    start, end = (local_text(body[name], 0, zone)[:_MINUTES] for name in ("from_at", "to_at"))
    span = f"{start} to {end}"
    if html is not None:
        with as_cli_error(str(html)):
            html.write_text(_page(body, f"Agenda, {span}", zone), encoding="utf-8")
    return Listing(
        body,
        body["rows"],
        _REPORT,
        f"by {by}, {span}",
        "nothing was promised or refused in that time",
        "rows",
        after=lambda: click.echo("\n" + "\n".join(_sentences(body["total"]))),
    )


def _sentences(total: Entry) -> list[str]:
    share = total["kept"] / total["promised"] if total["promised"] else None
    kept = f"{total['kept']:,} kept" + ("" if share is None else f" ({share:.1%})")
    return [
        f"promised {total['promised']:,}, {total['promised_core_hours']:,.1f} core-hours: {kept}, "
        f"{total['late']:,} with work that ended late, {_broken(total):,} broken",
        f"refused {total['refused']:,}, {total['refused_core_hours']:,.1f} core-hours",
        f"at most {total['peak_cores']:,.0f} cores were promised at a time",
    ]


def _page(body: Mapping[str, Any], title: str, zone: str) -> str:
    from service.pictures.report import list_html, page_html, table_html

    rows = [*body["rows"], body["total"]]
    header = [column.label or column.name for column in _REPORT.columns]
    table = table_html(header, [_REPORT.row(one, zone) for one in rows], base=len(rows) - 1)
    sections = [("In short", list_html(_sentences(body["total"]))), (f"By {body['by']}", table)]
    return page_html(title, sections)
