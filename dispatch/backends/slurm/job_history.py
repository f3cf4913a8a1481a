"""JobHistory: ended jobs in Slurm's accounting, queried at most once per snapshot."""

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

#: How far back the first query for ended jobs goes, in minutes.
_HISTORY_MIN: Final = 2 * 24 * 60
#: How late the accounting may learn of a job's end, in minutes: later queries start that long
#: before the last answer. slurmctld queues records while slurmdbd is down.
_LATE_MIN: Final = 60


class AccountReader(Protocol):
    """Reads ended jobs."""

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        """Return a user's jobs that ended since a time in Slurm's syntax."""
        ...


class JobHistory:
    """Ended jobs of one user in the accounting.

    Parameters
    ----------
    commands
        Commands of the Slurm; None if it has no accounting.
    user
        User whose jobs are read.
    steady_s
        Monotonic clock.

    Attributes
    ----------
    is_silent
        Whether the accounting did not answer the last query.
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
        #: Time of the accounting's last answer.
        self._read_s: float | None = None
        self.is_silent = False

    @property
    def exists(self) -> bool:
        """Whether there is an accounting."""
        return self._commands is not None

    def forget(self) -> None:
        """Query again at the next call of `get`: there is a new snapshot."""
        self._is_asked = False

    def get(self, id_: int) -> SlurmJob | None:
        """Return a job that has ended; None if it has not, or the accounting does not know it."""
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
        """Return the jobs that ended in the last two days, by id.

        The first query reads all of them, later ones only those that may be new.

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
    """Return the newest job of each component, without cancelled ones.

    While a job is completing, only the accounting knows how it ended.

    Parameters
    ----------
    key_of_job
        Returns the component of a job, or None for other jobs.
    needs_history
        Whether it is an error if the accounting does not answer; otherwise jobs that slurmctld has
        forgotten are unknown.

    Raises
    ------
    SlurmError
        If slurmctld, or accounting that is needed, does not answer.
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
