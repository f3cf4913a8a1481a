"""`agenda plan`: a workload on a cluster, from files to a Plan file and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.kit.commands import ALL_FORMS, Answer, flag, server_command
from service.cli.kit.errors import DONE, REFUSED, CliError
from service.cli.kit.options import (
    AGENTS_HELP,
    READABLE,
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    RequestDefaults,
    duration,
    option_group,
    planning_agent,
    seed_option,
)
from service.cli.kit.output import print_csv, print_table, print_title
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
    from planner.files.plan_document import PlanDocument
    from planner.workload.compile import CompiledWorkload


_SHOWN_REFUSALS = 20
_SHOWN_TIMES = 20


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Limits of the agent: ms, seed of its random choices, and a gap in per cent."""

    time_limit: int | None = None
    seed: int = 0
    gap: float | None = None

    def limits(self, run: CommandProgress) -> Limits:
        """Return them as an agent takes them; `run` stops it and shows how far it is."""
        limits = limits_of(run, self.time_limit, self.seed)
        return limits if self.gap is None else replace(limits, gap=self.gap / 100)


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """Files to write in addition to the answer."""

    out: Path | None = None
    pictures: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a picture that cannot be drawn before any work is done."""
        from service.pictures.style import check_picture_path

        for path in self.pictures:
            check_picture_path(path)

    def write(self, document: PlanDocument, plain: Mapping[str, Any]) -> None:
        """Write a Plan and its skyline."""
        if self.out is not None:
            from planner.files import write_plan

            write_plan(document, self.out)
        if self.pictures:
            from service.pictures.skyline import write_skyline

            write_skyline(plain, self.pictures)


@dataclass(frozen=True, slots=True)
class MilpChoice:
    """Settings of the agent milp: its solver, and the file for its model."""

    solver: str | None = None
    write_model: Path | None = None

    def agent(self, name: str) -> Agent:
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
        if self.solver is None and self.write_model is None:
            return agent
        if not isinstance(agent, MilpAgent):
            raise CliError(
                f"--solver and --write-model are for the agent milp; {name} has no model"
            )
        if self.write_model is not None and self.write_model.suffix not in (".lp", ".mps"):
            raise CliError(f"{self.write_model}: the name of a model file ends in .lp or .mps")
        solver = self.solver or agent.solver
        if solver in ("glop", "pdlp"):
            raise CliError(
                f"--solver: {solver} does not support integer variables; write highs or pulp:CBC"
            )
        try:
            backend_named(solver)
        except ValueError as error:
            raise CliError(f"--solver: {error}") from error
        return replace(agent, solver=solver, write_to=self.write_model)


@server_command(
    None,
    "plan",
    click.argument("cluster", type=READABLE),
    click.argument("workload", type=READABLE_OR_STDIN),
    planning_agent("Agent that plans; see the list below."),
    option_group(
        "defaults",
        RequestDefaults,
        click.option("--tenant", help="Tenant of a request in RDL.  [default: default]"),
        click.option("--queue", help="Queue of a request in RDL.  [default: default]"),
    ),
    option_group(
        "files",
        PlanFiles,
        click.option("--out", type=WRITABLE, help="Write the Plan to this file."),
        click.option(
            "--picture",
            "pictures",
            type=WRITABLE,
            multiple=True,
            help="Draw the skyline to this file, .svg or .png; may be repeated.",
        ),
    ),
    flag("--strict", "Exit with 3 if any request was refused."),
    option_group(
        "ending",
        PlanLimits,
        click.option(
            "--time-limit", type=duration, help="Stop after this long and keep the best plan found."
        ),
        seed_option("the agent's random choices"),
        click.option(
            "--gap",
            type=FiniteRange(0, 100),
            help="Stop when the plan is proven within this many per cent of the best (exact, "
            "hybrid, milp).  [default: 1, milp 0]",
        ),
    ),
    click.option(
        "--offers",
        type=click.IntRange(0, 10),
        help="Offers to look for in each refusal.  [default: 3, with more than 20 refusals 0]",
    ),
    option_group(
        "milp",
        MilpChoice,
        click.option(
            "--solver",
            help="Solver of the agent milp: highs, or pulp:NAME for any that PuLP knows.",
        ),
        click.option(
            "--write-model",
            type=WRITABLE,
            help="Write the model of the agent milp to this file, .lp or .mps.",
        ),
    ),
    forms=ALL_FORMS,
    offline=True,
    epilog=AGENTS_HELP,
)
def plan(
    cluster: Path,
    workload: str,
    agent: str,
    defaults: RequestDefaults,
    files: PlanFiles,
    strict: bool,
    ending: PlanLimits,
    offers: int | None,
    milp: MilpChoice,
) -> Answer:
    """Plan WORKLOAD (JSON Lines, or one request in RDL; - is standard input) on CLUSTER.

    CLUSTER is TOML, or JSON as a server shows it. Prints the metrics and the refusals; -o json
    prints the whole Plan, -o csv one line per request. The exit code is 0 even when requests are
    refused, unless --strict is given. ^C stops the agent and keeps the best plan found.
    """
    from planner.workload.plan import plan_from_nothing, with_offers

    described, compiled = read_day(cluster, workload, defaults)
    chosen = milp.agent(agent)
    make_ready()
    with running(f"planning with {agent}") as run:
        planned = plan_from_nothing(described, compiled, chosen, ending.limits(run))
        if planned.detail:
            click.echo(f"{agent}: {planned.metrics.status}: {planned.detail}", err=True)
        document = with_offers(planned, compiled, chosen, offers, run.stop)
    plain = document.to_json()

    def text() -> None:
        print_metrics(metric_rows([plain]))
        print_work([(document.agent, document)])
        print_times(plain)
        print_refusals(plain)

    return Answer(
        plain,
        text,
        lambda: print_csv(REQUEST_COLUMNS, request_rows(plain)),
        REFUSED if strict and plain["refusals"] else DONE,
        after=lambda: files.write(document, plain),
    )


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
    from service.cli.workload_input import (
        lines_in,
        read_raw,
        report_lending,
        report_lines,
        with_calendar,
    )

    raw = read_raw(workload)
    described = with_calendar(read_cluster(cluster), raw)
    bad = FileProblems()
    lines = lines_in(workload, raw, described.origin, bad.append, defaults)
    compiled = compile_workload(lines, described)
    report_lines(workload, bad)
    report_lending(described)
    malformed = [one for one in compiled.refusals if one.code is Code.MALFORMED]
    if compiled.count == len(malformed) > 0:
        text = "\n".join(f"{one.line.id}: {one.error}" for one in malformed[:_SHOWN_REFUSALS])
        raise CliError(f"{workload}: none of its requests can be read\n{text}")
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


def print_times(document: Mapping[str, Any]) -> None:
    """Print when each reservation runs, where they are few."""
    if not 0 < len(document["reservations"]) <= _SHOWN_TIMES:
        return
    said, rows = time_rows(document)
    click.echo()
    print_title(said)
    print_table(TIME_COLUMNS, rows)


def print_refusals(document: Mapping[str, Any]) -> None:
    """Print the number of refusals by cause, and the first of them."""
    counts, rows = refusal_rows(document)
    if not rows:
        return
    click.echo()
    print_title(f"{len(rows):,} refused: {', '.join(f'{n:,} {code}' for n, code in counts)}")
    print_reasons(rows[:_SHOWN_REFUSALS])
    if len(rows) > _SHOWN_REFUSALS:
        click.echo(f"... and {len(rows) - _SHOWN_REFUSALS:,} more")
