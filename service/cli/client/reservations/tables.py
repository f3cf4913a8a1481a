"""Reservations of a server as tables for people, and what it said against a request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from rdl.errors import Problem, render
from rdl.local_time import UTC_ZONE
from service.cli.client.server import ServerReply
from service.cli.forms.layout import ListColumn, present_layout, shown_places, terminal_width
from service.cli.forms.local_times import common_zone, local_text, zone_line
from service.cli.forms.table_text import table_text
from service.cli.plans.plan_tables import extent
from service.cli.terminal.errors import CliError
from service.cli.terminal.output import print_table, print_title

COLUMNS: Final = (
    "id", "tenant", "queue", "state", "promise", "start", "end", "revision", "priority",
)  # fmt: skip
#: The same as a list: what no terminal of 80 columns holds is wide.
LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("queue", "promise", "revision", "priority"))
    for name in COLUMNS
)
#: Most different notes of an answer that are printed.
_MOST_NOTES: Final = 5

#: What the part is called that has no name of its own (`rdl.names.PartNames`).
THE_REQUEST: Final = "the request"

ALLOCATION_COLUMNS: Final = ("part", "bundle", "start", "end", "bundles")
SLOT_COLUMNS: Final = ("part", "start", "end", "bundles", "machine")


def title_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line of a list: how many, in which states, and how times are read."""
    counted = Counter(str(entry.get("state", "refused")) for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in counted.most_common())
    count = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    return f"{count}: {states}; {zone_line(common_zone(entries))}"


def row_of(
    entry: Mapping[str, Any], *, calendar: bool, zone: str | None = UTC_ZONE
) -> list[object]:
    """Return a reservation or refusal in `COLUMNS`.

    Parameters
    ----------
    calendar
        Times by the clock of a zone, else as seconds from the Plan's origin, which only programs
        know.
    zone
        The zone of all times of the table; None: each has its own, and its offset is written.

    Raises
    ------
    CliError
        If it is neither.
    """
    if "id" not in entry:
        raise CliError("the answer holds no reservation; is --server an Agenda server?")
    start, end = extent(entry) if "atoms" in entry else (None, None)
    times = {"start": start, "end": end}
    if calendar:
        times = {name: instant_text(entry, seconds, zone) for name, seconds in times.items()}
    values = {**entry, **times}
    return [values.get(name) for name in COLUMNS]


def print_reservations(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print reservations in `COLUMNS`; where a terminal does not hold them, as a list has them.

    Times are what the answer is about: they are not cut for the sake of other columns.
    """
    zone = common_zone(entries)
    rows = [row_of(entry, calendar=True, zone=zone) for entry in entries]
    width = terminal_width()
    text = table_text(COLUMNS, rows)
    fits = width is None or max(len(line) for line in text.splitlines()) <= width
    places = shown_places(LISTED, present_layout(), all_columns=fits)
    print_title(zone_line(zone))
    print_table(
        [COLUMNS[place] for place in places], [[row[place] for place in places] for row in rows]
    )
    notes = dict.fromkeys(note for entry in entries for note in entry.get("notes", ()))
    for note in list(notes)[:_MOST_NOTES]:
        click.echo(f"note: {note}")


def displaced_lines(entry: Mapping[str, Any], *, dry_run: bool) -> list[str]:
    """Return what becomes of the reservations that a request displaces, one line each."""
    begin, end = ("would displace", "would be") if dry_run else ("displaced", "is")
    return [
        f"{begin} {one['id'] or 'a reservation of another tenant'}: it {end} {one['fate']}"
        for one in entry.get("displaced", ())
    ]


def allocation_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return what a reservation holds in `ALLOCATION_COLUMNS`."""
    zone = common_zone([entry])
    return [
        [
            atom.get("name", THE_REQUEST),
            json.dumps(atom["bundle"]),
            instant_text(entry, start, zone),
            instant_text(entry, end, zone),
            bundles,
        ]
        for atom in entry["atoms"]
        for start, end, bundles in atom["allocation"]
    ]


def slot_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return what a reservation holds of which machine in `SLOT_COLUMNS`."""
    zone = common_zone([entry])
    return [
        [
            atom.get("name", THE_REQUEST),
            instant_text(entry, start, zone),
            instant_text(entry, end, zone),
            bundles,
            machine,
        ]
        for atom in entry["atoms"]
        for start, end, bundles, machine in atom.get("slots", ())
    ]


def instant_text(entry: Mapping[str, Any], seconds: float | None, zone: str | None) -> Any:
    """Return a time of an entry by the clock of a zone; None is the entry's own, with its offset.

    It stays seconds where the server told no calendar.
    """
    if seconds is None or "submitted_at" not in entry:
        return seconds
    later = seconds - entry["submitted"]
    own = entry.get("zone", UTC_ZONE) if zone is None else zone
    return local_text(entry["submitted_at"], later, own, with_offset=zone is None)


def offers_in(reply: ServerReply) -> Sequence[Mapping[str, Any]]:
    """Return the offers that came with a refusal, or that were looked for after it."""
    body = reply.body if isinstance(reply.body, dict) else {}
    found: Sequence[Mapping[str, Any]] = (body.get("refusal") or body).get("offers", ())
    return found or body.get("offers", ())


def why_not(asked: Mapping[str, Any], reply: ServerReply) -> str:
    """Return what a server said against a request, with carets where it was RDL text."""
    body = reply.body if isinstance(reply.body, dict) else {}
    if body.get("refusal"):
        return f"refused ({body['code']}): {body['detail']}"
    errors, text = body.get("errors") or [], asked.get("rdl")
    if not errors or not isinstance(text, str) or not all(one.get("span") for one in errors):
        return reply.problem()
    found = tuple(
        Problem(one["code"], one["message"], tuple(one["span"]), None, one["fix"]) for one in errors
    )
    return f"{body['title']}\n{render(found, text)}"
