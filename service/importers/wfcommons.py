"""Import scientific workflows of WfCommons (WfFormat 1.0 to 1.5), one request per workflow.

A workflow is a graph of tasks with parents; runtimes, cores and memory are those of its recorded
execution. The request has exactly the edges of the graph: stages are not barriers. Arrivals and
deadlines are modelled: workflows arrive at equal intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from rdl.codecs.strict_json import JsonTextError, read_json
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

_COLUMNS = ("instance", "id", "parents", "runtime_s", "cores", "avg_cpu_pct", "memory_bytes")
_MIB = 2**20
#: Longest plausible run time, some thirty years.
_LONGEST_S = 1e9


@dataclass(frozen=True, slots=True)
class WorkflowModel:
    """Assumptions about data that the files lack.

    Attributes
    ----------
    machines, cores, memory_gib
        The machines, all identical.
    apart_s
        Seconds between submissions of consecutive workflows, in order of the files.
    merged
        Whether to join tasks with the same parents, children and cores into one malleable atom. Its
        lease is their mean runtime, its memory the maximum of theirs. This adds no precedence.
    """

    machines: int = 4
    cores: int = 24
    memory_gib: int = 128
    tenant: str = "science"
    apart_s: int = 600
    merged: bool = False

    @property
    def kinds(self) -> tuple[MachineKind, ...]:
        """The one kind of machine."""
        return (MachineKind("standard", self.machines, 1000 * self.cores, 1024 * self.memory_gib),)


@dataclass(frozen=True, slots=True)
class _RecordedTask:
    """One task as described in its file.

    Attributes
    ----------
    timed
        Whether a run time of 0 or more was recorded.
    name
        Reference of parents and children in files up to 1.4; files of 1.5 use ids.
    parents, children
        Ids or names of other tasks.
    """

    timed: bool
    seconds: float
    cpu_m: int
    memory_mib: int
    name: str
    parents: tuple[str, ...]
    children: tuple[str, ...] = ()


def import_workflows(
    files: Sequence[tuple[str, Iterable[str]]],
    described: WorkflowModel,
    model: StageModel,
    generator: np.random.Generator,
    limit: int | None = None,
) -> Imported:
    """Turn files (name, lines) into workload lines, one per workflow.

    A file is a workflow in WfFormat (JSON) or a CSV table of the tasks of several workflows,
    depending on its first character.

    Raises
    ------
    TraceError
        If a file is neither, or has an invalid field; the message names the file.
    """
    omissions = Omissions()
    jobs: list[TraceJob] = []
    taken: set[str] = set()
    for file, lines in files:
        try:
            name = "workflow" if file == "-" else Path(file).name.partition(".")[0]
            workflows = _read(name or "workflow", lines)
            parents = {given: _parents(given, tasks) for given, tasks in workflows.items()}
        except TraceError as error:
            raise TraceError(f"{file}: {error}") from error
        for given, tasks in workflows.items():
            names = chain([given], (f"{given}-{number}" for number in count(2)))
            name = next(one for one in names if one not in taken)
            taken.add(name)
            if not tasks:
                omissions.add(len(jobs) + 1, f"{name} has no task")
                continue
            if max(task.seconds for task in tasks.values()) > _LONGEST_S:
                omissions.add(len(jobs) + 1, f"a task of {name} runs for over 30 years")
                continue
            jobs.append(_job(name, tasks, parents[given], described, len(jobs), omissions))
    return import_jobs(jobs, model, generator, limit, omissions)


def _read(name: str, lines: Iterable[str]) -> dict[str, dict[str, _RecordedTask]]:
    first, whole = peek_header(lines)
    if first.startswith("{"):
        return {name: _read_json("".join(whole))}
    if "runtime_s" not in first:
        raise TraceError(
            "line 1: expected WfFormat (a JSON object) or a table of tasks whose header has "
            f"{','.join(_COLUMNS)}; it begins with {first[:60]!r}"
        )
    return _read_table(whole)


def _read_table(lines: Iterable[str]) -> dict[str, dict[str, _RecordedTask]]:
    found: dict[str, dict[str, _RecordedTask]] = {}
    for line, row in read_rows(lines, _COLUMNS):
        seconds = number(row, "runtime_s", line)
        task = _task(
            seconds,
            number(row, "cores", line),
            number(row, "avg_cpu_pct", line),
            number(row, "memory_bytes", line),
            row["id"],
            tuple(row["parents"].split()),
        )
        flow = found.setdefault(row["instance"], {})
        if row["id"] in flow:
            raise TraceError(f"line {line}: task {row['id']!r} is listed twice")
        flow[row["id"]] = task
    return found


def _read_json(text: str) -> dict[str, _RecordedTask]:
    try:
        document = read_json(text)
    except JsonTextError as error:
        line = "" if error.at is None else f"line {error.at[1]}: "
        raise TraceError(f"{line}{error}") from error
    workflow = _object(document, "workflow")
    if "specification" in workflow:
        specified = _tasks(_object(workflow, "specification"), "workflow.specification")
        ran_as = _object(workflow, "execution")
        executed = {_key(one): one for one in _tasks(ran_as, "workflow.execution")}
    else:
        specified = _tasks(workflow, "workflow")
        executed = {}
    found: dict[str, _RecordedTask] = {}
    for one in specified:
        key = _key(one)
        if key in found:
            raise TraceError(f"task {key!r} is listed twice")
        ran = {**one, **executed.get(key, {})}
        memory = _amount(ran, key, "memoryInBytes")
        if memory is None:  # in versions up to 1.3, in KB
            memory = 1024 * (_amount(ran, key, "memory") or 0.0)
        found[key] = _task(
            _amount(ran, key, "runtimeInSeconds", "runtime"),
            _amount(ran, key, "coreCount", "cores"),
            _amount(ran, key, "avgCPU"),
            memory,
            str(one.get("name", key)),
            _names(one, key, "parents"),
            _names(one, key, "children"),
        )
    return found


def _object(holder: Any, key: str) -> dict[str, Any]:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, dict):
        raise TraceError(f"no object {key!r}: expected WfCommons' WfFormat")
    return value


def _tasks(holder: Any, where: str) -> list[dict[str, Any]]:
    """Return the list of tasks, which are called jobs in the first versions."""
    tasks = holder.get("tasks", holder.get("jobs")) if isinstance(holder, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise TraceError(f"{where}.tasks is a list of objects")
    return tasks


def _key(task: Mapping[str, Any]) -> str:
    """Return the id of a task; the first versions have only names."""
    key = task.get("id", task.get("name"))
    if not isinstance(key, str) or not key:
        raise TraceError(f"a task has neither id nor name: {json.dumps(task)[:80]}")
    return key


def _names(task: Mapping[str, Any], key: str, field: str) -> tuple[str, ...]:
    names = task.get(field) or []
    if not isinstance(names, list):
        raise TraceError(f"task {key!r}: {field} is a list of ids or names, not {names!r}")
    return tuple(str(name) for name in names)


def _amount(task: Mapping[str, Any], key: str, *names: str) -> float | None:
    """Return the first present field of several; None if none is present."""
    for name in names:
        value = task.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise TraceError(f"task {key!r}: {name} is a number, not {value!r}")
        return float(value)
    return None


def _task(
    seconds: float | None,
    cores: float | None,
    average: float | None,
    memory: float | None,
    name: str,
    parents: tuple[str, ...],
    children: tuple[str, ...] = (),
) -> _RecordedTask:
    """Return a task; without a count of cores, the average use is rounded up."""
    used = cores if cores else max(1.0, ceil(max(average or 0.0, 0.0) / 100.0))
    mib = ceil(max(memory or 0.0, 0.0) / _MIB)
    timed = seconds is not None and seconds >= 0.0
    cpu_m = ceil(1000 * used)
    return _RecordedTask(timed, max(seconds or 0.0, 0.0), cpu_m, mib, name, parents, children)


@dataclass(frozen=True, slots=True)
class _Parents:
    """The edges of a workflow.

    Attributes
    ----------
    of
        Ids of the parents of each task.
    missing
        References in edges that match no task, or several.
    """

    of: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]


def _parents(workflow: str, tasks: Mapping[str, _RecordedTask]) -> _Parents:
    """Find the parents of each task by id, else by name; children give the same edges.

    Raises
    ------
    TraceError
        If most of the named parents are missing: the file has another form.
    """
    named: dict[str, list[str]] = {}
    for key, task in tasks.items():
        named.setdefault(task.name, []).append(key)

    def find(word: str) -> str | None:
        if word in tasks:
            return word
        keys = named.get(word, [])
        return keys[0] if len(keys) == 1 else None

    of: dict[str, dict[str, None]] = {key: {} for key in tasks}
    missing: list[str] = []
    for key, task in tasks.items():
        for word in task.parents:
            if (parent := find(word)) is None:
                missing.append(word)
            else:
                of[key][parent] = None
        for word in task.children:
            if (child := find(word)) is None:
                missing.append(word)
            else:
                of[child][key] = None
    given = sum(len(task.parents) + len(task.children) for task in tasks.values())
    if 2 * len(missing) > given:
        raise TraceError(
            f"{workflow}: {len(missing)} of {given} parents and children are neither the id nor "
            f"the name of one task, such as {missing[0]!r}: this is not WfFormat 1.0 to 1.5"
        )
    return _Parents({key: tuple(found) for key, found in of.items()}, tuple(missing))


def _job(
    name: str,
    tasks: Mapping[str, _RecordedTask],
    parents: _Parents,
    described: WorkflowModel,
    position: int,
    omissions: Omissions,
) -> TraceJob:
    """Return one workflow as stages, each after its parents."""
    before = {key: tuple(p for p in found if p != key) for key, found in parents.of.items()}
    line = position + 1
    for why in _strange(name, tasks, parents):
        omissions.add(line, why)
    groups = _merge(tasks, before) if described.merged else [[key] for key in tasks]
    place = {key: index for index, group in enumerate(groups) for key in group}
    after = {
        index: sorted({place[parent] for parent in before[group[0]]})
        for index, group in enumerate(groups)
    }
    order = in_order(after, lambda why: omissions.add(line, f"edges of {name}: {why}"))
    rank = {index: at for at, index in enumerate(order)}
    stages = []
    for index in order:
        members = [tasks[key] for key in groups[index]]
        seconds = max(1, ceil(sum(task.seconds for task in members) / len(members)))
        needs = tuple(sorted(rank[b] for b in after[index] if rank[b] < rank[index]))
        memory = max(task.memory_mib for task in members)
        stages.append(Stage(len(members), seconds, members[0].cpu_m, memory, needs))
    return TraceJob(line, name, described.tenant, position * described.apart_s, tuple(stages))


def _strange(name: str, tasks: Mapping[str, _RecordedTask], parents: _Parents) -> Iterator[str]:
    """Yield a message for each part of a workflow that is wrong and is ignored."""
    unknown = sorted(set(parents.missing))
    if unknown:
        why = f"{len(unknown)} from missing tasks, such as {unknown[0]!r}"
        yield f"edges of {name}: {why}"
    looped = [key for key, found in parents.of.items() if key in found]
    if looped:
        yield f"edges of {name}: {len(looped)} from a task to itself, such as {looped[0]!r}"
    untimed = sum(not task.timed for task in tasks.values())
    if untimed:
        why = f"{untimed} of {len(tasks)} tasks have none or a negative one and count as 1 s"
        yield f"run times of {name}: {why}"


def _merge(
    tasks: Mapping[str, _RecordedTask], before: Mapping[str, tuple[str, ...]]
) -> list[list[str]]:
    """Group tasks with the same precedence and the same requested resources."""
    children: dict[str, set[str]] = {key: set() for key in tasks}
    for key, parents in before.items():
        for parent in parents:
            children[parent].add(key)
    groups: dict[object, list[str]] = {}
    for key, task in tasks.items():
        alike = (frozenset(before[key]), frozenset(children[key]), task.cpu_m)
        groups.setdefault(alike, []).append(key)
    return list(groups.values())
