"""Jobs go to Slurm a few at a time, and each has its own answer."""

from __future__ import annotations

import threading

import pytest

from dispatch.backends.slurm.backend import submit_all
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError


def _job(number: int) -> JobRequest:
    return JobRequest(str(number), "#!/bin/sh\n", "main", "n1", 1, 0, "", "", "/", "/o", "/e")


class _Slurm:
    """Answers a job with its name; refuses some, and is away from one on."""

    def __init__(self, refused: int = -1, away: int = -1, beside: int = 0) -> None:
        self.refused, self.away = refused, away
        self.asked: list[int] = []
        self._together = threading.Barrier(beside) if beside else None

    def submit(self, job: JobRequest) -> int:
        number = int(job.name)
        self.asked.append(number)
        if self._together is not None:
            self._together.wait(300)
        if number == self.refused:
            raise SlurmError("no such node")
        if number == self.away:
            raise SlurmAwayError("sbatch did not answer in 6 s")
        return 100 + number


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_each_job_has_its_number_in_order(count: int) -> None:
    """However they arrive."""
    found = submit_all(_Slurm(), [_job(number) for number in range(count)])
    assert found == [100 + number for number in range(count)]


def test_several_are_on_their_way_at_a_time() -> None:
    """Each of four waits for the others to have come: one after the other would wait for ever."""
    assert submit_all(_Slurm(beside=4), [_job(n) for n in range(4)]) == [100, 101, 102, 103]


def test_a_job_that_is_refused_keeps_no_other_from_running() -> None:
    """Its error stands in its place."""
    found = submit_all(_Slurm(refused=1), [_job(number) for number in range(3)])
    assert found[::2] == [100, 102]
    assert str(found[1]) == "no such node"


def test_once_slurm_is_away_no_more_are_begun() -> None:
    """One at a time here: the rest has the same error and was never sent."""
    slurm = _Slurm(away=1)
    found = submit_all(slurm, [_job(number) for number in range(20)], at_once=1)
    assert slurm.asked == [0, 1]
    assert all(isinstance(one, SlurmAwayError) for one in found[1:])
