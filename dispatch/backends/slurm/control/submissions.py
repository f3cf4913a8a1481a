"""Jobs submitted a few at a time: a tick that starts many does not wait for one after the other.

Every job has its own name, and Slurm runs one job of a name at a time, so that they may arrive in
any order; a job that Slurm took though its answer was lost has no component, and is cancelled at
the next look. Arrays of jobs would be one call, but share one name and one list of nodes, and a
component has its own of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError

#: Most jobs that are submitted at a time: slurmctld takes them one by one.
AT_ONCE: Final = 8


class JobSubmitter(Protocol):
    """Submits one job; calls of several threads do not disturb each other."""

    def submit(self, job: JobRequest) -> int:
        """Return the number of a job."""
        ...


class _Submissions:
    """Submits jobs; once Slurm does not answer one of them, no more are begun."""

    def __init__(self, slurm: JobSubmitter) -> None:
        self._slurm = slurm
        self._away: SlurmAwayError | None = None

    def submit(self, job: JobRequest) -> int | SlurmError:
        if self._away is not None:
            return self._away
        try:
            return self._slurm.submit(job)
        except SlurmAwayError as error:
            self._away = error
            return error
        except SlurmError as error:
            return error


def submit_all(
    slurm: JobSubmitter, jobs: Sequence[JobRequest], at_once: int = AT_ONCE
) -> list[int | SlurmError]:
    """Submit jobs; return the number of each, or why there is none.

    Parameters
    ----------
    at_once
        How many are submitted at a time, at most.

    Returns
    -------
    list
        In the order of `jobs`. Where Slurm does not answer one of them, those not yet begun are
        not submitted, with the same error.
    """
    submissions = _Submissions(slurm)
    if len(jobs) < 2:
        return [submissions.submit(job) for job in jobs]
    with ThreadPoolExecutor(min(at_once, len(jobs)), "agenda-slurm-submit") as pool:
        return list(pool.map(submissions.submit, jobs))
