"""A Plan document as rows: metrics, requests, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rdl.time_grid import duration_text
from service.cli.terminal.output import moved_text

if TYPE_CHECKING:
    from planner.workload.compare import Comparison

METRIC_COLUMNS: Final = (
    "agent", "accepted", "requests", "acceptance", "value", "preemption", "cost", "uniformity",
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


def time_rows(document: Mapping[str, Any]) -> list[list[object]]:
    """Return when each reservation runs: instants where there is an origin, else from it."""
    origin = document["cluster"].get("origin")
    rows: list[list[object]] = []
    for entry in document["reservations"]:
        times = [None if one is None else _time_text(one, origin) for one in extent(entry)]
        rows.append([entry["id"], entry["tenant"], *times])
    return rows


def _time_text(seconds: float, origin: str | None) -> str:
    if origin is not None:
        return moved_text(origin, seconds)
    return duration_text(round(1000 * seconds)) if seconds else "0s"


def extent(reservation: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return when a reservation's first allocation starts and its last ends, in seconds."""
    rows = [row for atom in reservation["atoms"] for row in atom["allocation"]]
    if not rows:
        return None, None
    return min(row[0] for row in rows), max(row[1] for row in rows)


def offer_lines(offers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each offer: what changes, and the request to send back."""
    return [f"  offer ({one['change']['kind']}): {one['expression']}" for one in offers]


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
