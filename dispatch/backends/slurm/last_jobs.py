"""LastJobs: the last jobs of components that were stopped or lost, and may have ended before that.

What happens between two looks is not known: a component may be stopped that has just done its
work. When it is to be started again, its job has ended well, and is not run a second time. While
the accounting does not know yet how it ended, its start waits for some seconds: slurmctld was away,
say, and has not heard from slurmd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.job_history import JobHistory
from dispatch.executions.assignment import Key

#: For how long a start waits until it is known how the last job ended, s. A node that answers has
#: cleaned up by then; one that does not may take minutes, and the work is done again.
LONGEST_WAIT_S: Final = 10.0


class LastJobs:
    """Remembers jobs of components that were stopped or lost, while slurmctld knows them.

    Parameters
    ----------
    is_job_of
        Whether a job is one of a component: a slurmctld that lost its state gives numbers anew.
    history
        Of the accounting. Where there is none no start waits: that a job was cancelled is not known
        before all its processes have ended.
    steady_s
        A clock that nobody sets.
    """

    def __init__(
        self,
        is_job_of: Callable[[Key, SlurmJob], bool],
        history: JobHistory,
        steady_s: Callable[[], float],
    ) -> None:
        self._is_job_of = is_job_of
        self._history = history
        self._steady_s = steady_s
        self._jobs: dict[Key, int] = {}
        self._seen: dict[Key, SlurmJob] = {}
        #: Since when it could be known how each job ended.
        self._wait_since_s: dict[Key, float] = {}

    def add(self, key: Key, job: int) -> None:
        """Note the job of a component that is stopped or lost."""
        self._forget([key])
        self._jobs[key] = job

    def see(self, jobs: Mapping[int, SlurmJob]) -> None:
        """Take a look in; what slurmctld has forgotten is forgotten."""
        now_s = self._steady_s()
        for key, id_ in list(self._jobs.items()):
            if id_ not in jobs or not self._is_job_of(key, jobs[id_]):
                self._forget([key])
                continue
            self._wait_since_s.setdefault(key, now_s)
            if key not in self._seen or self._seen[key].is_open:
                self._seen[key] = jobs[id_]

    def lacks_look(self, keys: Iterable[Key]) -> bool:
        """Return whether any of some components was stopped after the last look."""
        return any(key in self._jobs and key not in self._seen for key in keys)

    def unsure(self, orders: Mapping[Key, ComponentOrder]) -> dict[Key, int]:
        """Return the jobs of what is to wait, for nobody knows yet how they ended.

        Where a core waits all of its execution does, under the same job. None waits for longer
        than `LONGEST_WAIT_S`.

        Parameters
        ----------
        orders
            What is to be started.
        """
        found: dict[Key, int] = {}
        if not self._history.exists:
            return found
        now_s = self._steady_s()
        for key in orders:
            if key not in self._jobs or self._end_of(key) is not None:
                continue
            if now_s - self._wait_since_s.setdefault(key, now_s) < LONGEST_WAIT_S:
                found[key] = self._jobs[key]
        of_core = {key[0]: job for key, job in found.items() if orders[key].core}
        return found | {key: of_core[key[0]] for key in orders if key[0] in of_core}

    def ended_well(
        self, orders: Mapping[Key, ComponentOrder], standing: Mapping[str, int]
    ) -> dict[Key, int]:
        """Return the jobs of components that are to be started and have done their work already.

        Cores hold together: they count where all of them have, or stand. Where they do not, their
        execution begins anew, and what it had done is forgotten.

        Parameters
        ----------
        orders
            What is to be started.
        standing
            How many cores of each execution have a job and are not to be started.
        """
        found: dict[Key, int] = {}
        for execution in dict.fromkeys(key[0] for key in orders):
            mine = {key: order for key, order in orders.items() if key[0] == execution}
            done = {key: self._jobs[key] for key in mine if self._has_ended_well(key)}
            cores = [key for key, order in mine.items() if order.core]
            count = len(cores) + standing.get(execution, 0)
            if cores and (count < mine[cores[0]].cores or not set(cores) <= set(done)):
                self._forget([key for key in self._jobs if key[0] == execution])
            else:
                found |= done
        self._forget(orders)
        return found

    def _has_ended_well(self, key: Key) -> bool:
        end = self._end_of(key)
        return end is not None and end.state == "COMPLETED"

    def _end_of(self, key: Key) -> SlurmJob | None:
        """Return a component's last job as it ended; None where that is not known."""
        job = self._seen.get(key)
        if job is None:
            return None
        if job.is_ending:
            found = self._history.get(job.id)
            if found is not None and self._is_job_of(key, found):
                job = self._seen[key] = found
        return None if job.is_open else job

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            self._jobs.pop(key, None)
            self._seen.pop(key, None)
            self._wait_since_s.pop(key, None)
