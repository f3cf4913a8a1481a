"""Metrics of Plans as tables of 80 columns, each with a line that says what its figures are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from rdl.time_grid import duration_text
from service.cli.forms.sentences import better_text
from service.cli.plans.plan_tables import METRIC_COLUMNS
from service.cli.terminal.output import print_table, print_title

if TYPE_CHECKING:
    from planner.files.plan_document import PlanDocument

#: Columns of the first table: what is accepted, and how near that is to the best.
_ACCEPTED: Final = ("agent", "accepted", "acceptance", "value", "bound", "gap", "status")
_ACCEPTED_WORDS: Final = {
    "acceptance": "acceptance: share of the value asked, not of the requests",
    "value": "value: weight x core-hours x worth",
    "bound": "bound: no plan is worth more",
    "gap": "gap: share of the bound that is not reached",
}

#: Columns of the second: how the accepted stand.
_SHAPE: Final = ("agent", "falls", "uniformity", "cost", "machine_loss", "runtime_ms")
_SHAPE_WORDS: Final = {
    "falls": "falls: falls of allocations, bundles",
    "uniformity": "uniformity: deviation / mean of the load",
    "cost": "cost: whole cluster x steps x price",
    "machine_loss": "machine_loss: share of the value that machines do not hold",
    "runtime_ms": "runtime_ms: planning, milliseconds",
}


def print_metrics(rows: Sequence[Sequence[object]]) -> None:
    """Print rows of `METRIC_COLUMNS` as two tables, without columns that no row fills."""
    requests = [row[METRIC_COLUMNS.index("requests")] for row in rows]
    asked = max((one for one in requests if isinstance(one, int)), default=0)
    _print_some(rows, _ACCEPTED, _ACCEPTED_WORDS, f"accepted: of {asked:,} requests")
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
    print_title("wait: submission to start; late: end of window to end of work, - before it")
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
