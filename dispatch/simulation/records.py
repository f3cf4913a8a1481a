"""Records of simulated jobs, flat, in the columns that evalys and Batsim read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from dispatch.simulation.cluster.simulator import Outcome, Run

COMPLETED = "COMPLETED_SUCCESSFULLY"
REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One line of ``jobs.csv``; times in seconds, empty where the job never ran.

    Resources are counted in components; `metadata` is JSON.
    """

    job_id: str
    workload_name: str
    profile: str
    submission_time: float
    requested_number_of_resources: int
    requested_time: float
    success: int
    final_state: str
    starting_time: float | None
    execution_time: float | None
    finish_time: float | None
    waiting_time: float | None
    turnaround_time: float | None
    stretch: float | None
    allocated_resources: str
    metadata: str


COLUMNS = tuple(column.name for column in fields(JobRecord))


def records_of(run: Run, workload: str) -> list[JobRecord]:
    """Return one record a submission, in order of submission."""
    return [_record(outcome, workload) for outcome in run.outcomes]


def write_jobs(records: Iterable[JobRecord], path: str | Path) -> None:
    """Write ``jobs.csv``."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in records:
            writer.writerow("" if value is None else value for value in astuple(record))


def _record(outcome: Outcome, workload: str) -> JobRecord:
    submission = outcome.submission
    claim = submission.claim
    core = sum(part.count for part in claim.core)
    elastic = sum(part.count for part in claim.elastic)
    ran = outcome.started is not None and outcome.ended is not None
    started = None if outcome.started is None else float(outcome.started)
    ended = None if outcome.ended is None else float(outcome.ended)
    turnaround = float(outcome.turnaround) if ran else None
    about = {"label": submission.label, "core": core, "elastic": elastic}
    return JobRecord(
        job_id=claim.name,
        workload_name=workload,
        profile=submission.profile,
        submission_time=float(submission.at),
        requested_number_of_resources=core + elastic,
        requested_time=float(submission.run),
        success=int(ran),
        final_state=COMPLETED if ran else REJECTED,
        starting_time=started,
        execution_time=ended - started if started is not None and ended is not None else None,
        finish_time=ended,
        waiting_time=float(outcome.queued) if ran else None,
        turnaround_time=turnaround,
        stretch=None if turnaround is None else turnaround / float(submission.run),
        # The simulated pool is one: which machine held what is not its matter.
        allocated_resources="",
        metadata=json.dumps(about, separators=(",", ":")),
    )
