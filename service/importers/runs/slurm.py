"""Slurm's accounting: ``sacct --parsable2`` with its header.

    sacct --allusers --parsable2 --starttime now-90days --state COMPLETED \\
        --format JobID,JobName,User,Partition,Start,End,AllocCPUS,AllocTRES,ReqMem,State

Steps of a job (``12.batch``) are within it; the tasks of an array (``12_7``) and the components of
a heterogeneous job (``12+1``) are one run together.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from math import ceil
from typing import Final

from service.importers.lines import LARGEST, Omissions
from service.importers.runs.finished_run import (
    FinishedRun,
    RunHistory,
    began,
    containers,
    held,
    joined,
)
from service.importers.sacct_records import SacctRecord, read_records

NEEDED: Final = ("JobName", "Start", "End", "State")


def read_slurm(text: Iterable[str], zone: tzinfo) -> RunHistory:
    """Read the jobs that completed.

    Parameters
    ----------
    zone
        That of the times: sacct writes what the clocks of its machine show.

    Raises
    ------
    TraceError
        If a column is missing, or no record is what sacct writes.
    """
    omissions = Omissions()
    runs: dict[object, FinishedRun] = {}
    parts: dict[str, dict[object, FinishedRun]] = {}
    for record in read_records(text, NEEDED, zone, omissions):
        with omissions.reading(record.line):
            if (why := _why_not(record)) is not None:
                omissions.add(record.line, why)
                continue
            id_, is_part = record.job
            # A record that is there twice is one run.
            key = record.text("JobID") or record.line, record.text("Start"), record.text("End")
            (parts.setdefault(id_, {}) if is_part else runs)[key] = _run(record)
    together = [joined(list(mine.values())) for mine in parts.values()]
    return RunHistory((*runs.values(), *together), omissions.finish())


def _why_not(record: SacctRecord) -> str | None:
    name = record.text("JobName")
    if record.state != "COMPLETED":
        return f"{name} is {record.state}"
    if record.text("Start") == record.text("End"):
        return f"{name} ended in the second that it began"
    return None


def _run(record: SacctRecord) -> FinishedRun:
    start, end = record.span("Start", "End")
    cores, memory = record.cores(), ceil(min(record.memory_mib(), LARGEST))
    width, bundle = containers({"cpu": 1000 * cores, "memory": memory, "gpu": record.gpus()})
    return FinishedRun(
        record.text("JobName"),
        record.text("User"),
        record.text("Partition"),
        began(start, record.line),
        held(end - start, width if cores else 0, record.line),
        bundle,
    )
