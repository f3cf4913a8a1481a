"""`agenda plan`: a workload on a cluster, from files to a Plan file and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.agents import DEFAULT_AGENT
from service.cli.kit.errors import DONE, REFUSED, CliError, reports_errors
from service.cli.kit.options import (
    AGENTS_HELP,
    READABLE,
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    RequestDefaults,
    agent_name,
    complete_agent,
    duration,
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
)
from service.cli.kit.progress import CommandProgress, make_ready, running
from service.cli.plan_tables import (
    REQUEST_COLUMNS,
    TIME_COLUMNS,
    metric_rows,
    print_metrics,
    print_reasons,
    print_work,
    refusal_rows,
    request_rows,
    time_rows,
)

if TYPE_CHECKING:
    from planner.agent import Agent, Limits
    from planner.cluster.cluster import Cluster
    from planner.workload.compile import CompiledWorkload


_SHOWN_REFUSALS = 20
_SHOWN_TIMES = 20


@click.command(epilog=AGENTS_HELP)
@click.argument("cluster", type=READABLE)
@click.argument("workload", type=READABLE_OR_STDIN)
@click.option(
    "--agent",
    type=agent_name,
    shell_complete=complete_agent,
    metavar="AGENT",
    default=DEFAULT_AGENT,
    show_default=True,
    help="Who plans; the agents stand below.",
)
@click.option("--tenant", help="Tenant of a request in RDL.  [default: default]")
@click.option("--queue", help="Queue of a request in RDL.  [default: default]")
@click.option("--out", type=WRITABLE, help="Write the Plan to this file.")
@click.option("--picture", "pictures", type=WRITABLE, multiple=True,
              help="Draw the skyline to this file, .svg or .png; may be repeated.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with 3 if any request was refused.")
@click.option(
    "--time-limit", type=duration, help="Stop after this long and keep the best plan found."
)
@seed_option("the agent's random choices")
@click.option(
    "--gap",
    type=FiniteRange(0, 100),
    help="Stop when the plan is proven within this many per cent of the best (exact, "
    "hybrid, milp).  [default: 1, milp 0]",
)
@click.option(
    "--offers",
    type=click.IntRange(0, 10),
    help="Offers to look for in each refusal.  [default: 3, with more than 20 refusals 0]",
)
@click.option(
    "--solver", help="Solver of the agent milp: highs, or pulp:NAME for any that PuLP knows."
)
@click.option(
    "--write-model",
    type=WRITABLE,
    help="Write the model of the agent milp to this file, .lp or .mps.",
)
@format_option()
@reports_errors
def plan(
    cluster: Path,
    workload: str,
    agent: str,
    tenant: str | None,
    queue: str | None,
    out: Path | None,
    pictures: tuple[Path, ...],
    strict: bool,
    time_limit: int | None,
    seed: int,
    gap: float | None,
    offers: int | None,
    solver: str | None,
    write_model: Path | None,
    form: str,
) -> int:
    """Plan WORKLOAD (JSON Lines, or one request in RDL; - is standard input) on CLUSTER.

    CLUSTER is TOML, or JSON as a server shows it. Prints the metrics and the refusals; -o json
    prints the whole Plan, -o csv one line per request. The exit code is 0 even when requests are
    refused, unless --strict is given. ^C stops the agent and keeps the best plan found.
    """
    from planner.workload.offers import with_offers
    from planner.workload.plan import plan_from_nothing
    from service.pictures.paths import check_picture_path

    for path in pictures:
        check_picture_path(path)
    described, compiled = read_day(cluster, workload, RequestDefaults(tenant, queue))
    chosen = _agent_of(agent, solver, write_model)
    make_ready()
    with running(f"planning with {agent}") as run:
        limits = limits_of(run, time_limit, seed)
        if gap is not None:
            limits = replace(limits, gap=gap / 100)
        planned = plan_from_nothing(described, compiled, chosen, limits)
        if planned.detail:
            click.echo(f"{agent}: {planned.metrics.status}: {planned.detail}", err=True)
        document = with_offers(planned, compiled, chosen, offers, run.stop)
    plain = document.to_json()
    try:
        if out is not None:
            from planner.files import write_plan

            write_plan(document, out)
        if pictures:
            from service.pictures.skyline import write_skyline

            write_skyline(plain, pictures)
    finally:  # minutes of work are printed even if a file cannot be written
        _print_plan(plain, form)
    return REFUSED if strict and plain["refusals"] else DONE


def _agent_of(name: str, solver: str | None, write_model: Path | None) -> Agent:
    """Return the agent of a name; milp with the solver and the model file asked for.

    Raises
    ------
    CliError
        If the agent builds no model, or the solver is not there.
    """
    from lp.solver import backend_named
    from planner.agents import agent_named
    from planner.agents.milp.agent import MilpAgent

    agent = agent_named(name)
    if solver is None and write_model is None:
        return agent
    if not isinstance(agent, MilpAgent):
        raise CliError(f"--solver and --write-model are for the agent milp; {name} has no model")
    if write_model is not None and write_model.suffix not in (".lp", ".mps"):
        raise CliError(f"{write_model}: the name of a model file ends in .lp or .mps")
    solver = solver or agent.solver
    if solver in ("glop", "pdlp"):
        raise CliError(f"--solver: {solver} takes no whole numbers; write highs or pulp:CBC")
    try:
        backend_named(solver)
    except ValueError as error:
        raise CliError(f"--solver: {error}") from error
    return replace(agent, solver=solver, write_to=write_model)


def read_day(
    cluster: Path, workload: str | Path, defaults: RequestDefaults | None = None
) -> tuple[Cluster, CompiledWorkload]:
    """Read and compile a cluster and a workload; bad lines are reported on stderr and left out.

    Raises
    ------
    CliError
        If no line is a request, or all are malformed.
    """
    from planner.files import read_cluster
    from planner.files.errors import FileProblems
    from planner.placement import Code
    from planner.workload.compile import compile_workload
    from service.cli.workload_input import lines_in, read_raw, report_lines, with_calendar

    raw = read_raw(workload)
    described = with_calendar(read_cluster(cluster), raw)
    bad = FileProblems()
    lines = lines_in(workload, raw, described.origin, bad.append, defaults)
    compiled = compile_workload(lines, described)
    report_lines(workload, bad)
    malformed = [one for one in compiled.refusals if one.code is Code.MALFORMED]
    if compiled.count == len(malformed) > 0:
        text = "\n".join(f"{one.line.id}: {one.error}" for one in malformed[:_SHOWN_REFUSALS])
        raise CliError(f"{workload}: no request in it can be read\n{text}")
    if bad and not compiled.count:
        raise CliError(f"{workload}: none of its lines is a request")
    return described, compiled


def limits_of(run: CommandProgress, time_limit_ms: int | None, seed: int) -> Limits:
    """Return the limits of an agent: when to stop, the seed, where to report progress."""
    from planner.agent import Limits

    return Limits(
        time_s=None if time_limit_ms is None else time_limit_ms / 1000,
        seed=seed,
        stop=run.stop,
        progress=run.progress,
        news=run.news,
    )


def _print_plan(document: Mapping[str, Any], form: str) -> None:
    from planner.files.plan_document import PlanDocument

    if form == JSON:
        print_json(document)
    elif form == CSV:
        print_csv(REQUEST_COLUMNS, request_rows(document))
    else:
        print_metrics(metric_rows([document]))
        print_work([(document["agent"], PlanDocument.from_json(document))])
        print_times(document)
        print_refusals(document)


def print_times(document: Mapping[str, Any]) -> None:
    """Print when each reservation runs, where they are few."""
    if not 0 < len(document["reservations"]) <= _SHOWN_TIMES:
        return
    said, rows = time_rows(document)
    click.echo()
    print_title(said)
    print_table(TIME_COLUMNS, rows)


def print_refusals(document: Mapping[str, Any]) -> None:
    """Print how many requests were refused for what, and the first of them."""
    counts, rows = refusal_rows(document)
    if not rows:
        return
    click.echo()
    print_title(f"{len(rows):,} refused: {', '.join(f'{n:,} {code}' for n, code in counts)}")
    print_reasons(rows[:_SHOWN_REFUSALS])
    if len(rows) > _SHOWN_REFUSALS:
        click.echo(f"... and {len(rows) - _SHOWN_REFUSALS:,} more")
