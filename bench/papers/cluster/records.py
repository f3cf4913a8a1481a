"""Records of simulated jobs, flat, in the columns that evalys and Batsim read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import TextIO

from bench.papers.cluster.job_progress import JobOutcome, RayonRun
from bench.papers.cluster.simulator import SimulatedRun, SubmissionOutcome

COMPLETED = "COMPLETED_SUCCESSFULLY"
REJECTED = "REJECTED"
#: The run was over before the job was.
UNFINISHED = "UNFINISHED"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One line of ``jobs.csv``; times in seconds, empty if the job never ran.

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


def records_of(run: SimulatedRun, workload: str) -> list[JobRecord]:
    """Return one record a submission, in order of submission."""
    return [_record(outcome, workload) for outcome in run.outcomes]


def rayon_records_of(run: RayonRun, workload: str) -> list[JobRecord]:
    """Return one record a job of Rayon's workloads, in order of submission."""
    return [_rayon_record(outcome, workload) for outcome in run.outcomes]


class JobsFile:
    """``jobs.csv`` of many runs, one after the other; `workload_name` distinguishes them."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def write(self, records: Iterable[JobRecord]) -> None:
        """Append the records of one run; when it returns, they are with the operating system.

        Raises
        ------
        OSError
            If they cannot be written; it names the file.
        """
        try:
            for record in records:
                self._writer.writerow("" if value is None else value for value in astuple(record))
            self._file.flush()
        except OSError as error:
            error.filename = error.filename or getattr(self._file, "name", None)
            raise


def _record(outcome: SubmissionOutcome, workload: str) -> JobRecord:
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
        waiting_time=float(outcome.queuing_time) if ran else None,
        turnaround_time=turnaround,
        stretch=None if turnaround is None else turnaround / float(submission.run),
        # The simulated pool is one: which machine held what is not its matter.
        allocated_resources="",
        metadata=json.dumps(about, separators=(",", ":")),
    )


def _rayon_record(outcome: JobOutcome, workload: str) -> JobRecord:
    job, began, ended = outcome.job, outcome.began_s, outcome.ended_s
    alone = sum(stage.alone_s for stage in job.stages)
    turnaround = None if ended is None else ended - job.at_s
    state = COMPLETED if ended is not None else UNFINISHED if outcome.accepted else REJECTED
    about = {
        "tenant": job.tenant,
        "deadline": job.deadline_s,
        "below": outcome.below_s,
        "requeued": outcome.requeued,
    }
    return JobRecord(
        job_id=job.name,
        workload_name=workload,
        profile=job.kind,
        submission_time=job.at_s,
        requested_number_of_resources=max(stage.tasks for stage in job.stages),
        requested_time=alone,
        success=int(ended is not None),
        final_state=state,
        starting_time=began,
        execution_time=None if ended is None or began is None else ended - began,
        finish_time=ended,
        waiting_time=None if began is None else began - job.at_s,
        turnaround_time=turnaround,
        stretch=None if turnaround is None else turnaround / alone,
        # Containers are the same and move from job to job every second.
        allocated_resources="",
        metadata=json.dumps(about, separators=(",", ":")),
    )
