"""Import Slurm's accounting: requests with deadlines, the nodes that jobs ran on, and runs.

    sacct --allusers --parsable2 --starttime 2026-11-01 --endtime 2026-11-02 --format JobID,User,\\
        Partition,Submit,Start,End,State,AllocCPUS,NNodes,AllocTRES,ReqMem,Timelimit,NodeList

sacct escapes nothing. A job's name may contain ``|`` and line breaks; such a record is restored if
only one column is free text.

A job is a gang of equal shares, one per node, for its time limit, or for its run time without one.
Every job that ran counts, however it ended. Deadlines are modelled as for other logs. The size of
nodes is derived from the accounting: nodes whose names have the same stem are identical, and have
the most resources that jobs used of such a node at the same time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
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
from service.importers.runs import FinishedRun, RunHistory, began, containers, held, joined

#: Columns with text from users; all others never contain a bar or a line break.
_FREE: Final = ("JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir",
                "Extra", "Container")  # fmt: skip
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_DEVICE: Final = re.compile(r"(?:gres[:/])?gpu(?::[^:=(,]+)*?[:=](\d+)(?:\(.*\))?")
_JOB_ID: Final = re.compile(r"\d+([_+.]|\Z)")
#: Values of sacct for a time that is not known yet.
_NEVER: Final = ("", "Unknown", "None", "NONE", "N/A")


@dataclass(frozen=True, slots=True)
class SacctRecord:
    """One record.

    Attributes
    ----------
    line
        Its first line, from 1.
    row
        Fields by column.
    zone
        Zone of the times: sacct writes local times.
    """

    line: int
    row: Mapping[str, str]
    zone: tzinfo

    def text(self, column: str) -> str:
        """Return a field without surrounding blanks; empty if there is no such column."""
        return self.row.get(column, "").strip()

    @property
    def state(self) -> str:
        """The state without its suffix: `CANCELLED` for ``CANCELLED by 0``."""
        words = self.row["State"].split()
        return words[0].rstrip("+") if words else "unknown"

    @property
    def job(self) -> tuple[str, bool]:
        """The id of the job, and whether this is a part of it: an array task or a component."""
        id_, mark, _ = self.text("JobID").replace("+", "_").partition("_")
        return id_, bool(mark)

    @property
    def is_step(self) -> bool:
        """Whether this is a step (``12.batch``); its job has a separate record."""
        return "." in self.text("JobID")

    def has_time(self, column: str) -> bool:
        """Return whether a column has a time."""
        return self.text(column) not in _NEVER

    def instant(self, column: str, fold: int = 0) -> float:
        """Return a time as Unix time; `fold` 1: the second of two equal local times.

        Raises
        ------
        TraceError
            If it is not a time.
        """
        raw = self.text(column)
        if raw.isdecimal() and len(raw) == 10:  # SLURM_TIME_FORMAT=%s
            return float(raw)
        try:
            found = datetime.fromisoformat(raw)
        except ValueError as error:
            raise TraceError(
                f"line {self.line}: {column} is a time such as 2026-11-22T03:00:00, not {raw!r}"
            ) from error
        return (found if found.tzinfo else found.replace(tzinfo=self.zone, fold=fold)).timestamp()

    def span(self, start: str, end: str) -> tuple[float, float]:
        """Return two times in order, also in the repeated hour at the end of summer time.

        Raises
        ------
        TraceError
            If one is not a time.
        """
        first, last = self.instant(start), self.instant(end)
        return first, last if last > first else self.instant(end, fold=1)

    def count(self, column: str, what: str) -> int:
        """Return a whole number; 0 if the column is empty or missing.

        Raises
        ------
        TraceError
            If it is not a whole number.
        """
        raw = self.text(column)
        if raw and (not raw.isdecimal() or len(raw) > 9):
            raise TraceError(f"line {self.line}: {column} is a number of {what}, not {raw[:40]!r}")
        return int(raw or 0)

    def cores(self) -> int:
        """Return the number of allocated CPUs."""
        return self.count("AllocCPUS", "cores") or round(self._tres("cpu"))

    def nodes(self) -> int:
        """Return the number of nodes; 0 if no column has it."""
        found = self.count("AllocNodes", "nodes") or self.count("NNodes", "nodes")
        return found or round(self._tres("node"))

    def memory_mib(self) -> float:
        """Return the allocated MiB, else the requested MiB; 0 if no column has them."""
        given, raw = self._tres("mem"), self.text("ReqMem")
        if given or not raw:
            return given
        match = _AMOUNT.fullmatch(raw)
        if match is None:
            raise TraceError(
                f"line {self.line}: ReqMem is such as 8G, 4Gn or 500Mc, not {raw[:40]!r}"
            )
        times = {"c": self.cores(), "n": max(1, self.nodes())}.get(match[3], 1)
        return float(match[1]) * _MIB[match[2]] * times

    def gpus(self) -> int:
        """Return the allocated GPUs: the total, else the sum over types."""
        amounts = self._amounts()
        if "gres/gpu" in amounts:
            return round(amounts["gres/gpu"])
        typed = sum(amount for name, amount in amounts.items() if name.startswith("gres/gpu:"))
        return round(typed) or self._devices("AllocGRES")

    def _devices(self, column: str) -> int:
        """Return the GPUs of ``gpu:a100:2(S:0-1),fpga:1``, the form of accounting before 21.08."""
        parts = re.sub(r"\([^)]*\)", "", self.text(column)).split(",")
        found = (_DEVICE.fullmatch(part) for part in parts)
        return sum(int(match[1]) for match in found if match)

    def _tres(self, name: str) -> float:
        return self._amounts().get(name, 0.0)

    def _amounts(self) -> dict[str, float]:
        """Return ``cpu=4,mem=8G,gres/gpu=1`` as numbers, memory in MiB."""
        found: dict[str, float] = {}
        for part in filter(None, self.text("AllocTRES").split(",")):
            name, _, value = part.partition("=")
            match = _AMOUNT.fullmatch(value)
            if match is None:
                raise TraceError(
                    f"line {self.line}: AllocTRES is such as cpu=4,mem=8G, not {part[:40]!r}"
                )
            name = name.lower() if name.lower().startswith("gres/gpu") else name
            factor = _MIB[match[2]] if name == "mem" else 1.0
            found[name] = found.get(name, 0.0) + float(match[1]) * factor
        return found


def read_records(
    text: Iterable[str], needed: Sequence[str], zone: tzinfo, omissions: Omissions
) -> Iterator[SacctRecord]:
    """Yield the records of jobs and of parts of jobs, without steps.

    Parameters
    ----------
    needed
        Required columns.
    omissions
        Receives malformed records.

    Raises
    ------
    TraceError
        If a column is missing.
    """
    lines = iter(text)
    header = [name.strip() for name in next(lines, "").rstrip("\r\n").split("|")]
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(
            f"line 1: no column {missing[0]}; the columns are {'|'.join(header)[:200]}"
        )
    if "AllocCPUS" not in header and "AllocTRES" not in header:
        raise TraceError("line 1: no column AllocCPUS, and no AllocTRES; one of them is needed")
    for line, fields in _rows(lines, header, omissions):
        record = SacctRecord(line, dict(zip(header, fields, strict=True)), zone)
        if not record.is_step:
            yield record


def _rows(
    lines: Iterable[str], header: Sequence[str], omissions: Omissions
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of records, including those with line breaks or bars in a text."""
    broken: tuple[int, list[str]] | None = None
    for line, raw in enumerate(lines, start=2):
        if not raw.strip() and broken is None:
            continue
        fields = raw.rstrip("\r\n").split("|")
        if broken is not None:
            start, before = broken
            joined = [*before[:-1], f"{before[-1]}\n{fields[0]}", *fields[1:]]
            is_new = header[0] == "JobID" and _JOB_ID.match(fields[0])
            if not is_new and len(joined) <= len(header) > len(fields):
                broken = (start, joined)
                if len(joined) == len(header):
                    yield start, joined
                    broken = None
                continue
            _leave_out(start, before, header, omissions)
            broken = None
        if len(fields) < len(header):
            broken = (line, fields)
        elif (whole := _without_bars(fields, header)) is not None:
            yield line, whole
        else:
            _leave_out(line, fields, header, omissions)
    if broken is not None:
        _leave_out(*broken, header, omissions)


def _without_bars(fields: list[str], header: Sequence[str]) -> list[str] | None:
    """Return fields by column; None if several columns may contain the bars."""
    more = len(fields) - len(header)
    if not more:
        return fields
    free = [place for place, name in enumerate(header) if name in _FREE]
    if len(free) != 1:
        return None
    (place,) = free
    text = "|".join(fields[place : place + more + 1])
    return [*fields[:place], text, *fields[place + more + 1 :]]


def _leave_out(
    line: int, fields: Sequence[str], header: Sequence[str], omissions: Omissions
) -> None:
    why = f"line {line}: {len(fields)} fields, but {len(header)} columns"
    omissions.fail(line, TraceError(why))


_NEEDED: Final = ("JobID", "Submit", "Start", "End", "State")
_LIMIT: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_GPU: Final = "gpu"
#: The largest plausible number of nodes.
_MOST_NODES: Final = 10**6


@dataclass(frozen=True, slots=True)
class SacctModel:
    """Settings for turning accounting into requests.

    Attributes
    ----------
    step_s
        The step of the grid on which deadlines are computed.
    zone
        Zone of the accounting's times.
    """

    step_s: int
    zone: tzinfo
    slack: Slack = field(default_factory=Slack)


@dataclass(frozen=True, slots=True)
class NodeKind:
    """`count` nodes with one stem; amounts of each in millicores, MiB and units."""

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
    """One job: `share` is its amounts on each of its `width` nodes; times are Unix times."""

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
        If a column is missing, or no job of the records ran.
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
                omissions.add(record.line, f"job {id_} ended in the second in which it began")
            elif (known := jobs.get(id_)) is None:
                jobs[id_] = job
            else:  # requeued: it waited from its first submission to its last start
                last = max(known, job, key=lambda one: one.start_s)
                submitted_s = min(known.submitted_s, job.submitted_s)
                jobs[id_] = replace(last, submitted_s=submitted_s)
    ordered = sorted(jobs.values(), key=lambda job: (job.submitted_s, job.line))
    if not ordered:
        omissions.finish()
        raise TraceError("no job of the file has run")
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
        raise TraceError(f"line {record.line}: {cores} CPUs on {width} nodes is not plausible")
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
    """Return the seconds of ``1-02:00:00``; 0 for ``UNLIMITED`` and similar words."""
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
    """Return the nodes by stem, each with the most resources that jobs used at the same time."""
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


NEEDED: Final = ("JobName", "Start", "End", "State")


def read_slurm(text: Iterable[str], zone: tzinfo) -> RunHistory:
    """Read the completed jobs.

    Parameters
    ----------
    zone
        Zone of the times: sacct writes local times.

    Raises
    ------
    TraceError
        If a column is missing, or no record has the form of sacct's.
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
            # A repeated record is one run.
            key = record.text("JobID") or record.line, record.text("Start"), record.text("End")
            (parts.setdefault(id_, {}) if is_part else runs)[key] = _run(record)
    together = [joined(list(mine.values())) for mine in parts.values()]
    return RunHistory((*runs.values(), *together), omissions.finish())


def _why_not(record: SacctRecord) -> str | None:
    name = record.text("JobName")
    if record.state != "COMPLETED":
        return f"{name} is {record.state}"
    if record.text("Start") == record.text("End"):
        return f"{name} ended in the second in which it began"
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
