"""Import Standard Workload Format logs as requests with deadlines and as histories of runs.

A job requests its requested processors for its requested time, one core per processor; if the log
has no request, the used amounts are taken. With gangs (the default) all processors run together:
g = h = processors, lease = requested time. Without, each processor's share is a separate task that
takes the requested time and may start independently. Logs have no deadlines: the model is the
submission, rounded up to a step, plus (1 + slack) of the requested time on the grid, rounded up.

A log has no names. Runs of one executable of a user belong to one job; if the log does not have
the executable, runs that requested the same processors and time do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from service.importers.lines import (
    LARGEST,
    Imported,
    Names,
    Omissions,
    Slack,
    TraceError,
    window_text,
)
from service.importers.runs import FinishedRun, RunHistory, began, held, joined

_COLUMNS: Final = 18
_JOB, _SUBMIT, _WAIT, _RUN, _USED, _ASKED, _TIME = 0, 1, 2, 3, 4, 7, 8
_STATUS, _USER, _EXECUTABLE, _QUEUE = 10, 11, 13, 14
#: Status of a job that failed or was cancelled; 1 is completed, -1 is unknown.
_NOT_WELL: Final = (0, 5)
#: Status of a part of a suspended job; that of its last part is `_LAST_WELL` or `_LAST_FAILED`.
_PART, _LAST_WELL, _LAST_FAILED = 2, 3, 4
#: Header comment -> field of `SwfHeader`.
_HEADERS: Final = {"MaxProcs": "processors", "MaxNodes": "nodes", "UnixStartTime": "start_s"}
_NUMBER: Final = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class SwfModel:
    """Settings for turning a log into requests.

    Attributes
    ----------
    step_s
        The step of the grid on which deadlines are computed.
    gangs
        Whether all processors of a job run together, or each independently.
    rebase
        Whether times count from the first submission, rounded down to a step, or the log's zero.
    """

    step_s: int = 60
    gangs: bool = True
    rebase: bool = True
    slack: Slack = field(default_factory=Slack)


@dataclass(frozen=True, slots=True)
class SwfHeader:
    """The values of the header comments.

    Attributes
    ----------
    processors, nodes
        ``MaxProcs`` and ``MaxNodes``.
    start_s
        ``UnixStartTime``, the zero of the log's times.
    """

    processors: int | None = None
    nodes: int | None = None
    start_s: int | None = None


@dataclass(frozen=True, slots=True)
class _SwfJob:
    line: int
    name: int
    submitted: int
    processors: int
    time_s: int
    user: int
    wait_s: int
    run_s: int


def import_swf(
    text: Iterable[str], model: SwfModel, generator: np.random.Generator, limit: int | None = None
) -> tuple[Imported, SwfHeader]:
    """Read a log into workload lines, in order of submission; also return its header.

    With `SwfModel.rebase` the start in the header is that of the workload.

    Parameters
    ----------
    text
        Lines of the log; those that start with ``;`` are header comments.
    model
        Grid, gangs or tasks, slack.
    generator
        Draws one slack per job, in order of submission.
    limit
        Only the first `limit` jobs.

    Raises
    ------
    TraceError
        If no line has 18 columns of numbers.
    """
    omissions, header = Omissions(), SwfHeader()
    jobs: list[_SwfJob] = []
    for number, raw in enumerate(text, start=1):
        if not raw.strip() or raw.lstrip().startswith(";"):
            header = _header(raw, header)
            continue
        with omissions.reading(number):
            job = _job(raw, number)
            if job.processors < 1 or job.time_s < 1 or job.submitted < 0:
                omissions.add(number, f"job {job.name} requests no processor or no time")
            else:
                jobs.append(job)
    jobs.sort(key=lambda job: (job.submitted, job.line))
    zero = jobs[0].submitted // model.step_s * model.step_s if jobs and model.rebase else 0
    if header.start_s is not None:
        header = replace(header, start_s=header.start_s + zero)
    lines: list[dict[str, object]] = []
    names, last, taken = Names(), 0, 0
    for job in jobs:
        if limit is not None and len(lines) >= limit:
            break
        taken += 1
        line, end = _line(job, job.submitted - zero, model, generator)
        if (why := names.why_not(str(line["id"]), job.line, end)) is not None:
            omissions.add(job.line, why)
            continue
        lines.append(line)
        last = max(last, end)
    skipped = omissions.finish()
    if limit is not None and len(lines) >= limit:
        read = max(job.line for job in jobs[:taken])
        skipped = tuple(one for one in skipped if one.line <= read)
    return Imported(tuple(lines), model.step_s, last, skipped), header


def _row(raw: str, line: int) -> list[float]:
    columns = raw.split()
    if len(columns) < _COLUMNS:
        raise TraceError(f"line {line}: {_COLUMNS} columns, not {len(columns)}")
    try:
        row = [float(column) for column in columns[:_COLUMNS]]
    except ValueError as error:
        raise TraceError(f"line {line}: columns are numbers ({error})") from error
    if not all(abs(value) <= LARGEST for value in row):
        raise TraceError(f"line {line}: columns are numbers up to {LARGEST}")
    return row


def _header(raw: str, header: SwfHeader) -> SwfHeader:
    """Add the value of a comment; notes after a number are ignored: ``64 (32 nodes)``."""
    key, _, value = raw.strip().lstrip("; ").partition(":")
    name = _HEADERS.get(key.strip())
    found = _NUMBER.match(value.strip())
    if name is None or found is None or not 0 < int(found[0]) <= LARGEST:
        return header
    return replace(header, **{name: int(found[0])})


def _job(raw: str, number: int) -> _SwfJob:
    values = [int(value) for value in _row(raw, number)]
    asked, time_s = values[_ASKED], values[_TIME]
    return _SwfJob(
        line=number,
        name=values[_JOB],
        submitted=values[_SUBMIT],
        processors=asked if asked > 0 else values[_USED],
        time_s=time_s if time_s > 0 else values[_RUN],
        user=values[_USER],
        wait_s=values[_WAIT],
        run_s=values[_RUN],
    )


def _line(
    job: _SwfJob, submitted: int, model: SwfModel, generator: np.random.Generator
) -> tuple[dict[str, object], int]:
    alone = -(-job.time_s // model.step_s)
    length = int(-(-alone * (1.0 + model.slack.draw(generator)) // 1))
    end = (-(-submitted // model.step_s) + length) * model.step_s
    atom = {
        "bundle": {"cpu": 1},
        "min": job.processors if model.gangs else 1,
        "max": job.processors,
        "lease": job.time_s,
        "work": job.processors * job.time_s,
    }
    line: dict[str, object] = {
        "id": f"job{job.name}",
        "tenant": f"user{job.user}" if job.user >= 0 else "unknown",
        "submitted": submitted,
        "rdl": window_text(submitted, end, {"atom": atom}),
    }
    if job.wait_s >= 0 and job.run_s > 0:
        start = submitted + job.wait_s
        line["recorded"] = {"start": start, "end": start + job.run_s}
    return line, end


def read_swf_runs(text: Iterable[str]) -> RunHistory:
    """Read the completed jobs; times are instants if the header has UnixStartTime.

    The parts of a suspended job are joined into one run, or ignored if the whole job has a line.

    Raises
    ------
    TraceError
        If no line has 18 columns of numbers.
    """
    runs: list[tuple[float, FinishedRun]] = []
    parts: dict[float, list[tuple[int, float, FinishedRun]]] = {}
    omissions = Omissions()
    header = SwfHeader()
    for line, raw in enumerate(text, start=1):
        if not raw.strip() or raw.lstrip().startswith(";"):
            header = _header(raw, header)
            continue
        with omissions.reading(line):
            row = _row(raw, line)
            status = row[_STATUS]
            width = row[_USED] if row[_USED] > 0 else row[_ASKED]
            if row[_RUN] <= 0 or width <= 0 or status in _NOT_WELL:
                omissions.add(line, f"job {row[0]:g} did not complete")
                continue
            run = _run(row, round(width), header.start_s or 0, line)
            if status in (_PART, _LAST_WELL, _LAST_FAILED):
                parts.setdefault(row[0], []).append((line, status, run))
            else:
                runs.append((row[0], run))
    whole = {job for job, _ in runs}
    for job, mine in parts.items():
        if job in whole:
            continue
        if mine[-1][1] == _LAST_WELL:
            runs.append((job, joined([run for _, _, run in mine])))
        else:
            omissions.add(mine[0][0], f"job {job:g} did not complete")
    found = tuple(run for _, run in runs)
    return RunHistory(found, omissions.finish(), calendar=header.start_s is not None)


def _run(row: Sequence[float], width: int, zero: int, line: int) -> FinishedRun:
    executable = row[_EXECUTABLE]
    name = f"exe{executable:g}" if executable > 0 else f"{row[_ASKED]:g}p-{row[_TIME]:g}s"
    return FinishedRun(
        name,
        f"u{row[_USER]:g}" if row[_USER] >= 0 else "",
        f"q{row[_QUEUE]:g}" if row[_QUEUE] >= 0 else "",
        began(zero + row[_SUBMIT] + max(0.0, row[_WAIT]), line),
        held(row[_RUN], width, line),
    )
