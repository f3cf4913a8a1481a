"""A group of jobs, before another lane takes one over."""

from __future__ import annotations

from service.commits.commands import Cancellation, ReservationAnswer
from service.commits.job import Job


def test_a_job_of_which_something_is_in_the_log_is_partly_granted() -> None:
    """Another job does not count."""
    jobs = [Job(Cancellation(id_, 1), 0.0) for id_ in ("one", "other")]
    jobs[0].changes[0].answer = object.__new__(ReservationAnswer)

    assert [job.is_partly_granted for job in jobs] == [True, False]
