"""Import Alibaba's batch tasks (2017) and DAG jobs (2018) as requests.

2017: a job's tasks run in parallel, each as a malleable atom of its instances. 2018: tasks form a
graph; precedence comes from the tasks' names (column `parents`), not from times, because the
scheduler starts tasks early. Memory is a fraction (2017) or a percentage (2018) of a machine; the
size of a machine is our assumption where the trace lacks it. Deadlines are modelled as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from service.importers.lines import Imported, Omissions, TraceError
from service.importers.stages import (
    MachineKind,
    Stage,
    StageModel,
    TraceJob,
    import_jobs,
    in_order,
    number,
    peek_header,
    read_rows,
)

_BATCH_COLUMNS = ("create_s", "end_s", "job", "task", "instances", "status", "cpu_pct", "mem")
_DAG_COLUMNS = ("job", "tid", "parents", "instances", "start_s", "end_s", "mean_inst_s",
                "plan_cpu_pct", "plan_mem")  # fmt: skip


@dataclass(frozen=True, slots=True)
class AlibabaModel:
    """The machines, all of them identical."""

    machines: int = 1300
    cores: int = 64
    memory_gib: int = 256
    tenant: str = "alibaba"

    @property
    def kinds(self) -> tuple[MachineKind, ...]:
        """The one kind of machine."""
        return (MachineKind("standard", self.machines, 1000 * self.cores, 1024 * self.memory_gib),)


@dataclass(frozen=True, slots=True)
class _Task:
    """One row: start, requested resources, and the tasks that precede it."""

    line: int
    start_s: int
    stage: Stage
    before: tuple[str, ...] = ()


def import_alibaba(
    text: Iterable[str],
    alibaba: AlibabaModel,
    model: StageModel,
    generator: np.random.Generator,
    limit: int | None = None,
) -> Imported:
    """Read a batch-task or a DAG file, distinguished by its header, into workload lines.

    Raises
    ------
    TraceError
        If the header is of neither file, or no record can be read.
    """
    header, lines = peek_header(text)
    columns = header.split(",")
    omissions = Omissions()
    if "parents" in columns:
        tasks = _dag_tasks(lines, alibaba, omissions)
    elif "cpu_pct" in columns:
        tasks = _batch_tasks(lines, alibaba, omissions)
    else:
        raise TraceError(
            "line 1: a batch file has a column cpu_pct, a DAG file a column parents; the header "
            f"is {header!r}"
        )
    jobs = [_job(name, mine, alibaba, omissions) for name, mine in tasks.items()]
    return import_jobs(jobs, model, generator, limit, omissions)


def import_dags(
    text: Iterable[str],
    alibaba: AlibabaModel,
    model: StageModel,
    generator: np.random.Generator,
    limit: int | None = None,
) -> Imported:
    """Read only a DAG file into workload lines.

    Raises
    ------
    TraceError
        If the header has no column `parents`, or no record can be read.
    """
    header, lines = peek_header(text)
    if "parents" not in header.split(","):
        raise TraceError(f"line 1: a DAG file has a column parents; the header is {header!r}")
    return import_alibaba(lines, alibaba, model, generator, limit)


def _batch_tasks(
    text: Iterable[str], alibaba: AlibabaModel, omissions: Omissions
) -> dict[str, dict[str, _Task]]:
    jobs: dict[str, dict[str, _Task]] = {}
    for line, row in read_rows(text, _BATCH_COLUMNS, omissions):
        with omissions.reading(line):
            start, end = number(row, "create_s", line), number(row, "end_s", line)
            if row["status"] != "Terminated" or start is None or end is None or end <= start:
                omissions.add(line, f"task {row['task']} of {row['job']} did not end")
                continue
            memory = number(row, "mem", line)
            stage = _stage(row, line, "cpu_pct", memory, end - start, alibaba)
            if stage is None:
                omissions.add(line, f"task {row['task']} of {row['job']} requests nothing")
                continue
            # A task may have several rows; each is separate work.
            jobs.setdefault(f"j{row['job']}", {})[f"{row['task']}@{line}"] = _Task(
                line, int(start), stage
            )
    return jobs


def _dag_tasks(
    text: Iterable[str], alibaba: AlibabaModel, omissions: Omissions
) -> dict[str, dict[str, _Task]]:
    jobs: dict[str, dict[str, _Task]] = {}
    for line, row in read_rows(text, _DAG_COLUMNS, omissions):
        with omissions.reading(line):
            start, end = number(row, "start_s", line), number(row, "end_s", line)
            seconds = number(row, "mean_inst_s", line)
            if not seconds and start is not None and end is not None:
                seconds = end - start
            memory = number(row, "plan_mem", line)
            part = None if memory is None else memory / 100
            stage = _stage(row, line, "plan_cpu_pct", part, seconds or 0, alibaba)
            if stage is None or start is None:
                omissions.add(line, f"task {row['tid']} of {row['job']} requests nothing")
                continue
            job = jobs.setdefault(row["job"], {})
            if row["tid"] in job:
                omissions.add(line, f"task {row['tid']} of {row['job']} is listed twice")
                continue
            job[row["tid"]] = _Task(line, int(start), stage, tuple(row["parents"].split()))
    return jobs


def _stage(
    row: Mapping[str, str],
    line: int,
    cpu_column: str,
    memory: float | None,
    seconds: float,
    alibaba: AlibabaModel,
) -> Stage | None:
    """Return a task's instances, or None if they request nothing or take no time."""
    instances = int(number(row, "instances", line) or 0)
    cpu_m = ceil(10 * max(number(row, cpu_column, line) or 0.0, 0.0))
    memory_mib = ceil(round(1024 * alibaba.memory_gib * max(memory or 0.0, 0.0), 6))
    if instances < 1 or seconds <= 0 or not (cpu_m or memory_mib):
        return None
    return Stage(instances, max(1, round(seconds)), cpu_m, memory_mib)


def _job(
    name: str, tasks: Mapping[str, _Task], alibaba: AlibabaModel, omissions: Omissions
) -> TraceJob:
    """Join the tasks of a job; missing parents are ignored."""
    line = min(task.line for task in tasks.values())
    keys = list(tasks)
    place = {key: index for index, key in enumerate(keys)}
    after = {
        place[key]: [place[before] for before in task.before if before in place and before != key]
        for key, task in tasks.items()
    }
    order = in_order(after, lambda why: omissions.add(line, f"edges of {name}: {why}"))
    rank = {index: position for position, index in enumerate(order)}
    stages = []
    for index in order:
        stage = tasks[keys[index]].stage
        before = tuple(sorted(rank[b] for b in after[index] if rank[b] < rank[index]))
        stages.append(Stage(stage.tasks, stage.lease_s, stage.cpu_m, stage.memory_mib, before))
    start = min(task.start_s for task in tasks.values())
    return TraceJob(line, name, alibaba.tenant, start, tuple(stages))
