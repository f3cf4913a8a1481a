"""LastJobs: the last jobs of components that were stopped, which may have ended well before that.

What happens between two looks is not known: a component may be stopped that has just done its
work. When it is to be started again, its job has ended well, and is not run a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.executions.assignment import Key


class LastJobs:
    """Remembers jobs of components that were stopped, for as long as slurmctld knows them."""

    def __init__(self) -> None:
        self._jobs: dict[Key, int] = {}
        self._seen: dict[Key, SlurmJob] = {}

    def add(self, key: Key, job: int) -> None:
        """Note the job of a component that is stopped."""
        self._jobs[key] = job
        self._seen.pop(key, None)

    def see(self, jobs: Mapping[int, SlurmJob]) -> None:
        """Take a look in; what slurmctld has forgotten is forgotten."""
        self._jobs = {key: id_ for key, id_ in self._jobs.items() if id_ in jobs}
        self._seen = {key: jobs[id_] for key, id_ in self._jobs.items()}

    def ended_well(
        self,
        orders: Mapping[Key, ComponentOrder],
        standing: Mapping[str, int],
        has_ended_well: Callable[[Key, SlurmJob], bool],
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
        has_ended_well
            Whether a component's job has, as it was seen last.
        """
        found: dict[Key, int] = {}
        for execution in dict.fromkeys(key[0] for key in orders):
            mine = {key: order for key, order in orders.items() if key[0] == execution}
            done = {
                key: self._jobs[key]
                for key in mine
                if key in self._seen and has_ended_well(key, self._seen[key])
            }
            cores = [key for key, order in mine.items() if order.core]
            count = len(cores) + standing.get(execution, 0)
            if cores and (count < mine[cores[0]].cores or not set(cores) <= set(done)):
                self._forget([key for key in self._jobs if key[0] == execution])
            else:
                found |= done
        self._forget(orders)
        return found

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._jobs.pop(key, None)
            self._seen.pop(key, None)
