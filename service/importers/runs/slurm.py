"""Slurm's accounting: ``sacct --parsable2`` with its header.

    sacct --allusers --parsable2 --starttime now-90days --state COMPLETED \\
        --format JobID,JobName,User,Partition,Start,End,AllocCPUS,AllocTRES,ReqMem,State

Steps of a job (``12.batch``) are left out, the tasks of an array (``12_7``) are one run together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Final

from planner.history.run import stretches_of
from service.importers.lines import Skipped, TraceError
from service.importers.runs.finished_run import (
    FinishedRun,
    RunHistory,
    began,
    column_places,
    held,
    mebibytes_a_core,
)

NEEDED: Final = ("JobName", "Start", "End", "State")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def read_slurm(text: Iterable[str], zone: tzinfo) -> RunHistory:
    """Read the jobs that completed.

    Parameters
    ----------
    zone
        That of the times: sacct writes what the clocks of its machine show.

    Raises
    ------
    TraceError
        If a column is missing, or a field is not what sacct writes.
    """
    lines = iter(text)
    header = next(lines, "").rstrip("\r\n").split("|")
    places = column_places(header, NEEDED, "|")
    if "AllocCPUS" not in places and "AllocTRES" not in places:
        raise TraceError("line 1: no column AllocCPUS, and no AllocTRES; one of them is needed")
    runs: list[FinishedRun] = []
    arrays: dict[str, list[FinishedRun]] = {}
    skipped: list[Skipped] = []
    for line, raw in enumerate(lines, start=2):
        if not raw.strip():
            continue
        fields = raw.rstrip("\r\n").split("|")
        if len(fields) != len(header):
            raise TraceError(f"line {line}: {len(fields)} fields, but {len(header)} columns")
        row = {name: fields[place] for name, place in places.items()}
        if "." in row.get("JobID", ""):
            continue  # a step of the job on the line before
        why = _why_not(row)
        array, mark, _ = row.get("JobID", "").partition("_")
        if why is not None:
            skipped.append(Skipped(line, why))
        elif mark:
            arrays.setdefault(array, []).append(_run(row, line, zone))
        else:
            runs.append(_run(row, line, zone))
    runs += [_joined(tasks) for tasks in arrays.values()]
    return RunHistory(tuple(runs), tuple(skipped))


def _joined(tasks: Sequence[FinishedRun]) -> FinishedRun:
    """Return the run that the tasks of an array are together: their widths over time."""
    held = [(task.began_s, task.began_s + one.seconds, one.width)
            for task in tasks for one in task.stretches]  # fmt: skip
    names = sorted({name for task in tasks for name in task.bundle})
    bundle = {name: max(task.bundle.get(name, 0) for task in tasks) for name in names}
    began_s = min(task.began_s for task in tasks)
    return replace(tasks[0], began_s=began_s, stretches=stretches_of(held), bundle=bundle)


def _why_not(row: Mapping[str, str]) -> str | None:
    state = row["State"].split()[0] if row["State"].split() else "unknown"
    if state != "COMPLETED":
        return f"{row['JobName']} is {state}"
    if row["Start"] == row["End"]:
        return f"{row['JobName']} ended in the second that it began"
    return None


def _run(row: Mapping[str, str], line: int, zone: tzinfo) -> FinishedRun:
    start, end = _instant(row, "Start", line, zone), _instant(row, "End", line, zone)
    if end <= start:  # clocks may have gone back meanwhile: the second of two such times
        end = _instant(row, "End", line, zone, fold=1)
    tres = _tres(row.get("AllocTRES", ""), line)
    cores = _count(row, line) if row.get("AllocCPUS") else round(tres.get("cpu", 0))
    bundle = mebibytes_a_core(_memory(row, tres, cores, line), cores)
    graphics = tres.get("gres/gpu", 0)
    if graphics:
        bundle["gpu"] = -int(-graphics // max(cores, 1))
    return FinishedRun(
        row["JobName"],
        row.get("User", ""),
        row.get("Partition", ""),
        began(start, line),
        held(end - start, cores, line),
        bundle,
    )


def _instant(row: Mapping[str, str], column: str, line: int, zone: tzinfo, fold: int = 0) -> float:
    try:
        found = datetime.fromisoformat(row[column])
    except ValueError as error:
        raise TraceError(
            f"line {line}: {column} is a time such as 2026-11-22T03:00:00, not {row[column]!r}"
        ) from error
    return (found if found.tzinfo else found.replace(tzinfo=zone, fold=fold)).timestamp()


def _count(row: Mapping[str, str], line: int) -> int:
    raw = row["AllocCPUS"]
    if not raw.isdecimal() or len(raw) > 9:
        raise TraceError(f"line {line}: AllocCPUS is a number of cores, not {raw[:40]!r}")
    return int(raw)


def _tres(raw: str, line: int) -> dict[str, float]:
    """Return ``cpu=4,mem=8G,gres/gpu=1`` as numbers, memory in MiB."""
    found: dict[str, float] = {}
    for part in filter(None, raw.split(",")):
        name, _, value = part.partition("=")
        match = _MEMORY.fullmatch(value)
        if match is None:
            raise TraceError(f"line {line}: AllocTRES is such as cpu=4,mem=8G, not {part[:40]!r}")
        found[name] = float(match[1]) * (_MIB[match[2]] if name == "mem" else 1.0)
    return found


def _memory(row: Mapping[str, str], tres: Mapping[str, float], cores: int, line: int) -> float:
    """Return the MiB of a run: those it was given, else those it asked for, a node or a core."""
    raw = row.get("ReqMem", "")
    if "mem" in tres or not raw:
        return tres.get("mem", 0.0)
    match = _MEMORY.fullmatch(raw)
    if match is None:
        raise TraceError(f"line {line}: ReqMem is such as 8G, 4Gn or 500Mc, not {raw[:40]!r}")
    nodes = row.get("AllocNodes", "") or row.get("NNodes", "") or "1"
    if not nodes.isdecimal():
        raise TraceError(f"line {line}: nodes are a number, not {nodes[:40]!r}")
    times = cores if match[3] == "c" else int(nodes) if match[3] == "n" else 1
    return float(match[1]) * _MIB[match[2]] * times
