"""Finished jobs of a log in the Standard Workload Format.

A log has no names. Runs of one executable of a user are of one job; where the log does not say
which it was, those that asked for the same processors and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from service.importers.lines import LARGEST, Omissions, TraceError
from service.importers.runs.finished_run import FinishedRun, RunHistory, began, held, joined

_COLUMNS: Final = 18
_SUBMIT, _WAIT, _RUN, _USED, _ASKED, _TIME = 1, 2, 3, 4, 7, 8
_STATUS, _USER, _EXECUTABLE, _QUEUE = 10, 11, 13, 14
#: Of a job that failed or was cancelled; 1 is completed, -1 is unknown.
_NOT_WELL: Final = (0, 5)
#: Of a part of a job that was suspended; its last is `_LAST_WELL` or `_LAST_FAILED`.
_PART, _LAST_WELL, _LAST_FAILED = 2, 3, 4


def read_swf_runs(text: Iterable[str]) -> RunHistory:
    """Read the jobs that completed; instants where the header has UnixStartTime.

    The parts of a job that was suspended are one run, and nothing more where the job has a line of
    its own.

    Raises
    ------
    TraceError
        If no line has 18 columns of numbers.
    """
    runs: list[tuple[float, FinishedRun]] = []
    parts: dict[float, list[tuple[int, float, FinishedRun]]] = {}
    omissions = Omissions()
    zero: int | None = None
    for line, raw in enumerate(text, start=1):
        if not raw.strip():
            continue
        if raw.lstrip().startswith(";"):
            zero = _zero(raw, zero)
            continue
        with omissions.reading(line):
            row = _row(raw, line)
            status = row[_STATUS]
            width = row[_USED] if row[_USED] > 0 else row[_ASKED]
            if row[_RUN] <= 0 or width <= 0 or status in _NOT_WELL:
                omissions.add(line, f"job {row[0]:g} did not complete")
                continue
            run = _run(row, round(width), zero or 0, line)
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
    return RunHistory(found, omissions.finish(), calendar=zero is not None)


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


def _zero(raw: str, known: int | None) -> int | None:
    key, _, value = raw.strip().lstrip("; ").partition(":")
    found = key.strip() == "UnixStartTime" and value.strip().isdecimal()
    return int(value) if found and int(value) > 0 else known


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
