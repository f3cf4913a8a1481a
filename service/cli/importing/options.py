"""What importers on the command line share: options, generators, and writing what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from service.cli.terminal.errors import CliError
from service.cli.terminal.options import (
    READABLE_OR_STDIN,
    WRITABLE,
    Option,
    duration,
    seed_option,
    span,
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
