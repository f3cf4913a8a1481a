"""A Plan document as rows: metrics, requests, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from rdl.local_time import UTC_ZONE
from rdl.time_grid import duration_text
from service.cli.forms.local_times import common_zone, local_text, zone_line
from service.cli.forms.table_text import printable

if TYPE_CHECKING:
    from planner.workload.compare import Comparison

METRIC_COLUMNS: Final = (
    "agent", "accepted", "requests", "acceptance", "value", "falls", "cost", "uniformity",
    "bound", "gap", "machine_loss", "status", "runtime_ms",
)  # fmt: skip
REQUEST_COLUMNS: Final = (
    "id", "tenant", "queue", "submitted", "weight", "priority", "state", "promise", "code", "start",
    "end",
)  # fmt: skip
TIME_COLUMNS: Final = ("id", "tenant", "start", "end")
#: The longest sentence of a refusal by an agent fits; what a client wrote may be cut.
_LONGEST_WHY = 200


def metric_rows(documents: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Return one row of `METRIC_COLUMNS` for each Plan."""
    return [
        [document["agent"], *(document["metrics"].get(name) for name in METRIC_COLUMNS[1:])]
        for document in documents
    ]


def run_rows(comparison: Comparison) -> list[list[object]]:
    """Return one row of `METRIC_COLUMNS` for each run; dashes without a plan."""
    rows: list[list[object]] = []
    for run in comparison.runs:
        figures = {} if run.metrics is None else run.metrics.to_json()
        figures["status"] = run.status
        rows.append([run.agent, *(figures.get(name) for name in METRIC_COLUMNS[1:])])
    return rows


def request_rows(document: Mapping[str, Any]) -> list[list[object]]:
    """Return one row of `REQUEST_COLUMNS` for each reservation, then each refusal."""
    rows = []
    for entry in document["reservations"]:
        start, end = extent(entry)
        told = [entry[name] for name in REQUEST_COLUMNS[:7]]
        rows.append([*told, entry.get("promise"), None, start, end])
    for entry in document["refusals"]:
        asked = [entry[name] for name in REQUEST_COLUMNS[:6]]
        rows.append([*asked, "refused", entry.get("promise"), entry["code"], None, None])
    return rows


def time_rows(document: Mapping[str, Any]) -> tuple[str, list[list[object]]]:
    """Return how times are to be read, and when each reservation runs.

    Times are by the clock of the zone where there is an origin, else lengths from it.
    """
    origin, entries = document["cluster"].get("origin"), document["reservations"]
    zone = common_zone(entries)
    rows: list[list[object]] = []
    for entry in entries:
        own = entry.get("zone", UTC_ZONE) if zone is None else zone
        times = [
            None if at is None else _time_text(at, origin, own, with_offset=zone is None)
            for at in extent(entry)
        ]
        rows.append([entry["id"], entry["tenant"], *times])
    return "times from the origin" if origin is None else zone_line(zone), rows


def _time_text(seconds: float, origin: str | None, zone: str, *, with_offset: bool) -> str:
    if origin is not None:
        return local_text(origin, seconds, zone, with_offset=with_offset)
    return duration_text(round(1000 * seconds)) if seconds else "0s"


def extent(reservation: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return when a reservation's first allocation starts and its last ends, in seconds."""
    rows = [row for atom in reservation["atoms"] for row in atom["allocation"]]
    if not rows:
        return None, None
    return min(row[0] for row in rows), max(row[1] for row in rows)


def offer_lines(offers: Sequence[Mapping[str, Any]], take: str = "") -> list[str]:
    """Return lines for offers, numbered: what would have to change, and the request to send back.

    Parameters
    ----------
    take
        The command that takes one, without its number; empty where there is none.
    """
    lines = []
    for number, one in enumerate(offers, start=1):
        said = one.get("sentence") or one["change"]["kind"]  # plans of before say no sentence
        lines += [f"  offer {number}: {said}", f"           {one['expression']}"]
    if offers and take:
        lines.append(f"  to take one: {take} --take 1")
    return lines


def refusal_rows(
    document: Mapping[str, Any],
) -> tuple[list[tuple[int, str]], list[tuple[str, str, str, str]]]:
    """Return (how many, code), most first, and (id, tenant, code, why) of every refusal."""
    counted = Counter(refusal["code"] for refusal in document["refusals"])
    counts = [(n, code) for code, n in sorted(counted.items(), key=lambda x: (-x[1], x[0]))]
    rows = [(x["id"], x["tenant"], x["code"], short_why(x["detail"])) for x in document["refusals"]]
    return counts, rows


def short_why(text: str) -> str:
    """Return the first line: the source and its caret below it need a line of their own."""
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= _LONGEST_WHY else line[: _LONGEST_WHY - 1] + "…"


def print_reasons(rows: Sequence[Sequence[str]]) -> None:
    """Print (id, whose, code, why) of requests, each reason on a line of its own: none is cut."""
    for id_, whose, code, why in rows:
        click.echo(printable(f"{id_} ({whose}): {code}"))
        click.echo(printable(f"  {why}"))
