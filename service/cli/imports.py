"""`agenda import`: traces and other systems' requests as workload lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import click

from service.cli.kit.errors import CliError, as_cli_error, reports_errors
from service.cli.kit.options import (
    READABLE_OR_STDIN,
    WRITABLE,
    FiniteRange,
    Option,
    duration,
    read_text,
    seed_option,
    span,
    zone_named,
)
from service.sentences import counted

if TYPE_CHECKING:
    import numpy as np

    from service.importers.lines import Imported, Slack, TraceMachines
    from service.importers.stages import MachineKind, StageModel

_SHOWN_SKIPPED = 5

#: Steps, in seconds, that are worth proposing.
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 300, 600, 3600)


@click.group("import")
def import_() -> None:
    """Turn traces and other systems' requests into workloads (JSON Lines).

    docs/importers.md describes the model of values that a trace does not record. The same seed
    gives the same deadlines.
    """


@dataclass(frozen=True, slots=True)
class ImportTask:
    """Values of importers' options, with defaults for options that an importer lacks.

    Attributes
    ----------
    files
        What is read; ``-`` is standard input.
    out, cluster_out
        Output files of the workload (None: standard output) and the cluster (None: not written).
    limit
        Most requests.
    step
        Of the grid, ms.
    spare
        Spare time before deadlines, as multiples of a job's run time on an empty cluster.
    cores, memory
        Of a machine; memory in GiB.
    """

    files: tuple[str, ...]
    out: Path | None
    cluster_out: Path | None
    limit: int | None
    step: int = 0
    spare: tuple[float, float] = (0.0, 0.0)
    seed: int = 0
    keep_times: bool = False
    machines: int | None = None
    cores: int = 0
    memory: int = 0
    tenant: str = ""

    @property
    def file(self) -> str:
        """The file, or the first."""
        return self.files[0]

    @property
    def step_s(self) -> int:
        """The step in seconds.

        Raises
        ------
        CliError
            If it is not a whole number of them.
        """
        return _whole_seconds(self.step)

    @property
    def slack(self) -> Slack:
        """The spare time before deadlines."""
        from service.importers.lines import Slack

        return Slack(*self.spare)

    def lines(self, file: str | None = None) -> Iterable[str]:
        """Return the lines of a file, of the first when absent."""
        from service.importers.lines import open_trace

        return open_trace(file or self.file)

    def generator(self) -> np.random.Generator:
        """Return the source of the slacks."""
        import numpy as np

        return np.random.default_rng(self.seed)

    def pool(self, machines: int | None = None) -> TraceMachines:
        """Return machines of one kind: so many, as many as the options say, or one."""
        from service.importers.lines import TraceMachines

        return TraceMachines(machines or self.machines or 1, self.cores, self.memory)

    def stages(self, machines: Sequence[MachineKind]) -> StageModel:
        """Return how jobs become requests on machines of some kinds."""
        from service.importers.stages import StageModel

        return StageModel(machines, self.step_s, not self.keep_times, self.slack)

    def write_kinds(self, imported: Imported, model: StageModel) -> None:
        """Write a workload, and a cluster of the model's machines where there is a path."""
        from service.importers.stages import kinds_toml

        self.write(imported, kinds_toml(model.machines, imported, comment=self.comment))

    def write_pool(
        self, imported: Imported, pool: TraceMachines, origin: str | None = None
    ) -> None:
        """Write a workload, and a cluster of one pool where there is a path."""
        from service.importers.lines import cluster_toml

        self.write(imported, cluster_toml(pool, imported, comment=self.comment, origin=origin))

    @property
    def comment(self) -> str:
        """The comment of a cluster file."""
        return f"for {Path(self.file).name}"

    def write(self, imported: Imported, cluster: str) -> None:
        """Write the workload, and the cluster if there is a path; print omissions."""
        from service.importers.lines import to_json_lines

        text = "".join(to_json_lines(imported.lines))
        if self.cluster_out is not None:
            self.cluster_out.write_text(cluster, encoding="utf-8")
        if self.out is None:
            click.echo(text, nl=False)
        else:
            self.out.write_text(text, encoding="utf-8")
            click.echo(f"{counted(len(imported.lines), 'request')} -> {self.out}", err=True)
        for skipped in imported.skipped[:_SHOWN_SKIPPED]:
            click.echo(f"line {skipped.line} left out: {skipped.why}", err=True)
        if len(imported.skipped) > _SHOWN_SKIPPED:
            click.echo(f"{len(imported.skipped):,} lines were left out in all", err=True)
        for line in step_advice(imported, whole=self.cluster_out is not None):
            click.echo(line, err=True)


_TASK: Final = frozenset(ImportTask.__dataclass_fields__) - {"files", "spare"}

#: Where an importer writes, and how much.
_OUTPUT: Final = (
    click.option(
        "--out", type=WRITABLE, help="Write the workload to this file.  [default: standard output]"
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
)


def importer(
    name: str, *options: Sequence[Option], short_help: str | None = None, several: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """Return the decorator of `agenda import NAME`, given an `ImportTask` and options of its own.

    Parameters
    ----------
    options
        Its options, group by group, behind where it writes.
    several
        Whether it reads more than one file.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def run(**given: Any) -> None:
            files = given.pop("files") if several else (given.pop("file"),)
            said = {key: given.pop(key) for key in tuple(given) if key in _TASK}
            if "slack" in given:
                said["spare"] = given.pop("slack")
            function(ImportTask(files, **said), **given)

        decorated: Any = reports_errors(run)
        for option in reversed([*_OUTPUT, *(one for group in options for one in group)]):
            decorated = option(decorated)
        if several:
            read = click.argument("files", type=READABLE_OR_STDIN, nargs=-1, required=True)
        else:
            read = click.argument("file", type=READABLE_OR_STDIN)
        return import_.command(name, short_help=short_help)(read(decorated))

    return decorate


def model_options(step: str, machines: int | None, cores: int, memory: int) -> tuple[Option, ...]:
    """Return the options of importers of traces without deadlines."""
    count = _machine_count(machines, "Machines of the cluster.")
    return (count, *_machine("each machine", cores, memory), *_deadlines(step))


def kinds(step: str, cores: int, memory: int, *, timed: bool = True) -> tuple[Option, ...]:
    """Return the options of importers of traces with amounts, but without deadlines."""
    times = "Keep the trace's times; by default they count from the first submission."
    kept = (click.option("--keep-times", is_flag=True, help=times),) if timed else ()
    return (*_machine("the largest machine", cores, memory), *_deadlines(step), *kept)


def alike(count: int) -> tuple[Option]:
    """Return how many machines, all of one kind, the cluster has."""
    return (_machine_count(count, "Machines of the cluster, all identical."),)


def tenant(default: str, files: str = "trace names") -> tuple[Option]:
    """Return the tenant of requests whose `files` do not say it."""
    text = f"Tenant of every request; the {files} none."
    return (click.option("--tenant", default=default, show_default=True, help=text),)


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
    """Return the options that determine deadlines missing in a trace."""
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


def _whole_seconds(step_ms: int) -> int:
    """Return a step in seconds.

    Raises
    ------
    CliError
        If it is not a whole number of them.
    """
    if step_ms % 1000:
        raise CliError("--step takes a whole number of seconds here")
    return step_ms // 1000


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


@importer("swim", model_options("10s", machines=40, cores=32, memory=128), tenant("facebook"))
def swim(task: ImportTask) -> None:
    """Import a SWIM trace: MapReduce jobs by bytes, as order(map, reduce)."""
    from service.importers.swim import SwimModel, import_swim

    pool = task.pool()
    model = SwimModel(pool, task.step_s, task.slack, task.tenant)
    with as_cli_error(task.file):
        imported = import_swim(task.lines(), model, task.generator(), task.limit)
    task.write_pool(imported, pool)


@importer(
    "swf",
    model_options("60s", machines=None, cores=1, memory=1),
    (
        click.option("--gangs/--tasks", default=True, show_default=True,
                     help="Give a job its processors all together, or each by itself."),
        click.option("--keep-times", is_flag=True,
                     help="Keep the log's times; by default they count from the first submission."),
    ),
)  # fmt: skip
def swf(task: ImportTask, gangs: bool) -> None:
    """Import a log in Standard Workload Format: requested processors and times."""
    from rdl.durations import instant_of_epoch_ms, rfc3339_text
    from service.importers.swf import SwfModel, import_swf

    model = SwfModel(task.step_s, gangs, not task.keep_times, task.slack)
    with as_cli_error(task.file):
        imported, header = import_swf(task.lines(), model, task.generator(), task.limit)
    machines = task.machines or header.processors or header.nodes
    if task.cluster_out and machines is None:
        raise CliError(f"{task.file} does not say how many processors there are; give --machines")
    start = header.start_s
    origin = None if start is None else rfc3339_text(instant_of_epoch_ms(1000 * start))
    task.write_pool(imported, task.pool(machines), origin)


@importer(
    "sacct",
    _deadlines("60s"),
    (click.option("--zone", type=zone_named, default="UTC", show_default=True,
                  help="Zone of the times: sacct writes those of its machine."),),
)  # fmt: skip
def sacct(task: ImportTask, zone: ZoneInfo) -> None:
    """Import jobs of Slurm's accounting (sacct --parsable2), and the nodes they ran on."""
    from rdl.durations import instant_of_epoch_ms, rfc3339_text
    from service.importers.sacct import SacctModel, import_sacct, nodes_toml

    model = SacctModel(task.step_s, zone, task.slack)
    with as_cli_error(task.file):
        jobs = import_sacct(task.lines(), model, task.generator(), task.limit)
    if task.cluster_out is not None and not jobs.nodes:
        raise CliError(
            f"{task.file}: no column NodeList: add it to sacct's --format for --cluster-out"
        )
    origin = rfc3339_text(instant_of_epoch_ms(1000 * jobs.start_s))
    task.write(jobs.requests, nodes_toml(jobs, origin, task.comment))


@importer(
    "google2011",
    kinds("60s", cores=32, memory=128),
    (
        click.option("--share", type=FiniteRange(0, min_open=True), default=1.0, show_default=True,
                     help="Share of the trace's 12,583 machines, at least one of each kind."),
        click.option("--initial", is_flag=True,
                     help="Include jobs that were running or waiting when the trace starts."),
    ),
    short_help="Import jobs or tasks of Google's 2011 trace.",
)  # fmt: skip
def google2011(task: ImportTask, share: float, initial: bool) -> None:
    """Import the jobs or the tasks file of Google's 2011 trace, tasks as malleable atoms."""
    from service.importers.google2011 import GoogleModel, import_google

    google = GoogleModel(task.cores, task.memory, initial)
    model = task.stages(google.kinds(share))
    with as_cli_error(task.file):
        imported = import_google(task.lines(), google, model, task.generator(), task.limit)
    task.write_kinds(imported, model)


@importer(
    "alibaba",
    kinds("60s", cores=64, memory=256),
    alike(1300),
    tenant("alibaba", "traces name"),
    short_help="Import Alibaba's traces of 2017 or 2018.",
)
def alibaba(task: ImportTask) -> None:
    """Import Alibaba's batch tasks of 2017, side by side, or DAG jobs of 2018, as graphs."""
    from service.importers.alibaba import import_alibaba

    _import_alibaba(task, import_alibaba)


@importer("alibaba-dags", kinds("60s", cores=64, memory=256), alike(1300), tenant("alibaba"))
def alibaba_dags(task: ImportTask) -> None:
    """Import Alibaba's DAG jobs of 2018, with precedence from the tasks' names, not their times."""
    from service.importers.alibaba import import_dags

    _import_alibaba(task, import_dags)


def _import_alibaba(task: ImportTask, read: Callable[..., Imported]) -> None:
    from service.importers.alibaba import AlibabaModel

    assert task.machines is not None
    described = AlibabaModel(task.machines, task.cores, task.memory, task.tenant)
    model = task.stages(described.kinds)
    with as_cli_error(task.file):
        imported = read(task.lines(), described, model, task.generator(), task.limit)
    task.write_kinds(imported, model)


@importer(
    "yarn",
    (
        click.option(
            "--origin", help="RFC 3339 instant of step 0.  [default: the day of the first arrival]"
        ),
        _step("60s", "Step of the grid"),
        _machine_count(None, "Machines of the cluster; needed for --cluster-out."),
        *_machine("each machine", cores=32, memory=128),
    ),
)
def yarn(task: ImportTask, origin: str | None) -> None:
    """Import YARN reservation submissions: one body, a list of them, or one per line."""
    from rdl.durations import parse_rfc3339, rfc3339_text
    from service.importers.yarn import import_yarn

    zero = parse_rfc3339(origin) if origin else None
    with as_cli_error(task.file):
        imported, zero = import_yarn(task.lines(), task.step_s, zero, task.limit)
    if task.cluster_out and task.machines is None:
        raise CliError("give --machines: YARN's calls do not say how large the cluster is")
    task.write_pool(imported, task.pool(), rfc3339_text(zero))


@importer(
    "wfcommons",
    kinds("10s", cores=24, memory=128, timed=False),
    alike(4),
    (
        click.option("--apart", type=duration, default="10m", show_default=True,
                     help="Time between the submissions of two workflows; whole seconds."),
        click.option("--merged/--each", default=False, show_default=True,
                     help="Merge tasks with the same parents and children into one malleable atom, "
                     "or keep each."),
    ),
    tenant("science", "files name"),
    several=True,
)  # fmt: skip
def wfcommons(task: ImportTask, apart: int, merged: bool) -> None:
    """Import scientific workflows in WfFormat (JSON), or a CSV table of their tasks."""
    from service.importers.wfcommons import WorkflowModel, import_workflows

    assert task.machines is not None
    described = WorkflowModel(
        task.machines, task.cores, task.memory, task.tenant, _whole_seconds(apart), merged
    )
    model = task.stages(described.kinds)
    opened = []
    for file in task.files:
        with as_cli_error(file):
            opened.append((file, list(task.lines(file))))
    with as_cli_error(""):
        imported = import_workflows(opened, described, model, task.generator(), task.limit)
    task.write_kinds(imported, model)


@import_.command()
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
              help="Whether nodes are down until jobs of others there end.")  # fmt: skip
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
    """Read a Slurm by its own commands: nodes, licenses, reservations, maintenance and jobs.

    If the files already exist, nodes keep their machines, new nodes follow them, and the Plan
    keeps its origin; everything else in the cluster file is lost.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.errors import SlurmError
    from service.importers.slurm_cluster import SlurmModel, SlurmView, import_slurm

    commands = SlurmCommands()
    try:
        model = SlurmModel(
            promised, best_effort, prefix, _whole_seconds(step), _whole_seconds(horizon), jobs,
            _known(settings_out), _origin_s(cluster_out),
        )  # fmt: skip
        view = SlurmView(
            commands.nodes(),
            commands.reservations(),
            commands.jobs(),
            int(time.time()),
            commands.licenses(),
        )
        found = import_slurm(view, model)
    except (SlurmError, ValueError) as error:
        raise CliError(str(error)) from error
    cluster_out.write_text(found.cluster)
    settings_out.write_text(found.settings)
    click.echo(
        f"{counted(len(found.machines), 'node')}, {counted(found.outages, 'outage')}", err=True
    )
    if found.endless:
        shown = ", ".join(map(str, found.endless[:5]))
        click.echo(
            f"{len(found.endless)} jobs have no time limit and count to the horizon: {shown}",
            err=True,
        )


@import_.command()
@click.option("--kubeconfig", metavar="FILE", required=True,
              help="Access to the cluster; in-cluster in a pod.")  # fmt: skip
@click.option("--cluster-out", type=WRITABLE, required=True, help="Write the cluster file here.")
@click.option("--label", "labels", multiple=True, metavar="KEY",
              help="Label of nodes that Jobs select by; may be repeated.")  # fmt: skip
@click.option("--step", type=duration, default="60s", show_default=True, help="Step of the grid.")
@click.option("--horizon", type=duration, default="14d", show_default=True,
              help="How far ahead is planned.")  # fmt: skip
@reports_errors
def kubernetes(
    kubeconfig: str, cluster_out: Path, labels: tuple[str, ...], step: int, horizon: int
) -> None:
    """Read the nodes of a Kubernetes cluster, and label each with its machine.

    If the cluster file already exists, nodes keep their machines, new nodes follow them or replace
    removed nodes, and the Plan keeps its origin; everything else in the file is lost.
    """
    from dispatch.backends.kubernetes.api import KubernetesApi, KubernetesError
    from dispatch.backends.kubernetes.cluster import NODES, PODS
    from dispatch.backends.kubernetes.records import MACHINE, read_node, read_pod
    from planner.files import read_cluster
    from service.importers.kubernetes_cluster import import_nodes

    is_there = cluster_out.exists() and cluster_out.stat().st_size
    try:
        api = KubernetesApi(kubeconfig)
        nodes = [read_node(one) for one in api.items(NODES)[0]]
        pods = [pod for one in api.items(PODS)[0] if (pod := read_pod(one)) is not None]
        found = import_nodes(
            nodes, pods, labels, read_cluster(cluster_out) if is_there else None,
            (_whole_seconds(step), _whole_seconds(horizon), int(time.time())),
        )  # fmt: skip
        known = {node.name: node.machine for node in nodes}
        for machine, node in found.machines.items():
            if known[node] != machine:
                api.call("PATCH", f"{NODES}/{node}", {"metadata": {"labels": {MACHINE: machine}}})
    except (KubernetesError, ValueError) as error:
        raise CliError(str(error)) from error
    cluster_out.write_text(found.cluster)
    click.echo(f"{counted(len(found.machines), 'node')}", err=True)
    for name, why in found.left_out.items():
        click.echo(f"node {name} is left out: it {why}", err=True)


@import_.command()
@click.argument("file", type=READABLE_OR_STDIN)
@click.option("--of", "of", metavar="RDL", required=True, help="What runs: an RDL request.")
@click.option("--zone", metavar="ZONE", help="Time zone of times without one.")
@reports_errors
def rrule(file: str, of: str, zone: str | None) -> None:
    """Read a recurrence of iCalendar, such as a VEVENT, and print it as RDL.

    DTSTART, DTEND or DURATION, RRULE, RDATE and EXDATE are read; the length of the event is the
    window of each run.
    """
    from rdl.compile.source import read_source
    from rdl.errors import RdlError
    from rdl.meaning.icalendar import RuleTextError, read_rule
    from rdl.text.formatter import format_pretty

    try:
        click.echo(format_pretty(read_rule(read_text(file), read_source(of), zone)))
    except RuleTextError as error:
        raise CliError(f"{file}: {error}") from error
    except RdlError as error:
        raise CliError(f"--of: {error}") from error


def _known(path: Path) -> dict[str, str]:
    """Return the machine of each node of a settings file; none if there is no such file."""
    from dispatch.backends.slurm.control.settings import read_settings

    if not path.exists() or not path.stat().st_size:
        return {}
    return {node: machine for machine, node in read_settings(path).machines.items()}


def _origin_s(path: Path) -> int | None:
    """Return the origin of a cluster file as Unix time; None if there is no such file."""
    from planner.files import read_cluster

    origin = read_cluster(path).origin if path.exists() and path.stat().st_size else None
    return None if origin is None else round(origin.timestamp())
