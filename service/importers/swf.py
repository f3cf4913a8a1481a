"""Standard Workload Format logs as requests with deadlines.

A job asks for its requested processors for its requested time, one core a processor; where a log
has no request, what was used stands in. With gangs (the default) all processors run together:
g = h = processors, lease = requested time. Without, each processor's share is a task of its own
that takes the requested time and may start by itself. Deadlines are not in any log: the model is
submission, rounded up to a step, plus (1 + slack) of the requested time on the grid, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from service.importers.lines import (
    LARGEST,
    Imported,
    Names,
    Skipped,
    Slack,
    TraceError,
    window_text,
)

_COLUMNS = 18
_JOB, _SUBMIT, _RUN, _USED_PROCS = 0, 1, 3, 4
_ASKED_PROCS, _ASKED_TIME, _USER = 7, 8, 11


@dataclass(frozen=True, slots=True)
class SwfModel:
    """How a log becomes requests.

    Attributes
    ----------
    step_s
        The grid that deadlines are computed on.
    gangs
        All processors of a job together, or each by itself.
    rebase
        Count times from the first submission, rounded down to a step, instead of the log's zero.
    """

    step_s: int = 60
    gangs: bool = True
    rebase: bool = True
    slack: Slack = field(default_factory=Slack)


@dataclass(frozen=True, slots=True)
class SwfHeader:
    """What the header comments say, where they do."""

    processors: int | None = None


@dataclass(frozen=True, slots=True)
class _SwfJob:
    name: int
    submitted: int
    processors: int
    time_s: int
    user: int


def import_swf(
    text: Iterable[str], model: SwfModel, generator: np.random.Generator, limit: int | None = None
) -> tuple[Imported, SwfHeader]:
    """Read a log into workload lines; also return what its header says.

    Parameters
    ----------
    text
        Lines of the log; those that start with ``;`` are header comments.
    model
        Grid, gangs or tasks, slack.
    generator
        Draws one slack a job, in order of the log.
    limit
        Only the first so many jobs.

    Raises
    ------
    TraceError
        If a line has fewer than 18 columns, or one of those read is not a number.
    """
    lines: list[dict[str, object]] = []
    skipped: list[Skipped] = []
    header = SwfHeader()
    zero: int | None = None
    names, last = Names(), 0
    for number, raw in enumerate(text, start=1):
        if limit is not None and len(lines) >= limit:
            break
        if not raw.strip() or raw.lstrip().startswith(";"):
            header = _header(raw, header)
            continue
        job = _job(raw, number)
        if job.processors < 1 or job.time_s < 1 or job.submitted < 0:
            skipped.append(Skipped(number, f"job {job.name} asks for no processor or no time"))
            continue
        if zero is None:
            zero = job.submitted // model.step_s * model.step_s if model.rebase else 0
        line, end = _line(job, job.submitted - zero, model, generator)
        if (why := names.why_not(str(line["id"]), number, end)) is not None:
            skipped.append(Skipped(number, why))
            continue
        lines.append(line)
        last = max(last, end)
    return Imported(tuple(lines), model.step_s, last, tuple(skipped)), header


def _header(raw: str, header: SwfHeader) -> SwfHeader:
    key, _, value = raw.strip().lstrip("; ").partition(":")
    if key.strip() == "MaxProcs" and value.strip().isdigit():
        return SwfHeader(int(value))
    return header


def _job(raw: str, number: int) -> _SwfJob:
    columns = raw.split()
    if len(columns) < _COLUMNS:
        raise TraceError(f"line {number}: {_COLUMNS} columns, not {len(columns)}")
    try:
        values = [int(float(column)) for column in columns[:_COLUMNS]]
    except (ValueError, OverflowError) as error:
        raise TraceError(f"line {number}: columns are numbers ({error})") from error
    if max(values) > LARGEST:
        raise TraceError(f"line {number}: columns are numbers up to {LARGEST}, not {max(values)}")
    asked, time_s = values[_ASKED_PROCS], values[_ASKED_TIME]
    return _SwfJob(
        name=values[_JOB],
        submitted=values[_SUBMIT],
        processors=asked if asked > 0 else values[_USED_PROCS],
        time_s=time_s if time_s > 0 else values[_RUN],
        user=values[_USER],
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
        "creditable": True,
    }
    return line, end
