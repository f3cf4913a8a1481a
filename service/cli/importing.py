"""`agenda import`: traces and other systems' requests as workload lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from service.cli.options import READABLE_OR_STDIN, WRITABLE, duration, span
from service.cli.trouble import Trouble, tells_trouble, trouble

if TYPE_CHECKING:
    import numpy as np

    from service.importers.lines import Imported, Pool
    from service.importers.stages import MachineKind, StageModel

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN_SKIPPED = 5


@click.group("import")
def import_() -> None:
    """Turn traces and other systems' requests into workloads (JSON Lines).

    What a trace does not record is modelled: docs/cli.md says how. The same seed gives the same
    deadlines.
    """


def _common(function: F) -> F:
    """Add what every importer takes."""
    options = (
        click.argument("file", type=READABLE_OR_STDIN),
        click.option("--out", type=WRITABLE, help="Workload file; standard output without it."),
        click.option("--cluster-out", type=WRITABLE, help="Also write a cluster that fits."),
        click.option("--limit", type=click.IntRange(min=1), help="Only the first so many."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _modelled(step: str, machines: int | None, cores: int, memory: int) -> Callable[[F], F]:
    """Add what importers of traces without deadlines take."""

    def add(function: F) -> F:
        options = (
            click.option("--machines", type=click.IntRange(min=1), default=machines,
                         show_default=machines is not None, help="Machines of the cluster."),
            click.option("--cores", type=click.IntRange(min=1), default=cores, show_default=True,
                         help="Cores of each."),
            click.option("--memory", type=click.IntRange(min=1), default=memory, show_default=True,
                         help="GiB of each."),
            click.option("--step", type=duration, default=step, show_default=True,
                         help="Step that deadlines are computed on; whole seconds."),
            click.option("--slack", type=span, default="0.1..3", show_default=True,
                         help="Deadline slack, in times of the time alone."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                         help="Of the slack."),
        )  # fmt: skip
        for option in reversed(options):
            function = option(function)
        return function

    return add


@import_.command()
@_common
@_modelled("10s", machines=40, cores=32, memory=128)
@click.option("--tenant", default="facebook", show_default=True, help="The trace names none.")
@tells_trouble
def swim(file: str, tenant: str, limit: int | None, **options: Any) -> None:
    """SWIM traces: MapReduce jobs by bytes, as order(map, reduce)."""
    from service.importers.lines import Pool, Slack, open_trace
    from service.importers.swim import SwimModel, import_swim

    pool = Pool(options["machines"], options["cores"], options["memory"])
    model = SwimModel(pool, _whole_seconds(options["step"]), Slack(*options["slack"]), tenant)
    with trouble(file):
        imported = import_swim(open_trace(file), model, _generator(options["seed"]), limit)
    _write_pool(imported, pool, f"for {Path(file).name}", options)


@import_.command()
@_common
@_modelled("60s", machines=None, cores=1, memory=1)
@click.option("--gangs/--tasks", default=True, show_default=True,
              help="Processors of a job all together, or each by itself.")  # fmt: skip
@click.option("--keep-times", is_flag=True, help="Do not count from the first submission.")
@tells_trouble
def swf(file: str, gangs: bool, keep_times: bool, limit: int | None, **options: Any) -> None:
    """Standard Workload Format logs: requested processors and times."""
    from service.importers.lines import Pool, Slack, open_trace
    from service.importers.swf import SwfModel, import_swf

    step_s = _whole_seconds(options["step"])
    model = SwfModel(step_s, gangs, not keep_times, Slack(*options["slack"]))
    generator = _generator(options["seed"])
    with trouble(file):
        imported, header = import_swf(open_trace(file), model, generator, limit)
    machines = options["machines"] or header.processors
    if options["cluster_out"] and machines is None:
        raise Trouble(f"{file} does not say how many processors there are; give --machines")
    pool = Pool(machines or 1, options["cores"], options["memory"])
    _write_pool(imported, pool, f"for {Path(file).name}", options)


def _kinds(step: str, cores: int, memory: int) -> Callable[[F], F]:
    """Add what importers of traces with amounts, but without deadlines, take."""

    def add(function: F) -> F:
        options = (
            click.option("--cores", type=click.IntRange(min=1), default=cores, show_default=True,
                         help="Cores of the largest machine."),
            click.option("--memory", type=click.IntRange(min=1), default=memory, show_default=True,
                         help="GiB of the largest machine."),
            click.option("--step", type=duration, default=step, show_default=True,
                         help="Step that deadlines are computed on; whole seconds."),
            click.option("--slack", type=span, default="0.1..3", show_default=True,
                         help="Deadline slack, in times of the time alone."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                         help="Of the slack."),
            click.option("--keep-times", is_flag=True,
                         help="Do not count from the first submission."),
        )  # fmt: skip
        for option in reversed(options):
            function = option(function)
        return function

    return add


@import_.command()
@_common
@_kinds("60s", cores=32, memory=128)
@click.option("--share", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
              help="Of the trace's 12,583 machines, at least one of each kind.")  # fmt: skip
@click.option("--initial", is_flag=True, help="Also jobs that were there when the trace starts.")
@tells_trouble
def google2011(file: str, share: float, initial: bool, limit: int | None, **options: Any) -> None:
    """Google's 2011 trace: the jobs or the tasks file, tasks as malleable atoms."""
    from service.importers.google2011 import GoogleModel, import_google
    from service.importers.lines import open_trace

    google = GoogleModel(options["cores"], options["memory"], initial)
    model = _stage_model(google.kinds(share), options)
    with trouble(file):
        imported = import_google(
            open_trace(file), google, model, _generator(options["seed"]), limit
        )
    _write_kinds(imported, model, file, options)


@import_.command()
@_common
@_kinds("60s", cores=64, memory=256)
@click.option("--machines", type=click.IntRange(min=1), default=1300, show_default=True,
              help="Machines of the cluster, all alike.")  # fmt: skip
@click.option("--tenant", default="alibaba", show_default=True, help="The traces name none.")
@tells_trouble
def alibaba(file: str, machines: int, tenant: str, limit: int | None, **options: Any) -> None:
    """Alibaba's batch tasks of 2017, side by side, and DAG jobs of 2018, as graphs."""
    from service.importers.alibaba import AlibabaModel, import_alibaba
    from service.importers.lines import open_trace

    described = AlibabaModel(machines, options["cores"], options["memory"], tenant)
    model = _stage_model(described.kinds, options)
    with trouble(file):
        imported = import_alibaba(
            open_trace(file), described, model, _generator(options["seed"]), limit
        )
    _write_kinds(imported, model, file, options)


def _stage_model(kinds: Sequence[MachineKind], options: dict[str, Any]) -> StageModel:
    from service.importers.lines import Slack
    from service.importers.stages import StageModel

    step_s = _whole_seconds(options["step"])
    return StageModel(kinds, step_s, not options["keep_times"], Slack(*options["slack"]))


def _write_kinds(imported: Imported, model: StageModel, file: str, options: dict[str, Any]) -> None:
    from service.importers.stages import kinds_toml

    _write(
        imported, options, kinds_toml(model.machines, imported, comment=f"for {Path(file).name}")
    )


@import_.command()
@_common
@click.option("--origin", help="RFC 3339 instant of step 0; the day of the first arrival without.")
@click.option("--step", type=duration, default="60s", show_default=True)
@click.option("--machines", type=click.IntRange(min=1), help="For --cluster-out.")
@click.option("--cores", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--memory", type=click.IntRange(min=1), default=128, show_default=True, help="GiB.")
@tells_trouble
def yarn(file: str, origin: str | None, limit: int | None, **options: Any) -> None:
    """YARN reservation submissions: one body, a list of them, or one a line."""
    from rdl.durations import parse_rfc3339, rfc3339_text
    from service.importers.lines import Pool, open_trace
    from service.importers.yarn import import_yarn

    zero = parse_rfc3339(origin) if origin else None
    step_s = _whole_seconds(options["step"])
    with trouble(file):
        imported, zero = import_yarn(open_trace(file), step_s, zero, limit)
    if options["cluster_out"] and options["machines"] is None:
        raise Trouble("give --machines: YARN's calls do not say how large the cluster is")
    pool = Pool(options["machines"] or 1, options["cores"], options["memory"])
    _write_pool(imported, pool, f"for {Path(file).name}", options, origin=rfc3339_text(zero))


def _whole_seconds(step_ms: int) -> int:
    if step_ms % 1000:
        raise Trouble("--step is a whole number of seconds here")
    return step_ms // 1000


def _generator(seed: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(seed)


def _write_pool(
    imported: Imported, pool: Pool, comment: str, options: dict[str, Any], origin: str | None = None
) -> None:
    from service.importers.lines import cluster_toml

    _write(imported, options, cluster_toml(pool, imported, comment=comment, origin=origin))


def _write(imported: Imported, options: dict[str, Any], cluster: str) -> None:
    """Write the workload, and the cluster where one is asked for; say on stderr what was left."""
    from service.importers.lines import to_json_lines

    out, cluster_out = options["out"], options["cluster_out"]
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
        click.echo(f"{len(imported.skipped):,} lines left out in all", err=True)
