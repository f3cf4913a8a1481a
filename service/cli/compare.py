"""`agenda compare`: agents on one workload, as tables or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from planner.agents import COMPARED_AGENTS
from service.cli.kit.errors import DONE, ERROR, as_cli_error, reports_errors
from service.cli.kit.options import (
    AGENTS_HELP,
    READABLE,
    WRITABLE,
    agent_name,
    agent_names,
    chosen_workers,
    complete_agent,
    duration,
    pool_options,
    seed_option,
)
from service.cli.kit.output import (
    CSV,
    JSON,
    format_option,
    print_csv,
    print_json,
    print_table,
    print_title,
    printable,
)
from service.cli.kit.progress import make_ready, running
from service.cli.plan import limits_of, read_day
from service.cli.plan_tables import (
    METRIC_COLUMNS,
    left_out_counts,
    left_out_reasons,
    print_metrics,
    print_work,
    run_rows,
)

if TYPE_CHECKING:
    from planner.agent import Limits
    from planner.cluster.cluster import Cluster
    from planner.workload.compare import AgentRun, Comparison
    from planner.workload.compile import CompiledWorkload

_RELATIVE: Final = ("acceptance", "accepted", "value", "falls", "uniformity")
#: Most reasons that are told one by one.
_TOLD: Final = 20
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


@click.command(epilog=AGENTS_HELP)
@click.argument("cluster", type=READABLE)
@click.argument("workload", type=READABLE)
@click.option(
    "--agents",
    type=agent_names,
    shell_complete=complete_agent,
    metavar="AGENT,...",
    default=",".join(COMPARED_AGENTS),
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
@pool_options("each agent")
@format_option()
@reports_errors
def compare(
    cluster: Path,
    workload: Path,
    agents: tuple[str, ...],
    times: tuple[tuple[str | None, int], ...],
    seed: int,
    html: Path | None,
    workers: int | None,
    dask: str | None,
    form: str,
) -> int:
    """Plan WORKLOAD on CLUSTER with each agent; gree is the baseline if it is among them.

    An agent that fails or is stopped gets a row that says so. The first ^C stops the agents at
    work, keeps their best plans and skips the agents after them. Agents that run at the same time
    on one host share its cores: give a solver's time limit with that in mind.
    """
    from planner.workload.compare import RECORDED

    described, compiled = read_day(cluster, workload)
    time_limits_ms = dict(times)
    seconds = {name: ms / 1000 for name, ms in time_limits_ms.items() if name is not None}
    every_ms = time_limits_ms.get(None)
    if workers is None and dask is None:
        from planner.workload.compare import compare as compared

        make_ready()
        with running("comparing agents") as run:
            limits = limits_of(run, every_ms, seed)
            comparison = compared(described, compiled, agents, limits, times=seconds)
    else:
        from service.jobs.tasks import bare_limits

        every_s = None if every_ms is None else every_ms / 1000
        asked = bare_limits(agents, every_s, seed, seconds)
        comparison = _on_pool((described, compiled), asked, workers, dask)
    try:
        if html is not None:
            _write_page(comparison, html, f"{workload.name} on {cluster.name}")
    finally:  # minutes of work are printed even if the page cannot be written
        _print(comparison, form)
    planned = (run for run in comparison.runs if run.basis != RECORDED)
    return DONE if any(run.metrics is not None for run in planned) else ERROR


def _on_pool(
    day: tuple[Cluster, CompiledWorkload],
    limits: Mapping[str, Limits],
    workers: int | None,
    dask: str | None,
) -> Comparison:
    """Compare agents side by side in other processes, showing how many are done."""
    from service.jobs.tasks import compare_on

    done: list[AgentRun] = []
    with chosen_workers(workers, dask) as chosen, running("comparing agents") as run:
        run.progress(0, len(limits))

        def tell(one: AgentRun) -> None:
            done.append(one)
            run.progress(len(done), len(limits))

        return compare_on(chosen, day, limits, run.stop, tell=tell)


def _write_page(comparison: Comparison, html: Path, title: str) -> None:
    from service.cli.comparison_page import comparison_page

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
        print_metrics(run_rows(comparison))
        print_work((run.agent, run.document) for run in comparison.runs if run.document is not None)
        click.echo()
        print_title(f"times the figure of {comparison.baseline}: 1.100 is a tenth more")
        relative = [
            [run.agent, *(run.relative[name] for name in _RELATIVE)] for run in comparison.runs
        ]
        print_table(("agent", *_RELATIVE), relative)
        click.echo()
        print_title(f"requests, against {comparison.baseline}; moved: accepted by both, elsewhere")
        print_table(("agent", *_FATES), [[run.agent, *_counts(run)] for run in comparison.runs])
        _print_left_out(comparison)


def _print_left_out(comparison: Comparison) -> None:
    """Print how many requests each agent leaves out for what, and of the first ones why."""
    counts, few = left_out_counts(comparison), left_out_reasons(comparison)
    if not counts:
        return
    click.echo()
    print_title("\n".join(counts))
    for (id_, tenant), reasons in few[:_TOLD]:
        click.echo(printable(f"{id_} ({tenant})"))
        for why, agents in reasons.items():
            click.echo(printable(f"  {', '.join(agents)}: {why}"))
    if len(few) > _TOLD:
        click.echo(f"... and {len(few) - _TOLD:,} more; -o json lists all")
