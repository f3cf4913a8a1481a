"""JobHistory: what Slurm's accounting has of jobs that ended, asked at most once in a look."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob

logger = logging.getLogger("agenda.slurm")

#: How far back the accounting is asked what has ended while nobody looked.
_HISTORY: Final = "now-2days"


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
        Of the Slurm; None where it keeps no accounting, and nothing is known.
    user
        Whose jobs.

    Attributes
    ----------
    is_silent
        Whether the accounting did not answer when it was asked last.
    """

    def __init__(self, commands: AccountReader | None, user: str) -> None:
        self._commands = commands
        self._user = user
        self._jobs: dict[int, SlurmJob] | None = None
        self.is_silent = False

    @property
    def exists(self) -> bool:
        """Whether there is an accounting."""
        return self._commands is not None

    def forget(self) -> None:
        """Ask anew at the next question: there has been another look."""
        self._jobs = None

    def get(self, id_: int) -> SlurmJob | None:
        """Return a job that has ended; None where it has not, or the accounting does not know."""
        if self._jobs is None:
            try:
                self._jobs = self.read()
                self.is_silent = False
            except SlurmError as error:
                logger.warning("the accounting does not say how jobs ended: %s", error)
                self._jobs = {}
                self.is_silent = True
        return self._jobs.get(id_)

    def read(self) -> dict[int, SlurmJob]:
        """Return the jobs that ended in the last two days by number.

        Raises
        ------
        SlurmError
            If the accounting does not answer.
        """
        if self._commands is None:
            return {}
        ended = self._commands.ended_jobs(self._user, _HISTORY)
        return {job.id: job for job in ended if not job.is_open}
