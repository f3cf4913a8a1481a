"""Turn jobs of equal tasks with recorded resources into requests on machines of several kinds.

Shared by the importers of traces that record cores, memory and run times: tasks become malleable
atoms with one lease per task, and the deadline follows from the time that the job takes alone on
the given machines.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isfinite
from statistics import median

import numpy as np

from rdl.resources import CPU, MEMORY, Resources
from service.importers.lines import (
    LARGEST,
    Imported,
    Names,
    Omissions,
    Slack,
    TraceError,
    window_text,
)


@dataclass(frozen=True, slots=True)
class MachineKind:
    """`count` identical machines; millicores and MiB are those of each machine."""

    name: str
    count: int
    cpu_m: int
    memory_mib: int

    def holds(self, stage: Stage) -> int:
        """Return how many tasks of a stage fit on all these machines at the same time."""
        rooms = ((self.cpu_m, stage.cpu_m), (self.memory_mib, stage.memory_mib))
        return self.count * min(room // need for room, need in rooms if need)


@dataclass(frozen=True, slots=True)
class Stage:
    """Equal tasks of a job, which request a positive amount of at least one resource.

    Attributes
    ----------
    after
        Indices of the job's stages that must end before this one starts.
    """

    tasks: int
    lease_s: int
    cpu_m: int
    memory_mib: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    Attributes
    ----------
    line
        The line of its first record.
    stages
        Each stage comes after those in its `after`.
    """

    line: int
    name: str
    tenant: str
    submitted_s: int
    stages: tuple[Stage, ...]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class StageModel:
    """Settings for turning jobs into requests.

    Attributes
    ----------
    machines
        Machines for the time that a job takes alone; a job that fits on none is skipped.
    rebase
        Whether times count from the first submission, rounded down to a step.
    """

    machines: Sequence[MachineKind]
    step_s: int = 60
    rebase: bool = True
    slack: Slack = field(default_factory=Slack)


def peek_header(text: Iterable[str]) -> tuple[str, Iterator[str]]:
    """Return the header of a CSV file, and all of its lines including the header."""
    lines = iter(text)
    header = next(lines, "")
    return header.strip(), chain([header], lines)


def read_rows(
    text: Iterable[str], columns: Sequence[str], omissions: Omissions | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and fields of a CSV file that has at least these columns.

    Parameters
    ----------
    omissions
        Receives the lines that cannot be read; if None, they are errors.

    Raises
    ------
    TraceError
        If a column is missing, or a line has another number of fields.
    """
    rows = csv.reader(text)
    header = next(rows, [])
    missing = [name for name in columns if name not in header]
    if missing:
        raise TraceError(f"line 1: no column {missing[0]!r}; the header is {','.join(header)}")
    while True:
        try:
            row = next(rows)
            why = "" if len(row) == len(header) else f"{len(header)} columns, not {len(row)}"
        except StopIteration:
            return
        except csv.Error as error:
            row, why = [""], str(error)
        if why and row:
            problem = TraceError(f"line {rows.line_num}: {why}")
            if omissions is None:
                raise problem
            omissions.fail(rows.line_num, problem)
        elif row:
            yield rows.line_num, dict(zip(header, row, strict=True))


def number(row: Mapping[str, str], name: str, line: int) -> float | None:
    """Return a field as a number, possibly negative as in some traces; None if it is empty.

    Raises
    ------
    TraceError
        If it is anything else.
    """
    raw = row[name]
    if not raw:
        return None
    try:
        value = float(raw)
    except ValueError as error:
        raise TraceError(f"line {line}: {name} is a number, not {raw!r}") from error
    if not isfinite(value) or abs(value) > LARGEST:
        raise TraceError(f"line {line}: {name} is a number up to {LARGEST}, not {raw!r}")
    return value


def import_jobs(
    jobs: Sequence[TraceJob],
    model: StageModel,
    generator: np.random.Generator,
    limit: int | None = None,
    omissions: Omissions | None = None,
) -> Imported:
    """Return jobs as workload lines in order of submission; one slack is drawn for each.

    Raises
    ------
    TraceError
        If no record of the trace could be read.
    """
    ordered = sorted(jobs, key=lambda job: (job.submitted_s, job.line))
    step = model.step_s
    zero = ordered[0].submitted_s // step * step if ordered and model.rebase else 0
    lines: list[dict[str, object]] = []
    left, last = omissions or Omissions(), 0
    leases: list[int] = []
    names = Names()
    for job in ordered:
        if limit is not None and len(lines) >= limit:
            break
        if any(_count_room(stage, model.machines) < 1 for stage in job.stages):
            left.add(job.line, f"a task of {job.name} fits no machine")
            continue
        submitted = job.submitted_s - zero
        if submitted < 0:
            left.add(job.line, f"{job.name} was submitted before the trace begins")
            continue
        alone = _steps_alone(job.stages, model)
        length = int(-(-alone * (1.0 + model.slack.draw(generator)) // 1))
        end = (-(-submitted // step) + length) * step
        if (why := names.why_not(job.name, job.line, end)) is not None:
            left.add(job.line, why)
            continue
        leases += [stage.lease_s for stage in job.stages]
        last = max(last, end)
        lines.append(
            {
                "id": job.name,
                "tenant": job.tenant,
                "submitted": submitted,
                "rdl": window_text(submitted, end, _rdl(job.stages)),
                "priority": job.priority,
            }
        )
    return Imported(tuple(lines), step, last, left.finish(), median(leases) if leases else None)


def _count_room(stage: Stage, machines: Sequence[MachineKind]) -> int:
    return sum(kind.holds(stage) for kind in machines)


def _steps_alone(stages: Sequence[Stage], model: StageModel) -> int:
    """Return the steps that a job takes alone, at least as many as the machines need.

    If all stages fit at the same time, this is the longest path; else stages run level by level,
    and those of a level in parallel as far as they fit.
    """
    room = [_count_room(stage, model.machines) for stage in stages]
    lengths = [
        -(-stage.tasks // most) * -(-stage.lease_s // model.step_s)
        for stage, most in zip(stages, room, strict=True)
    ]
    parts = [min(1.0, stage.tasks / most) for stage, most in zip(stages, room, strict=True)]
    if sum(stage.tasks / most for stage, most in zip(stages, room, strict=True)) > 1:
        levels: dict[int, list[int]] = {}
        depth: list[int] = []
        for index, stage in enumerate(stages):
            depth.append(1 + max((depth[before] for before in stage.after), default=-1))
            levels.setdefault(depth[-1], []).append(index)
        return sum(_side_by_side(level, lengths, parts) for level in levels.values())
    ends: list[int] = []
    for stage, length in zip(stages, lengths, strict=True):
        ends.append(length + max((ends[before] for before in stage.after), default=0))
    return max(ends)


def _side_by_side(level: Sequence[int], lengths: Sequence[int], parts: Sequence[float]) -> int:
    """Return the steps of independent stages, longest first, with as many in parallel as fit."""
    total, used = 0, 2.0
    for index in sorted(level, key=lambda one: -lengths[one]):
        if used + parts[index] > 1.0:
            total, used = total + lengths[index], 0.0
        used += parts[index]
    return total


def _rdl(stages: Sequence[Stage]) -> object:
    atoms = [_atom(stage) for stage in stages]
    if len(atoms) == 1:
        return atoms[0]
    if not any(stage.after for stage in stages):
        return {"all": atoms}
    names = [f"s{index}" for index in range(len(stages))]
    edges = [
        [names[before], names[index]]
        for index, stage in enumerate(stages)
        for before in stage.after
    ]
    return {"graph": {"nodes": dict(zip(names, atoms, strict=True)), "edges": edges}}


def _atom(stage: Stage) -> dict[str, object]:
    bundle = Resources.of({CPU: stage.cpu_m, MEMORY: stage.memory_mib})
    return {
        "atom": {
            "bundle": bundle.to_json(),
            "min": 1,
            "max": stage.tasks,
            "lease": stage.lease_s,
            "work": stage.tasks * stage.lease_s,
        }
    }


def in_order(after: Mapping[int, Sequence[int]], warn: Callable[[str], None]) -> list[int]:
    """Return keys in topological order; a cycle is reported and cut."""
    found: list[int] = []
    waiting = dict(after)
    while waiting:
        ready = [key for key, before in waiting.items() if not any(b in waiting for b in before)]
        if not ready:
            warn("its tasks depend on each other in a cycle")
            return [*found, *waiting]
        found += ready
        for key in ready:
            del waiting[key]
    return found


def kinds_toml(machines: Sequence[MachineKind], imported: Imported, *, comment: str) -> str:
    """Return the text of a cluster file with a group for each kind of machine."""
    horizon = max(1, -(-imported.end_s // imported.step_s)) * imported.step_s
    groups = "".join(
        f"\n[[machines]]\nname = {json.dumps(kind.name)}\ncount = {kind.count}\n"
        f'resources = {{ cpu = "{kind.cpu_m}m", memory = "{kind.memory_mib} MiB" }}\n'
        for kind in machines
    )
    return f'# {comment}\nstep = "{imported.step_s}s"\nhorizon = "{horizon}s"\n{groups}'
