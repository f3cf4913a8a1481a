"""Reservations of a server as tables for people, and what it said against a request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rdl.errors import Problem, render
from service.cli.client.server import ServerReply
from service.cli.forms.layout import ListColumn, present_layout, shown_places, terminal_width
from service.cli.forms.table_text import table_text
from service.cli.plans.plan_tables import extent
from service.cli.terminal.errors import CliError
from service.cli.terminal.output import moved_text, print_table

COLUMNS: Final = ("id", "tenant", "queue", "state", "promise", "start", "end", "revision")
#: The same as a list: what no terminal of 80 columns holds is wide.
LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("queue", "promise", "revision")) for name in COLUMNS
)
ALLOCATION_COLUMNS: Final = ("part", "bundle", "start", "end", "bundles")
SLOT_COLUMNS: Final = ("part", "start", "end", "bundles", "machine")


def title_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line of a list: how many, and in which states."""
    counted = Counter(str(entry.get("state", "refused")) for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in counted.most_common())
    return f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}: {states}"


def row_of(entry: Mapping[str, Any], *, calendar: bool) -> list[object]:
    """Return a reservation or refusal in `COLUMNS`.

    Parameters
    ----------
    calendar
        Times as instants, else as seconds from the Plan's origin, which only programs know.

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
        times = {name: instant_text(entry, seconds) for name, seconds in times.items()}
    values = {**entry, **times}
    return [values.get(name) for name in COLUMNS]


def print_reservations(rows: Sequence[Sequence[object]]) -> None:
    """Print rows of `COLUMNS`; where a terminal does not hold them all, as a list has them.

    Times are what the answer is about: they are not cut for the sake of other columns.
    """
    width = terminal_width()
    text = table_text(COLUMNS, rows)
    fits = width is None or max(len(line) for line in text.splitlines()) <= width
    places = shown_places(LISTED, present_layout(), all_columns=fits)
    print_table(
        [COLUMNS[place] for place in places], [[row[place] for place in places] for row in rows]
    )


def allocation_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return what a reservation holds in `ALLOCATION_COLUMNS`."""
    return [
        [
            atom.get("name", atom["path"]),
            json.dumps(atom["bundle"]),
            instant_text(entry, start),
            instant_text(entry, end),
            bundles,
        ]
        for atom in entry["atoms"]
        for start, end, bundles in atom["allocation"]
    ]


def slot_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return what a reservation holds of which machine in `SLOT_COLUMNS`."""
    return [
        [
            atom.get("name", atom["path"]),
            instant_text(entry, start),
            instant_text(entry, end),
            bundles,
            machine,
        ]
        for atom in entry["atoms"]
        for start, end, bundles, machine in atom.get("slots", ())
    ]


def instant_text(entry: Mapping[str, Any], seconds: float | None) -> Any:
    """Return a time of an entry in RFC 3339; as it is where the server told no calendar."""
    if seconds is None or "submitted_at" not in entry:
        return seconds
    return moved_text(entry["submitted_at"], seconds - entry["submitted"])


def why_not(asked: Mapping[str, Any], reply: ServerReply) -> str:
    """Return what a server said against a request, with carets where it was RDL text."""
    body = reply.body if isinstance(reply.body, dict) else {}
    errors, text = body.get("errors") or [], asked.get("rdl")
    if not errors or not isinstance(text, str) or not all(one.get("span") for one in errors):
        return reply.problem()
    found = tuple(
        Problem(one["code"], one["message"], tuple(one["span"]), None, one["fix"]) for one in errors
    )
    return f"{body['title']}\n{render(found, text)}"
