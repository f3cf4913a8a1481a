"""JobHistory: what Slurm's accounting has of jobs that ended, asked at most once in a look."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.slurm import Slurm
from dispatch.executions.assignment import Key

logger = logging.getLogger("agenda.slurm")

#: How far back the accounting is asked what has ended while no one looked, in minutes.
_HISTORY_MIN: Final = 2 * 24 * 60
#: How late it may hear that a job has ended, in minutes: so far before the last answer each further
#: question goes back. slurmctld keeps for slurmdbd what that cannot take.
_LATE_MIN: Final = 60


class AccountReader(Protocol):
    """Says which jobs have ended."""

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        """Return a user's jobs that ended since a time, in Slurm's words for it."""
        ...


class JobHistory:
    """The jobs of one user that have ended, by the accounting.

    Parameters
    ----------
    commands
        Of the Slurm; None if it keeps no accounting, and nothing is known.
    user
        Whose jobs.
    steady_s
        A clock that no one sets.

    Attributes
    ----------
    is_silent
        Whether the accounting did not answer when it was asked last.
    """

    def __init__(
        self,
        commands: AccountReader | None,
        user: str,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._user = user
        self._steady_s = steady_s
        self._jobs: dict[int, SlurmJob] = {}
        self._is_asked = False
        #: When the accounting answered last.
        self._read_s: float | None = None
        self.is_silent = False

    @property
    def exists(self) -> bool:
        """Whether there is an accounting."""
        return self._commands is not None

    def forget(self) -> None:
        """Ask again at the next question: there has been another look."""
        self._is_asked = False

    def get(self, id_: int) -> SlurmJob | None:
        """Return a job that has ended; None if it has not, or the accounting does not know."""
        if not self._is_asked:
            self._is_asked = True
            try:
                self.read()
                self.is_silent = False
            except SlurmError as error:
                logger.warning("the accounting does not say how jobs ended: %s", error)
                self.is_silent = True
        return self._jobs.get(id_)

    def read(self) -> dict[int, SlurmJob]:
        """Return the jobs that ended in the last two days by number.

        The first question asks for all of them, each further one for what may be new.

        Raises
        ------
        SlurmError
            If the accounting does not answer.
        """
        if self._commands is None:
            return {}
        now_s = self._steady_s()
        minutes = _HISTORY_MIN
        if self._read_s is not None:
            minutes = min(minutes, math.ceil((now_s - self._read_s) / 60) + _LATE_MIN)
        ended = self._commands.ended_jobs(self._user, f"now-{minutes}minutes")
        self._read_s = now_s
        self._jobs |= {job.id: job for job in ended}
        newest_s = max((job.ends_s for job in self._jobs.values()), default=0)
        self._jobs = {
            id_: job
            for id_, job in self._jobs.items()
            if not job.is_open and job.ends_s >= newest_s - 60 * _HISTORY_MIN
        }
        return dict(self._jobs)


def former_jobs(
    slurm: Slurm,
    history: JobHistory,
    key_of_job: Callable[[SlurmJob], Key | None],
    *,
    needs_history: bool,
) -> dict[Key, SlurmJob]:
    """Return the newest job of each component; those cancelled are as if they never were.

    How one has ended whose node is still being cleaned the accounting alone can tell.

    Parameters
    ----------
    key_of_job
        The component of a job, None if it is a stranger's.
    needs_history
        Whether a silent accounting is an error; else jobs that slurmctld has forgotten are not
        known.

    Raises
    ------
    SlurmError
        If slurmctld does not answer, or the accounting that is needed does not.
    """
    try:
        jobs = history.read()
    except SlurmError as error:
        if needs_history:
            raise
        logger.warning("jobs that slurmctld has forgotten are not known: %s", error)
        jobs = {}
    for id_, job in slurm.look().jobs.items():
        end = jobs.get(id_)
        if job.is_ending and end is not None and key_of_job(end) == key_of_job(job):
            job = replace(job, state=end.state, status=end.status)
        jobs[id_] = job
    found: dict[Key, SlurmJob] = {}
    for id_ in sorted(jobs):
        key = key_of_job(jobs[id_])
        if key is not None:
            found[key] = jobs[id_]
    return {key: job for key, job in found.items() if job.state != "CANCELLED"}
