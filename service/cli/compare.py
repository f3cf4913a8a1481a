"""`agenda compare`: compare agents on one workload, in tables or on a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from planner.agents import COMPARED_AGENTS
from service.cli.kit.commands import ALL_FORMS, Answer, server_command
from service.cli.kit.errors import DONE, ERROR, as_cli_error
from service.cli.kit.options import (
    AGENTS_HELP,
    READABLE,
    WRITABLE,
    WorkerChoice,
    agent_name,
    agent_names,
    complete_agent,
    duration,
    option_group,
    seed_option,
    worker_options,
)
from service.cli.kit.output import print_csv, print_table, print_title, printable
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
from service.cli.size import compare_sizes, machine_counts

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.workload.compare import AgentRun, Comparison
    from planner.workload.compile import CompiledWorkload

_RELATIVE: Final = ("acceptance", "accepted", "value", "falls", "uniformity")
#: The most reasons that are printed one by one.
_TOLD: Final = 20
_FATES: Final = ("gained", "lost", "moved", "changed")


def agent_time(value: str | tuple[str | None, int]) -> tuple[str | None, int]:
    """Return (agent, milliseconds) for ``60s`` (every agent) or ``milp=5m`` (only `milp`).

    Raises
    ------
    click.BadParameter
        If the agent is unknown or there is no duration.
    """
    if isinstance(value, tuple):
        return value
    name, equals, text = value.rpartition("=")
    return (agent_name(name) if equals else None), duration(text)


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Time limits as (agent or None for all, ms), and the seed of all agents."""

    times: tuple[tuple[str | None, int], ...] = ()
    seed: int = 0

    @property
    def every_ms(self) -> int | None:
        """Time limit of agents without their own, milliseconds; None: no limit."""
        return dict(self.times).get(None)

    @property
    def own_s(self) -> dict[str, float]:
        """Time limits of agents that have their own, seconds, by name."""
        return {name: ms / 1000 for name, ms in self.times if name is not None}


@server_command(
    None,
    "compare",
    click.argument("cluster", type=READABLE),
    click.argument("workload", type=READABLE),
    click.option(
        "--agents",
        type=agent_names,
        shell_complete=complete_agent,
        metavar="AGENT,...",
        default=",".join(COMPARED_AGENTS),
        show_default=True,
        help="Names of agents, separated by commas.",
    ),
    option_group(
        "ending",
        AgentLimits,
        click.option(
            "--time-limit",
            "times",
            type=agent_time,
            multiple=True,
            metavar="[AGENT=]DURATION",
            help="Stop each agent after this long and keep its best plan; milp=5m is for that "
            "agent.",
        ),
        seed_option("the agents' random choices"),
    ),
    click.option(
        "--html", type=WRITABLE, help="Write a page with tables and every skyline to this file."
    ),
    click.option(
        "--machines",
        callback=machine_counts,
        metavar="N,...",
        help="Compare what these numbers of machines accept instead.",
    ),
    click.option(
        "--group",
        metavar="NAME",
        help="With --machines: change this machine group only.  [default: all, by one factor]",
    ),
    worker_options("each agent"),
    forms=ALL_FORMS,
    offline=True,
    epilog=AGENTS_HELP,
)
def compare(
    cluster: Path,
    workload: Path,
    agents: tuple[str, ...],
    ending: AgentLimits,
    html: Path | None,
    machines: tuple[int, ...] | None,
    group: str | None,
    where: WorkerChoice,
) -> Answer:
    """Plan WORKLOAD on CLUSTER with each agent; gree is the baseline if it is among them.

    An agent that fails or is stopped gets a row that says so. The first ^C stops the agents at
    work, keeps their best plans and skips the agents after them. Agents that run at the same time
    on one host share its cores: give a solver's time limit with that in mind.
    """
    from planner.workload.compare import RECORDED

    if machines is not None:
        if where != WorkerChoice():
            raise click.UsageError(
                "--machines plans in this process: leave --workers and --dask out"
            )
        own_ms = {name: ms for name, ms in ending.times if name is not None}
        limits_by_agent = {
            name: (own_ms.get(name, ending.every_ms), ending.seed) for name in agents
        }
        return compare_sizes((cluster, workload), machines, group, limits_by_agent, html)
    if group is not None:
        raise click.UsageError("--group goes with --machines")
    day = read_day(cluster, workload)
    if where == WorkerChoice():
        from planner.workload.compare import compare as compared

        make_ready()
        with running("comparing agents") as run:
            limits = limits_of(run, ending.every_ms, ending.seed)
            comparison = compared(*day, agents, limits, times=ending.own_s)
    else:
        comparison = _on_workers(day, agents, ending, where)
    for one in comparison.runs:
        if one.detail:
            click.echo(f"{one.agent}: {one.status}: {one.detail}", err=True)
    planned = (one for one in comparison.runs if one.basis != RECORDED)

    def write_page() -> None:
        if html is not None:
            from service.cli.comparison_page import comparison_page

            title = f"{workload.name} on {cluster.name}"
            with as_cli_error(str(html)):
                html.write_text(comparison_page(comparison, title), encoding="utf-8")

    return Answer(
        comparison.to_json(),
        lambda: _print(comparison),
        lambda: print_csv(METRIC_COLUMNS, run_rows(comparison)),
        DONE if any(one.metrics is not None for one in planned) else ERROR,
        after=write_page,
    )


def _on_workers(
    day: tuple[Cluster, CompiledWorkload],
    agents: tuple[str, ...],
    ending: AgentLimits,
    where: WorkerChoice,
) -> Comparison:
    """Compare agents concurrently in other processes, showing how many are done."""
    from service.jobs.tasks import bare_limits, compare_on

    every_s = None if ending.every_ms is None else ending.every_ms / 1000
    limits = bare_limits(agents, every_s, ending.seed, ending.own_s)
    done: list[AgentRun] = []
    with where.open() as workers, running("comparing agents") as run:
        run.progress(0, len(limits))

        def tell(one: AgentRun) -> None:
            done.append(one)
            run.progress(len(done), len(limits))

        return compare_on(workers, day, limits, run.stop, tell=tell)


def _counts(run: AgentRun) -> list[object]:
    if run.differences is None:
        return [None] * len(_FATES)
    counts = run.differences.to_json()["counts"]
    return [counts[fate] for fate in _FATES]


def _print(comparison: Comparison) -> None:
    print_metrics(run_rows(comparison))
    print_work((run.agent, run.document) for run in comparison.runs if run.document is not None)
    click.echo()
    print_title(f"times the figure of {comparison.baseline}: 1.100 is a tenth more")
    relative = [[run.agent, *(run.relative[name] for name in _RELATIVE)] for run in comparison.runs]
    print_table(("agent", *_RELATIVE), relative)
    click.echo()
    print_title(f"requests, against {comparison.baseline}; moved: accepted by both, elsewhere")
    print_table(("agent", *_FATES), [[run.agent, *_counts(run)] for run in comparison.runs])
    _print_left_out(comparison)


def _print_left_out(comparison: Comparison) -> None:
    """Print how many requests each agent leaves out by reason, and the first ones in detail."""
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
