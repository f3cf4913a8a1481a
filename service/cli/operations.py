"""`agenda status`, `outages` and `audit`: a server for its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from service.cli.kit.commands import (
    ALL_FORMS,
    Answer,
    Entry,
    Listing,
    Table,
    dry_run_query,
    flag,
    given,
    id_of,
    server_command,
    tenant_option,
)
from service.cli.kit.options import before_now, from_now
from service.cli.kit.output import JSON_LINES, local_text, print_table, zone_line
from service.cli.kit.server import Server, entry_path
from service.sentences import counted

#: A reservation that is affected when machines go or come; work moved is resource share x steps.
AFFECTED: Final = Table("id tenant fate value* moved* reason")

#: Fates in which a reservation no longer has what it was promised.
_LESS: Final = ("degraded", "failed")

_OUTAGES: Final = "/v1/cluster/outages"
_SHOWN_NAMES: Final = 6
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def affected_title(affected: Sequence[Entry]) -> str:
    """Return the first line: how many of each fate, and whether anybody loses anything."""
    if not affected:
        return "no reservation is affected"
    by_fate = Counter(str(one["fate"]) for one in affected)
    fates = ", ".join(f"{count:,} {fate}" for fate, count in by_fate.most_common())
    loses = any(by_fate[fate] for fate in _LESS)
    return fates if loses else f"{fates}; no reservation loses anything"


def _names(outage: Entry) -> str:
    names = [*outage["names"], *(f"{name} (absent)" for name in outage.get("absent", ()))]
    shown = " ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} ... ({len(names)})"


def _count(outage: Entry) -> int:
    """Return how many machines, or units of a pool, an outage takes."""
    return len(outage["names"])


def _edge(name: str) -> Any:
    """Return a function for the start or end of an outage: its instant, if the server has one."""
    return lambda outage: outage.get(f"{name}_at") or outage[name]


def _recurs(outage: Entry) -> str:
    """Return how an outage recurs: ``every 1mo on first tue (Europe/Berlin)``."""
    if "every" not in outage:
        return ""
    days = ", ".join(outage.get("days", ())) or outage.get("day")
    parts = [f"every {outage['every']}"]
    parts += [f"on {days}"] if days else []
    parts += [f"except {', '.join(outage['except'])}"] if "except" in outage else []
    return " ".join([*parts, f"({outage['zone']})"])


_OUTAGE_LIST: Final = Table(
    "id kind count machines start end recurs* reason by* names*", "start end",
    count=_count, start=_edge("start"), end=_edge("end"), recurs=_recurs, names=_names,
)  # fmt: skip
_OUTAGE: Final = Table(
    "id kind count machines start end",
    "start end",
    count=_count,
    start=_edge("start"),
    end=_edge("end"),
)


@click.group()
def outages() -> None:
    """Add, list and end outages of machines."""


@server_command(
    outages,
    "add",
    click.argument("machines"),
    click.option(
        "--count",
        type=click.IntRange(min=1),
        metavar="N",
        help="Take N machines of the group, highest numbers first; a drain takes those with "
        "the least work to move.",
    ),
    click.option("--name", "names", multiple=True, help="Take this machine; may be repeated."),
    click.option(
        "--end",
        required=True,
        callback=from_now,
        help="End of the outage: 2h or +2h from now, '2026-11-24 08:00' by the cluster's "
        "clock, or RFC 3339.",
    ),
    click.option("--start", callback=from_now, help="When the machines go, alike.  [default: now]"),
    click.option(
        "--kind",
        type=click.Choice(("loss", "drain", "maintenance")),
        help="A drain waits for the end of leases that have begun.  [default: loss; maintenance "
        "with --every]",
    ),
    click.option("--every", metavar="PERIOD", help="The maintenance recurs: 1d, 1w, 1mo."),
    click.option("--until", callback=from_now, help="End of the last occurrence."),
    click.option("--zone", help="Clock by which it recurs.  [default: the cluster's]"),
    click.option(
        "--on",
        "days",
        multiple=True,
        type=click.Choice(_DAYS),
        metavar="DAY",
        help="With --every 1d: only on this weekday, such as tue; may be repeated.",
    ),
    click.option(
        "--day",
        metavar="DAY",
        help="With --every 1mo: the day of the month, such as 31, last or 'first tue'.",
    ),
    click.option(
        "--except",
        "except_",
        multiple=True,
        metavar="DATE",
        help="Not on this date or range of dates; may be repeated.",
    ),
    click.option("--reason", help="Reason, shown in refusals and lists."),
    flag("--dry-run", "Show which reservations would be affected and change nothing."),
    forms=ALL_FORMS,
)
def add(server: Server, dry_run: bool, **options: Any) -> Answer:
    """Add an outage of machines of the group MACHINES and show the affected reservations."""
    if (options["count"] is None) == (not options["names"]):
        raise click.UsageError("give either --count or --name")
    options["except"] = options.pop("except_")
    options |= {name: server.instant(options[name]) for name in ("start", "end", "until")}
    reply = server.call("POST", _OUTAGES, given(**options), dry_run_query(dry_run))
    return _outage_answer(server, reply.good())


@server_command(outages, "list", lists=True)
def list_(server: Server) -> Listing:
    """List the outages that are not over, earliest first."""
    body = server.call("GET", _OUTAGES).good()
    found = body["outages"]
    title = f"{counted(len(found), 'outage')}, present and to come"
    return Listing(body, found, _OUTAGE_LIST, title, "no outages")


@server_command(outages, "remove", id_of("outage"), forms=ALL_FORMS)
def remove(id_: str, server: Server) -> Answer:
    """End the outage ID: give its machines back and show which reservations are restored."""
    return _outage_answer(server, server.call("DELETE", entry_path(_OUTAGES, id_)).good())


def _outage_answer(server: Server, body: Mapping[str, Any]) -> Answer:
    affected = body["affected"]
    return Answer(body, partial(_print_outage, server, body), partial(AFFECTED.print_csv, affected))


def _print_outage(server: Server, body: Mapping[str, Any]) -> None:
    affected = body["affected"]
    if body["outage"] is not None:
        zone = server.zone()
        _OUTAGE.print([body["outage"]], zone, zone_line(zone))
        click.echo()
    click.echo(affected_title(affected))
    if affected:
        click.echo()
        AFFECTED.print(affected)
    if body["pending"]:
        click.echo(
            "the repair continues and may affect more: agenda reservations list --state degraded",
            err=True,
        )
    if body["short"]:
        click.echo(f"machines are still short: {body['short']}", err=True)


#: Length of ``2026-11-23 18:12``.
_MINUTES: Final = 16


@server_command(None, "status")
def status(server: Server) -> Answer:
    """Show machines, promises, work, risks, refusals, and stale components."""
    body = server.call("GET", "/v1/status").good()
    return Answer(body, partial(_print_status, server, body))


def _print_status(server: Server, body: Mapping[str, Any]) -> None:
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


def _sections(body: Mapping[str, Any], zone: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each part of the answer by name, as lines."""
    machines, work = body["machines"], body["work"]
    lines = [f"{machines['up']:,} of {machines['total']:,} are up"]
    for one in machines["outages"]:
        end = "" if one["end_at"] is None else f" until {_when(one['end_at'], zone)}"
        why = f" ({one['reason']})" if one["reason"] else ""
        said = f"{one['count']:,} of {one['machines']}: {one['kind']} {one['id']}{end}{why}"
        lines.append(said)
    yield "machines", lines
    lines = [
        f"{one['resource']} {one['now_share']:.0%} now, "
        f"peak of 24 hours {one['peak_share']:.0%} at {_when(one['peak_at'], zone)}"
        for one in body["promised"]
    ]
    yield "promised", lines or ["no request can be accepted: the Plan has reached its horizon"]
    yield (
        "work",
        [
            f"{counted(work['running'], 'application')} running, {work['waiting']:,} waiting; "
            f"{counted(work['components'], 'component')} on machines"
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


def _state(machine: Entry) -> str:
    outage = machine["outage"]
    return "up" if outage is None else str(outage["kind"])


def _of_outage(name: str) -> Any:
    """Return a function that reads a member of a machine's outage; empty for a machine that is
    up."""
    return lambda machine: (machine["outage"] or {}).get(name)


_MACHINES: Final = Table(
    "name group state until promised used slots* components* reason* next*",
    "until next",
    {"promised": "promised %", "used": "used %"},
    state=_state,
    until=_of_outage("end_at"),
    promised=lambda one: f"{100 * one['promised_share']:.0f}",
    used=lambda one: f"{100 * one['used_share']:.0f}",
    slots=lambda one: len(one["slots"]),
    components=lambda one: len(one["components"]),
    reason=_of_outage("reason"),
    next=lambda machine: (machine["next_outage"] or {}).get("start_at"),
)


@server_command(
    None,
    "machines",
    click.option("--group", help="Only machines of this group."),
    click.option("--name", help="Only this machine."),
    click.option("--at", help="As planned for this time: +2h or RFC 3339.  [default: now]"),
    click.option(
        "--away", is_flag=True, help="Only machines that are lost, drained or in maintenance."
    ),
    lists=True,
)
def machines(server: Server, away: bool, **query: str | None) -> Listing:
    """List machines: state, and how much of each is promised and used.

    A share is that of the resource of which most is taken.
    """
    body = server.call("GET", "/v1/machines", query=query).good()
    found = [one for one in body["machines"] if not away or one["outage"] is not None]
    up = sum(one["up"] for one in body["machines"])
    title = f"{up:,} of {len(body['machines']):,} up"
    return Listing({**body, "machines": found}, found, _MACHINES, title, "no machines", "machines")


#: A change of the audit.
AUDIT: Final = Table("at user address* call* kind tenant about detail* version*", "at")


@server_command(
    None,
    "audit",
    click.option("--user", help="Only changes by this user."),
    tenant_option("Only changes of objects of this tenant."),
    click.option("--kind", help="Only changes of this kind, such as admit, end or cluster."),
    click.option("--about", help="Only changes of this reservation, application or token."),
    click.option("--from", "start", callback=before_now,
                 help="Only changes at or after this time: 24h before now, a date, or RFC 3339."),
    click.option("--to", "end", callback=before_now, help="Only changes before this time."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N",
                 help="List the newest N.  [default: all]"),
    forms=(*ALL_FORMS, JSON_LINES),
    lists=True,
)  # fmt: skip
def audit(
    server: Server, start: str | None, end: str | None, limit: int | None, **filters: str | None
) -> Listing:
    """List who changed what, when and from where, newest first; for operators.

    `-o jsonl` and `-o csv` are for other tools.
    """
    query = {**filters, "from": server.instant(start), "to": server.instant(end)}
    entries = server.list_all("/v1/audit", "changes", query, limit)
    return Listing(entries, entries, AUDIT, f"{counted(len(entries), 'change')}, newest first")
