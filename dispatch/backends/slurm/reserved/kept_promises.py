"""Work done for promises according to Slurm's accounting: when, how long, and whether in time.

Only the ledger decides whether a promise was kept (`dispatch.accounts.promises`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob


class Verdict(StrEnum):
    """The outcome of the work of a promise.

    ``in time``: every job succeeded before the deadline. ``short``: the jobs got the promised node
    time and needed more. ``late``: neither. ``cancelled``: its owner cancelled a job before the
    deadline, and none failed. ``failed``: a job failed, or others cancelled it, before the
    deadline. ``open``: the deadline is in the future. ``unknown``: the deadline is unknown.
    """

    IN_TIME = "in time"
    SHORT = "short"
    LATE = "late"
    CANCELLED = "cancelled"
    FAILED = "failed"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PromiseRecord:
    """Record of a reservation of the Plan in Slurm's accounting.

    Attributes
    ----------
    reservation, user
        Its id, and the user whose jobs ran for it.
    verdict
        The outcome of its work.
    deadline_s
        Unix time; None if neither the jobs nor the caller give it.
    begun_s, ended_s
        First start and last end of its runs; 0 if there is none yet.
    jobs, runs
        Number of jobs (components, tasks of arrays), and of their runs.
    promised_s, had_s
        Node time that was promised (0 if unknown), and received before the deadline.
    """

    reservation: str
    user: str
    verdict: Verdict
    deadline_s: int | None
    begun_s: int
    ended_s: int
    jobs: int
    runs: int
    promised_s: int
    had_s: int


def reservations_of(runs: Iterable[SlurmJob]) -> dict[str, list[SlurmJob]]:
    """Return the runs by the reservation of the Plan in their comments."""
    found: dict[str, list[SlurmJob]] = defaultdict(list)
    for run in runs:
        id_ = words_of(run).get("reservation", "-")
        if id_ != "-":
            found[id_].append(run)
    return dict(found)


def deadline_of(runs: Iterable[SlurmJob]) -> int | None:
    """Return the deadline in the comments of jobs, as Unix time."""
    said = [_number(words_of(run), "deadline") for run in runs]
    return max(said, default=0) or None


def promise_record(
    reservation: str, runs: Sequence[SlurmJob], deadline_s: int | None, now_s: int
) -> PromiseRecord:
    """Return the record of a reservation's promise from its runs.

    Parameters
    ----------
    runs
        At least one.
    deadline_s, now_s
        Unix times.
    """
    by_job: dict[tuple[str, int], list[SlurmJob]] = defaultdict(list)
    for run in runs:
        # A restarted component is another job of the same name; tasks of an array share a name.
        by_job[run.name, 0 if "tenure" in words_of(run) else run.id].append(run)
    begun = [run for run in runs if run.started_s]
    ends = [run.ends_s for run in begun if not run.is_open]
    promised_s = max(_number(words_of(run), "work") for run in runs)
    until_s = now_s if deadline_s is None else min(deadline_s, now_s)
    had_s = sum(_node_time(run, until_s) for run in begun)
    return PromiseRecord(
        reservation,
        runs[0].user,
        _verdict(by_job, deadline_s, now_s, bool(promised_s) and had_s >= promised_s),
        deadline_s,
        min((run.started_s for run in begun), default=0),
        max(ends, default=0),
        len(by_job),
        len(begun),
        promised_s,
        had_s,
    )


def _verdict(
    by_job: Mapping[tuple[str, int], Sequence[SlurmJob]],
    deadline_s: int | None,
    now_s: int,
    had_all: bool,
) -> Verdict:
    if deadline_s is None:
        return Verdict.UNKNOWN
    ended = [_good_end(runs) for runs in by_job.values()]
    if all(end is not None and end <= deadline_s for end in ended):
        return Verdict.IN_TIME
    if had_all and now_s > deadline_s:
        return Verdict.SHORT
    last = [max(runs, key=lambda run: (run.submitted_s, run.id)) for runs in by_job.values()]
    bad = [run for run in last if run.state in _BAD and run.ends_s <= deadline_s]
    if bad and had_all:
        return Verdict.SHORT
    if bad:
        own = all(run.is_cancelled_by_owner for run in bad)
        return Verdict.CANCELLED if own else Verdict.FAILED
    return Verdict.LATE if now_s > deadline_s else Verdict.OPEN


#: States of a job that failed, or was ended by its user.
_BAD = frozenset({"FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"})


def _good_end(runs: Iterable[SlurmJob]) -> int | None:
    return min((run.ends_s for run in runs if run.state == "COMPLETED"), default=None)


def _node_time(run: SlurmJob, until_s: int) -> int:
    end_s = until_s if run.is_open or not run.ends_s else min(run.ends_s, until_s)
    return len(run.nodes) * max(0, end_s - run.started_s)


def _number(words: Mapping[str, str], name: str) -> int:
    value = words.get(name, "")
    return int(value) if value.isdecimal() else 0
