"""A group of jobs, before another lane takes one over."""

from __future__ import annotations

from service.commits.changes.commands import Cancellation, QueuedChange, ReservationAnswer
from service.commits.group import Group


def test_a_job_of_which_something_is_in_the_log_stands_in_part() -> None:
    """Another job of the group does not count."""
    jobs = [QueuedChange(Cancellation(id_, 1), 0.0) for id_ in ("one", "other")]
    group = Group(jobs)
    group.drafts()[0].answer = object.__new__(ReservationAnswer)

    assert [group.stands_in_part(job) for job in jobs] == [True, False]
