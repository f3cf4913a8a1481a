"""`agenda compare`: agents side by side on one workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from service.cli.plans.plan import limits_of, read_day
from service.cli.plans.plan_tables import METRIC_COLUMNS, run_rows
from service.cli.terminal.errors import as_cli_error, reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR
from service.cli.terminal.options import (
    READABLE,
    WRITABLE,
    agent_name,
    agent_names,
    duration,
    seed_option,
)
from service.cli.terminal.output import CSV, JSON, format_option, print_csv, print_json, print_table
from service.cli.terminal.progress import make_ready, running

if TYPE_CHECKING:
    from planner.workload.compare import AgentRun, Comparison

_RELATIVE: Final = ("acceptance", "accepted", "value", "preemption", "uniformity")
_FATES: Final = ("gained", "lost", "moved", "changed")


def agent_time(value: str | tuple[str | None, int]) -> tuple[str | None, int]:
    """Return (agent, milliseconds) of ``60s`` (every agent) or ``milp=5m`` (that one).

    Raises
    ------
    click.BadParameter
        For an unknown agent or no duration.
    """
    if isinstance(value, tuple):
        return value
    name, equals, text = value.rpartition("=")
    return (agent_name(name) if equals else None), duration(text)


@click.command()
@click.argument("cluster", type=READABLE)
@click.argument("workload", type=READABLE)
@click.option(
    "--agents",
    type=agent_names,
    metavar="AGENT,...",
    default="gree,gree-l",
    show_default=True,
    help="Names of agents, separated by commas.",
)
@click.option(
    "--time-limit",
    "times",
    type=agent_time,
    multiple=True,
    metavar="[AGENT=]DURATION",
    help="Stop each agent after this long and keep its best plan; milp=5m is for that agent.",
)
@seed_option("the agents' random choices")
@click.option(
    "--html", type=WRITABLE, help="Write a page with tables and every skyline to this file."
)
@format_option()
@reports_errors
def compare(
    cluster: Path,
    workload: Path,
    agents: tuple[str, ...],
    times: tuple[tuple[str | None, int], ...],
    seed: int,
    html: Path | None,
    form: str,
) -> int:
    """Plan WORKLOAD on CLUSTER with each agent; gree is the baseline if it is among them.

    An agent that fails or is stopped gets a row that says so. The first ^C stops the agent at work,
    keeps its best plan and skips the agents after it.
    """
    from planner.workload.compare import compare as compared

    described, compiled = read_day(cluster, workload)
    time_limits_ms = dict(times)
    seconds = {name: ms / 1000 for name, ms in time_limits_ms.items() if name is not None}
    make_ready()
    with running("comparing agents") as run:
        limits = limits_of(run, time_limits_ms.get(None), seed)
        comparison = compared(described, compiled, agents, limits, times=seconds)
    try:
        if html is not None:
            _write_page(comparison, html, f"{workload.name} on {cluster.name}")
    finally:  # minutes of work are printed even if the page cannot be written
        _print(comparison, form)
    return DONE if any(run.metrics is not None for run in comparison.runs) else ERROR


def _write_page(comparison: Comparison, html: Path, title: str) -> None:
    from service.cli.plans.comparison_page import comparison_page

    with as_cli_error(str(html)):
        html.write_text(comparison_page(comparison, title), encoding="utf-8")


def _counts(run: AgentRun) -> list[object]:
    if run.differences is None:
        return [None] * len(_FATES)
    counts = run.differences.to_json()["counts"]
    return [counts[fate] for fate in _FATES]


def _print(comparison: Comparison, form: str) -> None:
    for run in comparison.runs:
        if run.detail:
            click.echo(f"{run.agent}: {run.status}: {run.detail}", err=True)
    if form == JSON:
        print_json(comparison.to_json())
    elif form == CSV:
        print_csv(METRIC_COLUMNS, run_rows(comparison))
    else:
        print_table(METRIC_COLUMNS, run_rows(comparison))
        click.echo(f"\nrelative to {comparison.baseline}, and what became of the requests")
        rows = [
            [run.agent, *(run.relative[name] for name in _RELATIVE), *_counts(run)]
            for run in comparison.runs
        ]
        print_table(("agent", *_RELATIVE, *_FATES), rows)
