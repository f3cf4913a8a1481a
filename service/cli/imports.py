"""`agenda import`: traces and other systems' requests as workload lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from zoneinfo import ZoneInfo

import click

from service.cli.kit.errors import CliError, as_cli_error, reports_errors
from service.cli.kit.options import (
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    Option,
    duration,
    seed_option,
    span,
    zone_named,
)

if TYPE_CHECKING:
    import numpy as np

    from service.importers.lines import Imported, TraceMachines
    from service.importers.sacct import ImportedJobs
    from service.importers.stages import MachineKind, StageModel

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN_SKIPPED = 5

#: Steps, in seconds, that are worth proposing.
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 300, 600, 3600)


def common(function: F) -> F:
    """Add what every importer of one file takes."""
    return click.argument("file", type=READABLE_OR_STDIN)(output_options(function))


def output_options(function: F) -> F:
    """Add where an importer writes, and how much."""
    return _with(
        click.option(
            "--out",
            type=WRITABLE,
            help="Write the workload to this file.  [default: standard output]",
        ),
        click.option(
            "--cluster-out", type=WRITABLE, help="Also write a cluster file that fits the workload."
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            metavar="N",
            help="Import the first N requests only.",
        ),
    )(function)


def model_options(step: str, machines: int | None, cores: int, memory: int) -> Callable[[F], F]:
    """Add what importers of traces without deadlines take."""
    count = _machine_count(machines, "Machines of the cluster.")
    return _with(count, *_machine("each machine", cores, memory), *_deadlines(step))


def kinds(step: str, cores: int, memory: int, *, timed: bool = True) -> Callable[[F], F]:
    """Add what importers of traces with amounts, but without deadlines, take."""
    times = "Keep the trace's times; by default they count from the first submission."
    kept = (click.option("--keep-times", is_flag=True, help=times),) if timed else ()
    machine = _machine("the largest machine", cores, memory)
    return _with(*machine, *_deadlines(step), *kept)


def pool_options(step: str, cores: int, memory: int) -> Callable[[F], F]:
    """Add what importers of requests with deadlines take: a step, and machines for a cluster."""
    count = _machine_count(None, "Machines of the cluster; needed for --cluster-out.")
    return _with(_step(step, "Step of the grid"), count, *_machine("each machine", cores, memory))


def deadline_options(step: str) -> Callable[[F], F]:
    """Add what decides deadlines, for importers that know their machines."""
    return _with(*_deadlines(step))


def alike(count: int) -> Option:
    """Add how many machines, all of one kind, the cluster has."""
    return _machine_count(count, "Machines of the cluster, all alike.")


def tenant(default: str, files: str = "trace names") -> Option:
    """Add the tenant of requests whose `files` do not say it."""
    text = f"Tenant of every request; the {files} none."
    return click.option("--tenant", default=default, show_default=True, help=text)


def _machine_count(default: int | None, text: str) -> Option:
    shown = default is not None
    size = click.IntRange(min=1)
    return click.option("--machines", type=size, default=default, show_default=shown, help=text)


def _step(default: str, what: str) -> Option:
    text = f"{what}; whole seconds."
    return click.option("--step", type=duration, default=default, show_default=True, help=text)


def _machine(of: str, cores: int, memory: int) -> tuple[Option, Option]:
    size = click.IntRange(min=1)
    return (
        click.option("--cores", type=size, default=cores, show_default=True,
                     help=f"Cores of {of}."),
        click.option("--memory", type=size, default=memory, show_default=True,
                     help=f"GiB of {of}."),
    )  # fmt: skip


def _deadlines(step: str) -> tuple[Option, ...]:
    """Return what decides deadlines that a trace does not have."""
    return (
        _step(step, "Step on which deadlines are computed"),
        click.option(
            "--slack",
            type=span,
            metavar="LOW..HIGH",
            default="0.1..3",
            show_default=True,
            help="Spare time before the deadline, as a multiple of how long the job takes alone.",
        ),
        seed_option("the spare times"),
    )


def _with(*options: Option) -> Callable[[F], F]:
    """Return a decorator that adds options, in this order."""

    def add(function: F) -> F:
        decorated: Any = function
        for option in reversed(options):
            decorated = option(decorated)
        return cast("F", decorated)

    return add


def stage_model(
    machines: Sequence[MachineKind],
    step_ms: int,
    slack: tuple[float, float],
    *,
    keep_times: bool = False,
) -> StageModel:
    """Return how jobs become requests, from what `kinds` has read."""
    from service.importers.lines import Slack
    from service.importers.stages import StageModel

    return StageModel(machines, whole_seconds(step_ms), not keep_times, Slack(*slack))


def write_kinds(
    imported: Imported, model: StageModel, file: str, out: Path | None, cluster_out: Path | None
) -> None:
    """Write a workload to `out`, and a cluster of the model's machines to `cluster_out`."""
    from service.importers.stages import kinds_toml

    cluster = kinds_toml(model.machines, imported, comment=f"for {Path(file).name}")
    _write(imported, cluster, out, cluster_out)


def whole_seconds(step_ms: int) -> int:
    """Return a step in seconds.

    Raises
    ------
    CliError
        If it is not a whole number of them.
    """
    if step_ms % 1000:
        raise CliError("--step takes a whole number of seconds here")
    return step_ms // 1000


def generator(seed: int) -> np.random.Generator:
    """Return the source of the slacks."""
    import numpy as np

    return np.random.default_rng(seed)


def write_pool(
    imported: Imported,
    pool: TraceMachines,
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    origin: str | None = None,
) -> None:
    """Write a workload to `out`, and a cluster of one pool to `cluster_out`."""
    from service.importers.lines import cluster_toml

    comment = f"for {Path(file).name}"
    cluster = cluster_toml(pool, imported, comment=comment, origin=origin)
    _write(imported, cluster, out, cluster_out)


def write_nodes(jobs: ImportedJobs, file: str, out: Path | None, cluster_out: Path | None) -> None:
    """Write a workload to `out`, and a cluster of the nodes of its jobs to `cluster_out`.

    Raises
    ------
    CliError
        If a cluster is to be written and no record names nodes.
    """
    from rdl.durations import instant_of_epoch_ms, rfc3339_text
    from service.importers.sacct import nodes_toml

    if cluster_out is not None and not jobs.nodes:
        raise CliError(f"{file}: no column NodeList: add it to sacct's --format for --cluster-out")
    origin = rfc3339_text(instant_of_epoch_ms(1000 * jobs.start_s))
    cluster = nodes_toml(jobs, origin, f"for {Path(file).name}")
    _write(jobs.requests, cluster, out, cluster_out)


def _write(imported: Imported, cluster: str, out: Path | None, cluster_out: Path | None) -> None:
    """Write the workload, and the cluster where there is a path; say on stderr what was left."""
    from service.importers.lines import to_json_lines

    text = "".join(to_json_lines(imported.lines))
    if cluster_out is not None:
        cluster_out.write_text(cluster, encoding="utf-8")
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
        click.echo(f"{len(imported.lines):,} requests -> {out}", err=True)
    for skipped in imported.skipped[:_SHOWN_SKIPPED]:
        click.echo(f"line {skipped.line} left out: {skipped.why}", err=True)
    if len(imported.skipped) > _SHOWN_SKIPPED:
        click.echo(f"{len(imported.skipped):,} lines were left out in all", err=True)
    for line in step_advice(imported, whole=cluster_out is not None):
        click.echo(line, err=True)


def step_advice(imported: Imported, *, whole: bool) -> list[str]:
    """Return advice on the step for planning the requests; `whole`: a cluster was written too.

    Every task takes whole steps. On steps longer than those that its deadline was computed on, a
    chain of short tasks needs more time than its window has, and is refused as unsatisfiable.
    """
    typical, step = imported.typical_s, imported.step_s
    if typical is None:
        return []
    said = []
    if step > typical and step > _STEPS_S[0]:
        better = max((one for one in _STEPS_S if one <= typical), default=_STEPS_S[0])
        said.append(
            f"half of the tasks take {typical:g} s or less, and each of them a whole step of "
            f"{step} s; --step {better}s wastes less"
        )
    if not whole:
        said.append(
            f"the deadlines hold on steps of up to {step} s: on longer ones chains of short tasks "
            "do not fit their windows; --cluster-out writes a cluster with this step"
        )
    return said


@click.command()
@click.option("--promised", required=True, metavar="PARTITION",
              help="Partition of promised work; its tier is above the other's.")  # fmt: skip
@click.option("--best-effort", required=True, metavar="PARTITION",
              help="Partition of work that may be preempted.")  # fmt: skip
@click.option("--cluster-out", type=WRITABLE, required=True, help="Write the cluster file here.")
@click.option("--settings-out", type=WRITABLE, required=True,
              help="Write the file for `agenda serve --slurm` here.")  # fmt: skip
@click.option("--prefix", default="agenda", show_default=True,
              help="What names of Agenda's jobs and reservations begin with.")  # fmt: skip
@click.option("--step", type=duration, default="60s", show_default=True, help="Step of the grid.")
@click.option("--horizon", type=duration, default="14d", show_default=True,
              help="How far ahead is planned.")  # fmt: skip
@click.option("--jobs/--no-jobs", default=True, show_default=True,
              help="Whether nodes are away until jobs of others there end.")  # fmt: skip
@reports_errors
def slurm(
    promised: str,
    best_effort: str,
    cluster_out: Path,
    settings_out: Path,
    prefix: str,
    step: int,
    horizon: int,
    jobs: bool,
) -> None:
    """Read a Slurm by its own commands: nodes, reservations, maintenance and running jobs.

    Where the files are there already, nodes keep their machines, new ones come after them, and the
    Plan its origin; all else that the cluster file had is lost.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.errors import SlurmError
    from service.importers.slurm_cluster import SlurmModel, SlurmView, import_slurm

    commands = SlurmCommands()
    try:
        model = SlurmModel(
            promised, best_effort, prefix, whole_seconds(step), whole_seconds(horizon), jobs,
            _known(settings_out), _origin_s(cluster_out),
        )  # fmt: skip
        view = SlurmView(
            commands.nodes(), commands.reservations(), commands.jobs(), int(time.time())
        )
        found = import_slurm(view, model)
    except (SlurmError, ValueError) as error:
        raise CliError(str(error)) from error
    cluster_out.write_text(found.cluster)
    settings_out.write_text(found.settings)
    click.echo(f"{len(found.machines)} nodes, {found.outages} outages", err=True)
    if found.endless:
        shown = ", ".join(map(str, found.endless[:5]))
        click.echo(
            f"{len(found.endless)} jobs have no time limit and count to the horizon: {shown}",
            err=True,
        )


def _known(path: Path) -> dict[str, str]:
    """Return the machine of each node of a settings file; none where there is no such file."""
    from dispatch.backends.slurm.control.settings import read_settings

    if not path.exists() or not path.stat().st_size:
        return {}
    return {node: machine for machine, node in read_settings(path).machines.items()}


def _origin_s(path: Path) -> int | None:
    """Return the origin of a cluster file as Unix time; None where there is no such file."""
    from planner.files import read_cluster

    origin = read_cluster(path).origin if path.exists() and path.stat().st_size else None
    return None if origin is None else round(origin.timestamp())


@click.command()
@click.argument("files", type=READABLE_OR_STDIN, nargs=-1, required=True)
@output_options
@kinds("10s", cores=24, memory=128, timed=False)
@alike(4)
@click.option("--apart", type=duration, default="10m", show_default=True,
              help="Time between the submissions of two workflows; whole seconds.")  # fmt: skip
@click.option(
    "--merged/--each",
    default=False,
    show_default=True,
    help="Merge tasks with the same parents and children into one malleable atom, or keep each.",
)
@tenant("science", "files name")
@reports_errors
def wfcommons(
    files: tuple[str, ...],
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    machines: int,
    apart: int,
    merged: bool,
    tenant: str,
) -> None:
    """Import scientific workflows in WfFormat (JSON), or a CSV table of their tasks."""
    from service.importers.lines import open_trace
    from service.importers.wfcommons import WorkflowModel, import_workflows

    described = WorkflowModel(machines, cores, memory, tenant, whole_seconds(apart), merged)
    model = stage_model(described.kinds, step, slack)
    opened = []
    for file in files:
        with as_cli_error(file):
            opened.append((file, list(open_trace(file))))
    with as_cli_error(""):
        imported = import_workflows(opened, described, model, generator(seed), limit)
    write_kinds(imported, model, files[0], out, cluster_out)


@click.command("alibaba-dags")
@common
@kinds("60s", cores=64, memory=256)
@alike(1300)
@tenant("alibaba")
@reports_errors
def alibaba_dags(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    keep_times: bool,
    machines: int,
    tenant: str,
) -> None:
    """Import Alibaba's DAG jobs of 2018, with precedence from the tasks' names, not their times."""
    from service.importers.alibaba import AlibabaModel, import_dags
    from service.importers.lines import open_trace

    described = AlibabaModel(machines, cores, memory, tenant)
    model = stage_model(described.kinds, step, slack, keep_times=keep_times)
    with as_cli_error(file):
        imported = import_dags(open_trace(file), described, model, generator(seed), limit)
    write_kinds(imported, model, file, out, cluster_out)


@click.group("import")
def import_() -> None:
    """Turn traces and other systems' requests into workloads (JSON Lines).

    docs/importers.md says how what a trace does not record is modelled. The same seed gives the
    same deadlines.
    """


@import_.command()
@common
@model_options("10s", machines=40, cores=32, memory=128)
@tenant("facebook")
@reports_errors
def swim(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    machines: int,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    tenant: str,
) -> None:
    """Import a SWIM trace: MapReduce jobs by bytes, as order(map, reduce)."""
    from service.importers.lines import Slack, TraceMachines, open_trace
    from service.importers.swim import SwimModel, import_swim

    pool = TraceMachines(machines, cores, memory)
    model = SwimModel(pool, whole_seconds(step), Slack(*slack), tenant)
    with as_cli_error(file):
        imported = import_swim(open_trace(file), model, generator(seed), limit)
    write_pool(imported, pool, file, out, cluster_out)


@import_.command()
@common
@model_options("60s", machines=None, cores=1, memory=1)
@click.option("--gangs/--tasks", default=True, show_default=True,
              help="Give a job its processors all together, or each by itself.")  # fmt: skip
@click.option(
    "--keep-times",
    is_flag=True,
    help="Keep the log's times; by default they count from the first submission.",
)
@reports_errors
def swf(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    machines: int | None,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    gangs: bool,
    keep_times: bool,
) -> None:
    """Import a log in Standard Workload Format: requested processors and times."""
    from rdl.durations import instant_of_epoch_ms, rfc3339_text
    from service.importers.lines import Slack, TraceMachines, open_trace
    from service.importers.swf import SwfModel, import_swf

    model = SwfModel(whole_seconds(step), gangs, not keep_times, Slack(*slack))
    with as_cli_error(file):
        imported, header = import_swf(open_trace(file), model, generator(seed), limit)
    machines = machines or header.processors or header.nodes
    if cluster_out and machines is None:
        raise CliError(f"{file} does not say how many processors there are; give --machines")
    pool = TraceMachines(machines or 1, cores, memory)
    start = header.start_s
    origin = None if start is None else rfc3339_text(instant_of_epoch_ms(1000 * start))
    write_pool(imported, pool, file, out, cluster_out, origin)


@import_.command()
@common
@deadline_options("60s")
@click.option("--zone", type=zone_named, default="UTC", show_default=True,
              help="Zone of the times: sacct writes those of its machine.")  # fmt: skip
@reports_errors
def sacct(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    step: int,
    slack: tuple[float, float],
    seed: int,
    zone: ZoneInfo,
) -> None:
    """Import jobs of Slurm's accounting (sacct --parsable2), and the nodes they ran on."""
    from service.importers.lines import Slack, open_trace
    from service.importers.sacct import SacctModel, import_sacct

    model = SacctModel(whole_seconds(step), zone, Slack(*slack))
    with as_cli_error(file):
        jobs = import_sacct(open_trace(file), model, generator(seed), limit)
    write_nodes(jobs, file, out, cluster_out)


@import_.command(short_help="Import jobs or tasks of Google's 2011 trace.")
@common
@kinds("60s", cores=32, memory=128)
@click.option("--share", type=FiniteRange(0, min_open=True), default=1.0, show_default=True,
              help="Share of the trace's 12,583 machines, at least one of each kind.")  # fmt: skip
@click.option(
    "--initial",
    is_flag=True,
    help="Include jobs that were running or waiting when the trace starts.",
)
@reports_errors
def google2011(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    keep_times: bool,
    share: float,
    initial: bool,
) -> None:
    """Import the jobs or the tasks file of Google's 2011 trace, tasks as malleable atoms."""
    from service.importers.google2011 import GoogleModel, import_google
    from service.importers.lines import open_trace

    google = GoogleModel(cores, memory, initial)
    model = stage_model(google.kinds(share), step, slack, keep_times=keep_times)
    with as_cli_error(file):
        imported = import_google(open_trace(file), google, model, generator(seed), limit)
    write_kinds(imported, model, file, out, cluster_out)


@import_.command(short_help="Import Alibaba's traces of 2017 or 2018.")
@common
@kinds("60s", cores=64, memory=256)
@alike(1300)
@tenant("alibaba", "traces name")
@reports_errors
def alibaba(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    cores: int,
    memory: int,
    step: int,
    slack: tuple[float, float],
    seed: int,
    keep_times: bool,
    machines: int,
    tenant: str,
) -> None:
    """Import Alibaba's batch tasks of 2017, side by side, or DAG jobs of 2018, as graphs."""
    from service.importers.alibaba import AlibabaModel, import_alibaba
    from service.importers.lines import open_trace

    described = AlibabaModel(machines, cores, memory, tenant)
    model = stage_model(described.kinds, step, slack, keep_times=keep_times)
    with as_cli_error(file):
        imported = import_alibaba(open_trace(file), described, model, generator(seed), limit)
    write_kinds(imported, model, file, out, cluster_out)


@import_.command()
@common
@click.option(
    "--origin", help="RFC 3339 instant of step 0.  [default: the day of the first arrival]"
)
@pool_options("60s", cores=32, memory=128)
@reports_errors
def yarn(
    file: str,
    out: Path | None,
    cluster_out: Path | None,
    limit: int | None,
    origin: str | None,
    step: int,
    machines: int | None,
    cores: int,
    memory: int,
) -> None:
    """Import YARN reservation submissions: one body, a list of them, or one per line."""
    from rdl.durations import parse_rfc3339, rfc3339_text
    from service.importers.lines import TraceMachines, open_trace
    from service.importers.yarn import import_yarn

    zero = parse_rfc3339(origin) if origin else None
    with as_cli_error(file):
        imported, zero = import_yarn(open_trace(file), whole_seconds(step), zero, limit)
    if cluster_out and machines is None:
        raise CliError("give --machines: YARN's calls do not say how large the cluster is")
    pool = TraceMachines(machines or 1, cores, memory)
    write_pool(imported, pool, file, out, cluster_out, origin=rfc3339_text(zero))


import_.add_command(wfcommons)
import_.add_command(alibaba_dags)
import_.add_command(slurm)
