"""`agenda import wfcommons` and `agenda import alibaba-dags`: workflows as graphs."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.importing.options import (
    alike,
    common,
    generator,
    kinds,
    output_options,
    stage_model,
    tenant,
    whole_seconds,
    write_kinds,
)
from service.cli.terminal.errors import as_cli_error, reports_errors
from service.cli.terminal.options import READABLE_OR_STDIN, duration


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
