"""A Plan document as rows: metrics, requests, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from rdl.local_time import UTC_ZONE
from rdl.time_grid import duration_text
from service.cli.kit.output import (
    common_zone,
    local_text,
    print_table,
    print_title,
    printable,
    zone_line,
)
from service.sentences import better_text, counted

if TYPE_CHECKING:
    from planner.files.plan_document import PlanDocument
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
    """Return lines for offers, numbered: the change, and the request to submit.

    Parameters
    ----------
    take
        The command that takes one, without its number; empty if there is none.
    """
    lines = []
    for number, one in enumerate(offers, start=1):
        said = one.get("sentence") or one["change"]["kind"]  # earlier plans say no sentence
        lines += [f"  offer {number}: {said}", f"           {one['expression']}"]
    if offers and take:
        lines.append(f"  to take one: {take} --take 1")
    return lines


def refusal_rows(
    document: Mapping[str, Any],
) -> tuple[list[tuple[int, str]], list[tuple[str, str, str, str]]]:
    """Return (how many, code), most first, and (id, tenant, code, why) of every refusal."""
    by_code = Counter(refusal["code"] for refusal in document["refusals"])
    counts = [(n, code) for code, n in sorted(by_code.items(), key=lambda x: (-x[1], x[0]))]
    rows = [(x["id"], x["tenant"], x["code"], short_why(x["detail"])) for x in document["refusals"]]
    return counts, rows


def short_why(text: str) -> str:
    """Return the first line: the source and its caret below it need a line of their own."""
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= _LONGEST_WHY else line[: _LONGEST_WHY - 1] + "…"


def print_reasons(rows: Sequence[Sequence[str]]) -> None:
    """Print (id, owner, code, reason) of requests, each full reason on its own line."""
    for id_, whose, code, why in rows:
        click.echo(printable(f"{id_} ({whose}): {code}"))
        click.echo(printable(f"  {why}"))


#: Columns of the first table: what is accepted, and how near that is to the best.
_ACCEPTED: Final = ("agent", "accepted", "acceptance", "value", "bound", "gap", "status")
_ACCEPTED_WORDS: Final = {
    "acceptance": "acceptance: accepted share of the requested value, not of the requests",
    "value": "value: weight x core-hours x preference",
    "bound": "bound: no plan is worth more",
    "gap": "gap: share of the bound that is not reached",
}

#: Columns of the second: how the accepted stand.
_SHAPE: Final = ("agent", "falls", "uniformity", "cost", "machine_loss", "runtime_ms")
_SHAPE_WORDS: Final = {
    "falls": "falls: decreases of allocations, in bundles",
    "uniformity": "uniformity: deviation / mean of the load",
    "cost": "cost: whole cluster x steps x price",
    "machine_loss": "machine_loss: share of the value that does not fit on machines",
    "runtime_ms": "runtime_ms: planning, milliseconds",
}


def print_metrics(rows: Sequence[Sequence[object]]) -> None:
    """Print rows of `METRIC_COLUMNS` as two tables, without columns that no row fills."""
    requests = [row[METRIC_COLUMNS.index("requests")] for row in rows]
    asked = max((one for one in requests if isinstance(one, int)), default=0)
    _print_some(rows, _ACCEPTED, _ACCEPTED_WORDS, f"accepted: of {counted(asked, 'request')}")
    click.echo()
    _print_some(rows, _SHAPE, _SHAPE_WORDS, "")
    _print_better(rows)


def print_work(plans: Iterable[tuple[str, PlanDocument]]) -> None:
    """Print hours, utilisation and waits of plans: figures that compare between clusters."""
    from planner.workload.plan import work_of

    figures = [(agent, work_of(document)) for agent, document in plans]
    names = sorted({name for _, one in figures for name, hours in one.hours.items() if hours > 0})
    if not names:
        return
    click.echo()
    print_title("hours reserved (memory: GiB-hours); use: % of all machines over the horizon")
    columns = [part for name in names for part in (f"{name}_hours", f"{name}_use")]
    rows = [
        [
            agent,
            *(
                text
                for name in names
                for text in (
                    f"{one.hours.get(name, 0.0):,.1f}",
                    f"{100 * one.utilisation.get(name, 0.0):.1f} %",
                )
            ),
        ]
        for agent, one in figures
    ]
    print_table(("agent", *columns), rows)
    click.echo()
    print_title("wait: submission to start; late: end of window to end of work, < 0 if earlier")
    times = [
        [agent, *map(_time, (one.wait_mean_s, one.wait_p95_s, one.late_mean_s, one.late_p95_s))]
        for agent, one in figures
    ]
    print_table(("agent", "mean_wait", "p95_wait", "mean_late", "p95_late"), times)


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    minutes = round(seconds / 60)
    return ("-" if minutes < 0 else "") + (duration_text(60_000 * abs(minutes)) or "0s")


def _print_better(rows: Sequence[Sequence[object]]) -> None:
    """Print how much better a plan could be than each, where a bound says so."""
    value, bound = METRIC_COLUMNS.index("value"), METRIC_COLUMNS.index("bound")
    lines = []
    for row in rows:
        held, most = row[value], row[bound]
        if isinstance(held, float) and isinstance(most, float):
            name = f"{row[0]}: " if len(rows) > 1 else ""
            lines.append(f"{name}{better_text(held, most)}")
    if lines:
        click.echo()
        print_title("\n".join(lines))


def _print_some(
    rows: Sequence[Sequence[object]], names: Sequence[str], words: dict[str, str], first: str
) -> None:
    places = [METRIC_COLUMNS.index(name) for name in names]
    shown = [place for place in places if any(row[place] is not None for row in rows)]
    kept = [METRIC_COLUMNS[place] for place in shown]
    print_title(_lines([first, *(words[name] for name in kept if name in words)]))
    print_table(kept, [[row[place] for place in shown] for row in rows])


def _lines(parts: Sequence[str], width: int = 80) -> str:
    """Return parts joined by semicolons, broken between them where a line would be too long."""
    lines = [""]
    for part in parts:
        if not part:
            continue
        longer = f"{lines[-1]}; {part}" if lines[-1] else part
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines[-1] += ";"
            lines.append(part)
    return "\n".join(lines)


#: Id and tenant of a request; and each reason with the agents that say it.
ReasonsOfRequest = tuple[tuple[str, str], dict[str, list[str]]]


def left_out_counts(comparison: Comparison) -> list[str]:
    """Return a sentence for each agent that leaves requests out: how many, by code."""
    said = []
    for run in comparison.runs:
        left = run.left_out()
        if left:
            by_code = Counter(one.code for one in left).most_common()
            told = ", ".join(f"{count:,} {code}" for code, count in by_code)
            said.append(f"{run.agent} leaves out {counted(len(left), 'request')}: {told}")
    return said


def left_out_reasons(comparison: Comparison) -> list[ReasonsOfRequest]:
    """Return the reasons of every request left out; those that few agents leave out come first.

    They say most about the agents.
    """
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for run in comparison.runs:
        for one in run.left_out():
            said = reasons.setdefault((one.id, one.tenant), {})
            said.setdefault(f"{one.code}: {short_why(one.detail)}", []).append(run.agent)
    return sorted(reasons.items(), key=lambda one: sum(len(agents) for agents in one[1].values()))
