"""`agenda import`: traces and other systems' requests as workload lines."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import click

from service.cli.importing.options import (
    alike,
    common,
    deadline_options,
    generator,
    kinds,
    model_options,
    pool_options,
    stage_model,
    tenant,
    whole_seconds,
    write_kinds,
    write_nodes,
    write_pool,
)
from service.cli.importing.slurm import slurm
from service.cli.importing.workflows import alibaba_dags, wfcommons
from service.cli.terminal.errors import CliError, as_cli_error, reports_errors
from service.cli.terminal.options import FiniteRange, zone_named


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
