"""`agenda compare`: compare agents on one workload, in tables or on a page."""

from __future__ import annotations

from collections.abc import Sequence
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
from service.cli.plan_files import difference_rows
from service.cli.plan_tables import (
    METRIC_COLUMNS,
    left_out_counts,
    left_out_reasons,
    print_metrics,
    print_work,
    run_rows,
)
from service.cli.size import compare_sizes, machine_counts
from service.pictures.report import beside_html, folded_html, list_html, page_html, table_html
from service.sentences import better_clause

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.metrics import Metrics
    from planner.workload.compare import AgentRun, Comparison
    from planner.workload.compile import CompiledWorkload


_RELATIVE: Final = ("acceptance", "accepted", "value", "falls", "uniformity")
#: The most reasons that are printed one by one.
_TOLD: Final = 20
_FATES: Final = ("gained", "lost", "moved", "changed")

#: Rows of a table that is not folded, at most.
_MOST_OPEN: Final = 12

#: What the columns mean, for anyone who meets them first.
_LEGEND: Final = (
    "acceptance: value accepted of the value asked; value is weight x core-hours x preference",
    "falls: how far allocations fall over time, in bundles; less is calmer",
    "uniformity: standard deviation of utilisation over its mean; less leaves more even headroom",
    "bound: no plan whatever accepts more value; gap: (bound - value) / bound",
)


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


def comparison_page(comparison: Comparison, title: str) -> str:
    """Return the HTML of a comparison: in short, figures, skylines, requests, reasons."""
    base = [run.agent for run in comparison.runs].index(comparison.baseline)
    documents = [run.document.to_json() for run in comparison.runs if run.document is not None]
    sections = [
        ("In short", list_html([_sentence(run, comparison) for run in comparison.runs])),
        (
            "Metrics",
            table_html(*_known(METRIC_COLUMNS, run_rows(comparison)), base=base)
            + list_html(_LEGEND),
        ),
        (
            f"Relative to {comparison.baseline}",
            table_html(("agent", *_RELATIVE), _relative_rows(comparison), base=base),
        ),
        ("Skylines", beside_html(documents)),
        ("Requests that agents answer differently", _disagreements(comparison)),
        ("Why requests are left out", _reasons(comparison)),
        ("Who moved", "".join(_differences(run, comparison.baseline) for run in comparison.runs)),
    ]
    return page_html(title, sections)


def _known(
    header: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Return a table without empty columns."""
    kept = [at for at in range(len(header)) if any(row[at] is not None for row in rows)]
    return [header[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _sentence(run: AgentRun, comparison: Comparison) -> str:
    """Return the result of one agent in one or two sentences."""
    if run.metrics is None:
        return f"{run.agent}: no plan ({run.status}). {run.detail}."
    figures = run.metrics
    text = f"{run.agent} accepts {figures.accepted:,} of {figures.requests:,} requests"
    if figures.acceptance is not None:
        text += f", {figures.acceptance:.1%} of the value"
    value, falls = run.relative["value"], run.relative["falls"]
    if run.agent != comparison.baseline and value is not None:
        more = "more" if value >= 1 else "less"
        text += f" ({abs(value - 1):.1%} {more} than {comparison.baseline}"
        text += f", falls {falls - 1:+.0%})" if falls is not None else ")"
    text += f", in {_duration(figures.runtime_ms)}."
    if figures.gap is not None:
        text += f" {_better(figures, is_proven=run.status == 'optimal')}."
    return f"{text} {run.status}: {run.detail}." if run.detail else text


def _better(figures: Metrics, *, is_proven: bool) -> str:
    """Return how much better a plan could be."""
    bound = figures.value if is_proven or figures.bound is None else figures.bound
    clause = better_clause(figures.value, bound)
    return clause[0].upper() + clause[1:]


def _duration(ms: float) -> str:
    """Return how long a run took, in a unit that leaves figures before the point."""
    if ms >= 1000:
        return f"{ms / 1000:,.1f} s"
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:,.1f} ms" if ms >= 1 else f"{1000 * ms:,.0f} µs"


def _relative_rows(comparison: Comparison) -> list[list[object]]:
    return [[run.agent, *(run.relative[name] for name in _RELATIVE)] for run in comparison.runs]


def _disagreements(comparison: Comparison) -> str:
    found = comparison.disagreements()
    if not found:
        return "<p>None: every agent accepts and refuses the same requests.</p>"
    header = ("id", "tenant", "weight", *(run.agent for run in comparison.runs))
    rows = [[one.id, one.tenant, one.weight, *one.answers] for one in found]
    return _list(f"{len(found):,} in all", table_html(header, rows), len(rows))


def _reasons(comparison: Comparison) -> str:
    """Return the number of refusals of each agent by cause, and the reason for each request."""
    counts = left_out_counts(comparison)
    if not counts:
        return "<p>None is.</p>"
    rows = [
        [id_, tenant, ", ".join(agents), why]
        for (id_, tenant), reasons in left_out_reasons(comparison)
        for why, agents in reasons.items()
    ]
    header = ("id", "tenant", "left out by", "why")
    text = "Request by request: those that few agents leave out come first"
    return list_html(counts) + _list(text, table_html(header, rows), len(rows))


def _list(summary: str, table: str, rows: int) -> str:
    """Return a table under its summary, folded where it is long."""
    return folded_html(summary, table) if rows > _MOST_OPEN else f"<p>{summary}.</p>{table}"


def _differences(run: AgentRun, baseline: str) -> str:
    if run.differences is None:
        return ""
    plain = run.differences.to_json()
    header, rows = difference_rows(plain, calendar=True)
    counts = ", ".join(f"{count:,} {fate}" for fate, count in plain["counts"].items() if count)
    summary = f"From {baseline} to {run.agent}: {counts or 'nothing'}, {plain['same']:,} the same"
    return folded_html(summary, table_html(header, rows) if rows else "")
