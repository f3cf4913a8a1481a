"""`agenda usage` and `agenda report`: how much of a cluster each tenant or queue uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from rdl.durations import TimeTextError, parse_duration, read_instant, rfc3339_text
from rdl.expressions import Absolute, AfterSubmission, Offset
from rdl.local_time import span_words
from rdl.resources import CPU, MEMORY, Resources
from rdl.time_grid import TimeGrid
from service.cli.kit.commands import Entry, Listing, Table, server_command
from service.cli.kit.errors import as_cli_error
from service.cli.kit.options import WRITABLE, before_now, from_now
from service.cli.kit.output import local_text
from service.cli.kit.server import Server
from service.cli.reservations import list_reservations

#: The displayed unit of a resource, and its size in units of the Plan.
_UNITS: Final = {CPU: ("cpu-hours", 1000), MEMORY: ("GiB-hours", 1024)}
_HOUR_S: Final = 3600

#: Columns of core-hours, by their names in the API.
_HOURS: Final = ("promised", "used", "kept", "late", "broken", "refused")

#: Length of ``2026-11-23 18:12``.
_MINUTES: Final = 16


@dataclass(slots=True)
class HeldWork:
    """Holdings of one tenant, queue or state: reservations, and amount-seconds by resource."""

    reservations: int = 0
    work: dict[str, float] = field(default_factory=lambda: defaultdict(float))


@server_command(
    None,
    "usage",
    click.option(
        "--by",
        type=click.Choice(("tenant", "queue", "state")),
        default="tenant",
        show_default=True,
        help="Attribute to group by.",
    ),
    click.option(
        "--from",
        "start",
        callback=from_now,
        help="From this time: 2h or +2h from now, a date, or RFC 3339.  [default: now]",
    ),
    click.option("--to", "end", callback=from_now, help="Until this time.  [default: the horizon]"),
    click.option("--last", metavar="TIME", help="The past period of this length, such as 24h."),
    lists=True,
)
def usage(server: Server, by: str, start: str | None, end: str | None, last: str | None) -> Listing:
    """Show the reserved capacity of each tenant, in amounts and as a share of the cluster.

    A user who sees only its own reservations gets a report of only those. Outages that are over
    still count as capacity.
    """
    if last is not None and (start or end):
        raise click.UsageError("give either --last, or --from and --to")
    start, end = server.instant(start), server.instant(end)
    described = cluster_from_json(server.call("GET", "/v1/cluster").good(), server.url)
    grid = described.grid()
    # The server's clock decides what is now.
    now_s = server.call("GET", "/v1/plan", query={"to": "+1s"}).good()["now"]
    span = _span(described, round(1000 * now_s), start, end, last)
    entries = list_reservations(
        server, {"from": str(grid.seconds(span[0])), "to": str(grid.seconds(span[1]))}
    )
    held = held_work(
        (one for one in entries if "atoms" in one),
        by,
        (grid.seconds(span[0]), grid.seconds(span[1])),
    )
    capacity = {name: _capacity(described, name, span) for name in described.resources}
    listed = [{"name": name, **_figures(one, capacity)} for name, one in held.items()]
    rows = sorted(listed, key=lambda row: -row[next(iter(capacity))])
    instants = [rfc3339_text(grid.instant_at(grid.ms(step))) for step in span]
    totals = ", ".join(
        f"{sum(row[name] for row in rows):,.1f} {_unit(name)[0]}" for name in capacity
    )
    return Listing(
        {"by": by, "from": instants[0], "to": instants[1], "capacity": capacity, "usage": rows},
        rows,
        _table(by, capacity),
        f"{span_words(grid.ms(span[0]), grid.ms(span[1]), grid)}\n{totals}; %: of the capacity",
        "nothing is reserved in that time",
        "usage",
        timed=False,
    )


def _span(
    described: Cluster, now_ms: int, start: str | None, end: str | None, last: str | None
) -> tuple[int, int]:
    """Return the first and the end step of the whole steps that cover the requested time."""
    grid = described.grid()
    if last is not None:
        first_ms, end_ms = max(0, now_ms - _duration(last, "--last")), now_ms
    else:
        first_ms = now_ms if start is None else _moment(start, "--from", now_ms, grid)
        first_ms = max(0, first_ms)  # the Plan begins at its origin
        until_ms = now_ms + described.horizon_ms
        end_ms = until_ms if end is None else _moment(end, "--to", now_ms, grid)
    span = grid.floor(first_ms), grid.ceil(end_ms)
    if span[0] >= span[1]:
        raise click.UsageError(
            "--to must be after --from" if last is None else "the Plan has no past yet"
        )
    return span


def _moment(text: str, option: str, now_ms: int, grid: TimeGrid) -> int:
    """Return a time in ms from the origin."""
    try:
        instant = read_instant(text)
    except TimeTextError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
    match instant:
        case Absolute(at=at):
            return grid.instant_ms(at)
        case AfterSubmission(ms=ms):
            return now_ms + ms
        case Offset(ms=ms):
            return ms


def _duration(text: str, option: str) -> int:
    try:
        return parse_duration(text)
    except TimeTextError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def held_work(
    entries: Iterable[Mapping[str, Any]], by: str, span: tuple[float, float]
) -> dict[str, HeldWork]:
    """Return the allocation within a span of seconds from the origin, grouped by `by`."""
    held: dict[str, HeldWork] = defaultdict(HeldWork)
    for entry in entries:
        one = held[str(entry[by])]
        one.reservations += 1
        for atom in entry["atoms"]:
            seconds = sum(
                max(0.0, min(end, span[1]) - max(start, span[0])) * bundles
                for start, end, bundles in atom["allocation"]
            )
            for name, amount in Resources.from_json(atom["bundle"]).items():
                one.work[name] += amount * seconds
    return held


def _capacity(described: Cluster, name: str, span: tuple[int, int]) -> float:
    """Return the total capacity of a resource over a span, in its displayed unit."""
    calendar = calendar_of(described, *span)
    steps = calendar.capacity(name) @ np.diff(calendar.breaks)
    return float(steps) * described.step_ms / 1000 / _HOUR_S / _unit(name)[1]


def _unit(name: str) -> tuple[str, int]:
    return _UNITS.get(name, (f"{name}-hours", 1))


def _table(by: str, resources: Iterable[str]) -> Table:
    """Return the table of a usage: work and share of each resource."""
    headers = {"name": by}
    for name in resources:
        headers |= {name: _unit(name)[0], f"{name}_share": f"{name} %"}
    _, *figures = headers
    return Table(" ".join(("name", "reservations", *figures)), "", headers)


def _figures(held: HeldWork, capacity: Mapping[str, float]) -> dict[str, Any]:
    figures: dict[str, Any] = {"reservations": held.reservations}
    for resource, whole in capacity.items():
        work = round(held.work[resource] / _HOUR_S / _unit(resource)[1], 3)
        figures |= {resource: work, f"{resource}_share": None}
        if whole:
            figures[f"{resource}_share"] = round(100 * work / whole, 3)
    return figures


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
