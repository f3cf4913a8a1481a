"""Slurm's accounting as requests with deadlines, on the nodes that its jobs ran on.

    sacct --allusers --parsable2 --starttime 2026-11-01 --endtime 2026-11-02 --format JobID,User,\\
        Partition,Submit,Start,End,State,AllocCPUS,NNodes,AllocTRES,ReqMem,Timelimit,NodeList

A job is a gang of equal shares, one a node, for its time limit; without one, for as long as it ran.
Every job that ran counts, however it ended. Deadlines are modelled as for any log. Nodes are as
large as the accounting shows: nodes whose names have one stem are alike, and one has the most that
jobs had of a node of that stem at the same time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from math import ceil
from typing import Final

import numpy as np

from dispatch.backends.slurm.control.records import expand_hostlist
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
from service.importers.sacct_records import SacctRecord, read_records

_NEEDED: Final = ("JobID", "Submit", "Start", "End", "State")
_LIMIT: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_GPU: Final = "gpu"
#: No node is believed to be one of more.
_MOST_NODES: Final = 10**6


@dataclass(frozen=True, slots=True)
class SacctModel:
    """How accounting becomes requests.

    Attributes
    ----------
    step_s
        The grid that deadlines are computed on.
    zone
        Of the accounting's times.
    """

    step_s: int
    zone: tzinfo
    slack: Slack = field(default_factory=Slack)


@dataclass(frozen=True, slots=True)
class NodeKind:
    """`count` nodes of one stem; amounts of each in millicores, MiB and units."""

    name: str
    count: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ImportedJobs:
    """Requests, the nodes that the jobs ran on, and the Unix time of the workload's zero.

    `nodes` is empty if no record has a NodeList.
    """

    requests: Imported
    nodes: tuple[NodeKind, ...]
    start_s: int


@dataclass(frozen=True, slots=True)
class _Job:
    """One job: `share` is what it had of each of its `width` nodes; times are Unix times."""

    line: int
    name: str
    user: str
    queue: str
    submitted_s: float
    start_s: float
    end_s: float
    limit_s: int
    width: int
    share: Mapping[str, int]
    nodes: tuple[str, ...]


def import_sacct(
    text: Iterable[str], model: SacctModel, generator: np.random.Generator, limit: int | None = None
) -> ImportedJobs:
    """Read accounting into workload lines, in order of submission.

    Raises
    ------
    TraceError
        If a column is missing, or no record is of a job that ran.
    """
    omissions = Omissions()
    jobs: dict[str, _Job] = {}
    for record in read_records(text, _NEEDED, model.zone, omissions):
        with omissions.reading(record.line):
            id_ = record.text("JobID")
            if not (record.has_time("Start") and record.has_time("End")):
                omissions.add(record.line, f"job {id_} is {record.state} and has not run")
                continue
            job = _job(record)
            if job.end_s <= job.start_s:
                omissions.add(record.line, f"job {id_} ended in the second that it began")
            elif (known := jobs.get(id_)) is None:
                jobs[id_] = job
            else:  # requeued: it waits from its first submission to its last start
                last = max(known, job, key=lambda one: one.start_s)
                submitted_s = min(known.submitted_s, job.submitted_s)
                jobs[id_] = replace(last, submitted_s=submitted_s)
    ordered = sorted(jobs.values(), key=lambda job: (job.submitted_s, job.line))
    if not ordered:
        omissions.finish()
        raise TraceError("there is no job here that ran")
    zero = int(ordered[0].submitted_s) // model.step_s * model.step_s
    lines: list[dict[str, object]] = []
    names, last_s = Names(), 0
    for job in ordered:
        if limit is not None and len(lines) >= limit:
            break
        line, end = _line(job, zero, model, generator)
        if (why := names.why_not(job.name, job.line, end)) is not None:
            omissions.add(job.line, why)
            continue
        lines.append(line)
        last_s = max(last_s, end)
    requests = Imported(tuple(lines), model.step_s, last_s, omissions.finish())
    return ImportedJobs(requests, _nodes(ordered), zero)


def _job(record: SacctRecord) -> _Job:
    start, end = record.span("Start", "End")
    submitted = record.instant("Submit")
    if submitted > start:  # a job that was requeued may show the later submission
        submitted = start
    width = max(1, record.nodes())
    cores = record.cores()
    if not 0 < cores <= LARGEST or width > min(cores, _MOST_NODES):
        raise TraceError(f"line {record.line}: {cores} CPUs on {width} nodes are no job's")
    total = {
        CPU: 1000 * cores, MEMORY: ceil(min(record.memory_mib(), LARGEST)), _GPU: record.gpus()
    }  # fmt: skip
    share = {name: -(-amount // width) for name, amount in total.items() if amount}
    if _GPU in share and total[_GPU] % width:
        share[_GPU] = total[_GPU] // width  # never more than the job had
    names = record.text("NodeList")
    nodes = () if names in ("", "None assigned") else expand_hostlist(names)
    return _Job(
        record.line,
        record.text("JobID"),
        record.text("User") or "unknown",
        record.text("Partition").partition(",")[0],
        submitted,
        start,
        end,
        _limit_s(record.text("Timelimit")) or ceil(end - start),
        width,
        {name: amount for name, amount in share.items() if amount},
        nodes,
    )


def _limit_s(text: str) -> int:
    """Return the seconds of ``1-02:00:00``; 0 for ``UNLIMITED`` and the like."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 86_400 * days + 3600 * hours + 60 * minutes + seconds


def _line(
    job: _Job, zero: int, model: SacctModel, generator: np.random.Generator
) -> tuple[dict[str, object], int]:
    submitted = job.submitted_s - zero
    alone = -(-job.limit_s // model.step_s)
    length = int(-(-alone * (1.0 + model.slack.draw(generator)) // 1))
    end = (ceil(submitted / model.step_s) + length) * model.step_s
    atom = {
        "bundle": Resources.of(job.share).to_json(),
        "min": job.width,
        "max": job.width,
        "lease": job.limit_s,
        "work": job.width * job.limit_s,
    }
    line: dict[str, object] = {"id": job.name, "tenant": job.user}
    if job.queue:
        line["queue"] = job.queue
    line |= {
        "submitted": _whole(submitted),
        "rdl": window_text(_whole(submitted), end, {"atom": atom}),
        "recorded": {"start": _whole(job.start_s - zero), "end": _whole(job.end_s - zero)},
    }
    return line, end


def _whole(seconds: float) -> int:
    return round(seconds)


def _nodes(jobs: Sequence[_Job]) -> tuple[NodeKind, ...]:
    """Return the nodes by stem, each with the most that jobs had of one at the same time."""
    changes: dict[str, list[tuple[float, int, Mapping[str, int]]]] = {}
    for job in jobs:
        for node in job.nodes:
            changes.setdefault(node, []).append((job.start_s, 1, job.share))
            changes[node].append((job.end_s, -1, job.share))
    stems: dict[str, list[str]] = {}
    for node in sorted(changes):
        stems.setdefault(node.rstrip("0123456789-_.") or "node", []).append(node)
    kinds = []
    for stem, names in stems.items():
        most: dict[str, int] = {}
        for node in names:
            held: dict[str, int] = {}
            for _, sign, share in sorted(changes[node], key=lambda one: (one[0], one[1])):
                for name, amount in share.items():
                    held[name] = held.get(name, 0) + sign * amount
                    most[name] = max(most.get(name, 0), held[name])
        kinds.append(NodeKind(stem, len(names), most))
    return tuple(kinds)


def nodes_toml(imported: ImportedJobs, origin: str, comment: str) -> str:
    """Return the text of a cluster file with a machine group for each kind of node."""
    requests = imported.requests
    horizon = max(1, -(-requests.end_s // requests.step_s)) * requests.step_s
    queues = sorted({"default", *(str(one["queue"]) for one in requests.lines if "queue" in one)})
    text = [
        f'# {comment}\nstep = "{requests.step_s}s"\nhorizon = "{horizon}s"\norigin = "{origin}"\n'
    ]
    for kind in imported.nodes:
        amounts = "".join(
            f", {name} = {amount}"
            for name, amount in sorted(kind.amounts.items())
            if name not in (CPU, MEMORY)
        )
        memory = kind.amounts.get(MEMORY, 0)
        text.append(
            f"\n[[machines]]\nname = {json.dumps(kind.name)}\ncount = {kind.count}\n"
            f'resources = {{ cpu = "{kind.amounts[CPU]}m"'
            + (f', memory = "{memory} MiB"' if memory else "")
            + f"{amounts} }}\n"
        )
    text += [f"\n[[queues]]\nname = {json.dumps(name)}\n" for name in queues]
    return "".join(text)
