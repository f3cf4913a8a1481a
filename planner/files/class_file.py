"""Read job-class files: TOML with classes, their shares and mean times per machine group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.cluster.cluster import Cluster
from planner.files.cluster_file import read_toml
from planner.files.errors import FileError, FileProblem, FileProblems
from planner.files.schema import schema_problems
from rdl.durations import TimeTextError, read_duration
from rdl.resources import AmountError, Resources


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of jobs.

    Attributes
    ----------
    share
        Share of all arrivals; the shares of a file add up to 1.
    request
        Resources that one job takes of a machine.
    mean_ms
        Mean time on each machine group that can run it, or on every group under the key None.
    """

    name: str
    share: float
    request: Resources
    mean_ms: Mapping[str | None, int]

    def mean_on(self, group: str) -> int | None:
        """Return the mean time in ms on a machine group, None if it cannot run."""
        return self.mean_ms.get(None, self.mean_ms.get(group))


def read_classes(path: str | Path, cluster: Cluster | None = None) -> tuple[JobClass, ...]:
    """Read a job-class file.

    Parameters
    ----------
    cluster
        If given, machine groups must be its own, and every class must fit some machine.

    Raises
    ------
    FileError
        With every problem, each with its pointer (the line, for broken TOML).
    OSError
        If the file cannot be opened.
    """
    return classes_from_json(read_toml(path), str(path), cluster)


def classes_from_json(
    document: object, path: str = "classes", cluster: Cluster | None = None
) -> tuple[JobClass, ...]:
    """Read job classes from plain JSON values; see :func:`read_classes`."""
    problems = schema_problems(document, "classes")
    if problems:
        raise FileError(path, problems)
    assert isinstance(document, Mapping)
    entries = document["classes"]
    total = sum(entry["share"] for entry in entries)
    names: set[str] = set()
    found: list[JobClass] = []
    for index, entry in enumerate(entries):
        at = f"/classes/{index}"
        if entry["name"] in names:
            problems.append(FileProblem(f"class {entry['name']!r} is given twice", f"{at}/name"))
        names.add(entry["name"])
        one = _class(at, entry, total, problems)
        if cluster is not None:
            _check_on(cluster, at, one, problems)
        found.append(one)
    if problems:
        raise FileError(path, problems)
    return tuple(found)


def _class(at: str, entry: Mapping[str, Any], total: float, problems: FileProblems) -> JobClass:
    request = Resources()
    try:
        request = Resources.from_json(entry["request"])
    except AmountError as error:
        problems.append(FileProblem(str(error), f"{at}/request"))
    raw = entry["mean_time"]
    times: dict[str | None, int] = {}
    for group, value in raw.items() if isinstance(raw, Mapping) else ((None, raw),):
        pointer = f"{at}/mean_time" + (f"/{group}" if group is not None else "")
        try:
            times[group] = read_duration(value)
        except TimeTextError as error:
            problems.append(FileProblem(error.message, pointer, fix=error.fix))
            continue
        if not times[group]:
            problems.append(FileProblem("a mean time must be more than nothing", pointer))
    return JobClass(entry["name"], entry["share"] / total, request, times)


def _check_on(cluster: Cluster, at: str, one: JobClass, problems: FileProblems) -> None:
    known = [group.name for group in cluster.machines]
    for group in one.mean_ms:
        if group is not None and group not in known:
            fix = f"known are {', '.join(known)}"
            message = f"no machines are called {group!r}"
            problems.append(FileProblem(message, f"{at}/mean_time/{group}", fix=fix))
    able = [
        group
        for group in cluster.machines
        if one.mean_on(group.name) is not None
        and all(group.resources.get(name, 0) >= amount for name, amount in one.request.items())
    ]
    if not able:
        problems.append(FileProblem(f"no machine can run a job of class {one.name!r}", at))
