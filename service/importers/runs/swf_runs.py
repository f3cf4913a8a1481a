"""Finished jobs of a log in the Standard Workload Format.

A log has no names. Runs of one executable of a user are of one job; where the log does not say
which it was, those that asked for the same processors and time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.importers.lines import LARGEST, Skipped, TraceError
from service.importers.runs.finished_run import FinishedRun, RunHistory, began, held

_COLUMNS: Final = 18
_SUBMIT, _WAIT, _RUN, _USED, _ASKED, _TIME = 1, 2, 3, 4, 7, 8
_STATUS, _USER, _EXECUTABLE, _QUEUE = 10, 11, 13, 14
#: Of a job that failed or was cancelled; 1 is completed, -1 is unknown, and others are parts of it.
_NOT_WELL: Final = (0, 5)


def read_swf_runs(text: Iterable[str]) -> RunHistory:
    """Read the jobs that completed; instants where the header has UnixStartTime.

    Raises
    ------
    TraceError
        If a line has fewer than 18 columns, or one of them is not a number.
    """
    runs: list[FinishedRun] = []
    skipped: list[Skipped] = []
    zero: int | None = None
    for line, raw in enumerate(text, start=1):
        if not raw.strip():
            continue
        if raw.lstrip().startswith(";"):
            zero = _zero(raw, zero)
            continue
        row = _row(raw, line)
        width = row[_USED] if row[_USED] > 0 else row[_ASKED]
        if row[_RUN] <= 0 or width <= 0 or row[_STATUS] in _NOT_WELL:
            skipped.append(Skipped(line, f"job {row[0]:g} did not complete"))
            continue
        start = (zero or 0) + row[_SUBMIT] + max(0.0, row[_WAIT])
        executable = row[_EXECUTABLE]
        name = f"exe{executable:g}" if executable > 0 else f"{row[_ASKED]:g}p-{row[_TIME]:g}s"
        runs.append(
            FinishedRun(
                name,
                f"u{row[_USER]:g}" if row[_USER] >= 0 else "",
                f"q{row[_QUEUE]:g}" if row[_QUEUE] >= 0 else "",
                began(start, line),
                held(row[_RUN], round(width), line),
            )
        )
    return RunHistory(tuple(runs), tuple(skipped), calendar=zero is not None)


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
