"""What importers on the command line share: options, generators, and writing what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from service.cli.options import READABLE_OR_STDIN, WRITABLE, duration, span
from service.cli.trouble import Trouble

if TYPE_CHECKING:
    import numpy as np

    from service.importers.lines import Imported, Pool
    from service.importers.stages import MachineKind, StageModel

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN_SKIPPED = 5


def common(function: F) -> F:
    """Add what every importer of one file takes."""
    return click.argument("file", type=READABLE_OR_STDIN)(written(function))


def written(function: F) -> F:
    """Add where an importer writes, and how much."""
    options = (
        click.option("--out", type=WRITABLE, help="Workload file; standard output without it."),
        click.option("--cluster-out", type=WRITABLE, help="Also write a cluster that fits."),
        click.option("--limit", type=click.IntRange(min=1), help="Only the first so many."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def modelled(step: str, machines: int | None, cores: int, memory: int) -> Callable[[F], F]:
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


def kinds(step: str, cores: int, memory: int, *, timed: bool = True) -> Callable[[F], F]:
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
        )  # fmt: skip
        if timed:
            times = "Do not count from the first submission."
            function = click.option("--keep-times", is_flag=True, help=times)(function)
        for option in reversed(options):
            function = option(function)
        return function

    return add


def stage_model(machines: Sequence[MachineKind], options: dict[str, Any]) -> StageModel:
    """Return how jobs become requests, from what `kinds` has read."""
    from service.importers.lines import Slack
    from service.importers.stages import StageModel

    step_s = whole_seconds(options["step"])
    return StageModel(machines, step_s, not options.get("keep_times"), Slack(*options["slack"]))


def write_kinds(imported: Imported, model: StageModel, file: str, options: dict[str, Any]) -> None:
    """Write a workload, and a cluster of the model's machines where one is asked for."""
    from service.importers.stages import kinds_toml

    _write(
        imported, options, kinds_toml(model.machines, imported, comment=f"for {Path(file).name}")
    )


def whole_seconds(step_ms: int) -> int:
    """Return a step in seconds.

    Raises
    ------
    Trouble
        If it is not a whole number of them.
    """
    if step_ms % 1000:
        raise Trouble("--step is a whole number of seconds here")
    return step_ms // 1000


def generator(seed: int) -> np.random.Generator:
    """Return the source of the slacks."""
    import numpy as np

    return np.random.default_rng(seed)


def write_pool(
    imported: Imported, pool: Pool, comment: str, options: dict[str, Any], origin: str | None = None
) -> None:
    """Write a workload, and a cluster of one pool where one is asked for."""
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
