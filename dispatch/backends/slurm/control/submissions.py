"""Concurrent submission of jobs, so that a tick does not submit them one by one.

Every job has its own name, and Slurm runs one job of a name at a time, so that they may arrive in
any order; a job that Slurm accepted though its answer was lost has no component, and is cancelled
at the next snapshot. A job array would be one call, but its tasks share one name and one node list,
and each component has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError

#: Largest number of concurrent submissions: slurmctld handles them one by one.
AT_ONCE: Final = 8


class JobSubmitter(Protocol):
    """Submits one job; thread-safe."""

    def submit(self, job: JobRequest) -> int:
        """Submit a job; return its id."""
        ...


class _Submissions:
    """Submits jobs; once Slurm does not answer one, no more are submitted."""

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
    """Submit jobs; return the id or the error of each.

    Parameters
    ----------
    at_once
        Largest number of concurrent submissions.

    Returns
    -------
    list
        In the order of `jobs`. If Slurm does not answer one of them, the remaining ones are not
        submitted and get the same error.
    """
    submissions = _Submissions(slurm)
    if len(jobs) < 2:
        return [submissions.submit(job) for job in jobs]
    with ThreadPoolExecutor(min(at_once, len(jobs)), "agenda-slurm-submit") as pool:
        return list(pool.map(submissions.submit, jobs))
