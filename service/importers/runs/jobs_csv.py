"""The jobs.csv of `python -m bench.papers --jobs`, in columns that evalys and Batsim read too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from service.importers.lines import Omissions, TraceError
from service.importers.runs.finished_run import FinishedRun, RunHistory, began, held
from service.importers.stages import number, read_rows

COLUMNS: Final = (
    "job_id", "requested_number_of_resources", "success", "starting_time", "execution_time",
)  # fmt: skip


def read_jobs_csv(text: Iterable[str]) -> RunHistory:
    """Read the jobs that ended well; times count from the zero of the trace.

    Raises
    ------
    TraceError
        If a column is missing, or no record can be read.
    """
    runs: list[FinishedRun] = []
    omissions = Omissions()
    for line, row in read_rows(text, COLUMNS, omissions):
        with omissions.reading(line):
            start, seconds = number(row, "starting_time", line), number(row, "execution_time", line)
            if row["success"] not in ("1", "True", "true") or start is None or not seconds:
                omissions.add(line, f"job {row['job_id']} did not end well")
                continue
            width = number(row, "requested_number_of_resources", line) or 0
            runs.append(
                FinishedRun(
                    row["job_id"],
                    _tenant(row, line),
                    row.get("workload_name") or "",
                    began(start, line),
                    held(seconds, round(width), line),
                )
            )
    return RunHistory(tuple(runs), omissions.finish(), calendar=False)


def _tenant(row: Mapping[str, str], line: int) -> str:
    """Return the tenant that `metadata` names, where it does."""
    raw = row.get("metadata") or "{}"
    try:
        about = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"line {line}: metadata is a JSON object, not {raw[:40]!r}") from error
    return str(about.get("tenant", "")) if isinstance(about, dict) else ""
