"""EndingJobs: how jobs have ended whose nodes still clean up after them, by the accounting.

A node that is silent does not finish that; what its job had done would be done again.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.job_history import JobHistory

#: For how long a node may clean up after a job, s, before the accounting is asked how that ended.
#: Each time it does not know, the next question comes twice as late, at most so late.
_CLEAN_S: Final = 2.0
_LONGEST_CLEAN_S: Final = 60.0


class EndingJobs:
    """Asks the accounting for jobs that are ending, ever more seldom.

    Parameters
    ----------
    history
        Of the accounting.
    steady_s
        A clock that nobody sets.
    """

    def __init__(self, history: JobHistory, steady_s: Callable[[], float]) -> None:
        self._history = history
        self._steady_s = steady_s
        #: Of each job: when it is asked for next, and the pause before that, s.
        self._due_s: dict[int, tuple[float, float]] = {}

    def ended_well(self, id_: int) -> SlurmJob | None:
        """Return a job that is ending and has done its work; None where that is not known yet."""
        now_s = self._steady_s()
        due_s, pause_s = self._due_s.setdefault(id_, (now_s + _CLEAN_S, _CLEAN_S))
        if now_s < due_s:
            return None
        job = self._history.get(id_)
        pause_s = min(2 * pause_s, _LONGEST_CLEAN_S)
        self._due_s[id_] = self._steady_s() + pause_s, pause_s
        return job if job is not None and job.state == "COMPLETED" else None

    def keep(self, jobs: Container[int]) -> None:
        """Forget all other jobs."""
        self._due_s = {id_: due for id_, due in self._due_s.items() if id_ in jobs}
