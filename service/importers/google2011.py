"""Import Google's 2011 cluster trace, with one row per job or per task, as requests.

The trace has requests as fractions of the largest machine; its size is our assumption (`cores`,
`memory_gib`). A job's tasks become one malleable atom (with the tasks file, one for each distinct
request) with as many leases as tasks, at most all at the same time. Deadlines are modelled as
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    number,
    peek_header,
    read_rows,
)

#: Machines, cores and memory of each kind, as fractions of the largest (trace's machine table).
MACHINES = (
    (6732, 0.50, 0.50),
    (3863, 0.50, 0.25),
    (1001, 0.50, 0.75),
    (795, 1.00, 1.00),
    (126, 0.25, 0.25),
    (52, 0.50, 0.12),
    (5, 0.50, 0.03),
    (5, 0.50, 0.97),
    (3, 1.00, 0.50),
    (1, 1.00, 0.06),
)

_JOB_COLUMNS = ("job_id", "submit_s", "sched_s", "end_s", "user", "n_tasks", "cpu_med",
                "mem_med", "priority", "task_run_med_s")  # fmt: skip
_TASK_COLUMNS = ("job_id", "submit_s", "sched_s", "run_s", "last_s", "priority", "cpu", "mem")


@dataclass(frozen=True, slots=True)
class GoogleModel:
    """The size of the largest machine, and whether jobs that exist at time 0 count."""

    cores: int = 32
    memory_gib: int = 128
    initial: bool = False

    def kinds(self, share: float = 1.0) -> tuple[MachineKind, ...]:
        """Return a share of the machines of each kind, at least one each."""
        return tuple(
            MachineKind(
                f"c{round(100 * cores)}-m{round(100 * memory)}",
                max(1, round(count * share)),
                round(1000 * self.cores * cores),
                round(1024 * self.memory_gib * memory),
            )
            for count, cores, memory in MACHINES
        )

    def stage(self, tasks: int, seconds: float, cpu: float, memory: float) -> Stage:
        """Return tasks that request fractions of the largest machine."""
        return Stage(
            tasks,
            max(1, round(seconds)),
            ceil(round(1000 * self.cores * max(cpu, 0.0), 6)),
            ceil(round(1024 * self.memory_gib * max(memory, 0.0), 6)),
        )


def import_google(
    text: Iterable[str],
    google: GoogleModel,
    model: StageModel,
    generator: np.random.Generator,
    limit: int | None = None,
) -> Imported:
    """Read the jobs or the tasks file, distinguished by its header, into workload lines.

    Raises
    ------
    TraceError
        If the header is of neither file, or no record can be read.
    """
    header, lines = peek_header(text)
    columns = header.split(",")
    omissions = Omissions()
    if "n_tasks" in columns:
        jobs = _jobs(lines, google, omissions)
    elif "task_index" in columns:
        jobs = _jobs_of_tasks(lines, google, omissions)
    else:
        raise TraceError(
            "line 1: a jobs file has a column n_tasks, a tasks file a column task_index; "
            f"the header is {header!r}"
        )
    return import_jobs(jobs, model, generator, limit, omissions)


def _jobs(text: Iterable[str], google: GoogleModel, omissions: Omissions) -> list[TraceJob]:
    jobs = []
    for line, row in read_rows(text, _JOB_COLUMNS, omissions):
        with omissions.reading(line):
            name = f"j{row['job_id']}"
            submitted = number(row, "submit_s", line) or 0.0
            if not submitted and not google.initial:
                continue
            start, end = number(row, "sched_s", line), number(row, "end_s", line)
            seconds = number(row, "task_run_med_s", line)
            if seconds is None and start is not None and end is not None:
                seconds = end - start
            tasks = int(number(row, "n_tasks", line) or 0)
            cpu, memory = number(row, "cpu_med", line) or 0.0, number(row, "mem_med", line) or 0.0
            if not seconds or seconds < 0 or tasks < 1 or max(cpu, memory) <= 0:
                omissions.add(line, f"job {name} has no tasks, run time or request")
                continue
            priority = int(number(row, "priority", line) or 0)
            stage = google.stage(tasks, seconds, cpu, memory)
            jobs.append(
                TraceJob(line, name, f"user{row['user']}", int(submitted), (stage,), priority)
            )
    return jobs


@dataclass(slots=True)
class _Tasks:
    """Tasks of one job with equal requests."""

    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Gathered:
    """Data of a job that is collected while its tasks are read."""

    line: int
    submitted: float
    priority: int
    kinds: dict[tuple[float, float], _Tasks]


def _jobs_of_tasks(
    text: Iterable[str], google: GoogleModel, omissions: Omissions
) -> list[TraceJob]:
    gathered: dict[str, _Gathered] = {}
    for line, row in read_rows(text, _TASK_COLUMNS, omissions):
        with omissions.reading(line):
            submitted = number(row, "submit_s", line) or 0.0
            if not submitted and not google.initial:
                continue
            start, last = number(row, "sched_s", line), number(row, "last_s", line)
            seconds = number(row, "run_s", line)
            if seconds is None and start is not None and last is not None:
                seconds = last - start
            cpu, memory = number(row, "cpu", line) or 0.0, number(row, "mem", line) or 0.0
            if not seconds or seconds < 0 or max(cpu, memory) <= 0:
                omissions.add(line, f"a task of j{row['job_id']} has no run time or request")
                continue
            priority = int(number(row, "priority", line) or 0)
            job = gathered.setdefault(row["job_id"], _Gathered(line, submitted, priority, {}))
            job.submitted = min(job.submitted, submitted)
            tasks = job.kinds.setdefault((cpu, memory), _Tasks())
            tasks.count += 1
            tasks.seconds += seconds
    return [
        TraceJob(
            job.line,
            f"j{name}",
            "google",
            int(job.submitted),
            tuple(
                google.stage(tasks.count, tasks.seconds / tasks.count, cpu, memory)
                for (cpu, memory), tasks in job.kinds.items()
            ),
            job.priority,
        )
        for name, job in gathered.items()
    ]
