"""VanishedJobs: jobs that Slurm says run though nothing of them is left on their node.

slurmctld starts a job by one message to slurmd. Where slurmd is killed before it has read that, or
with its node and all that runs there, and is back before it counts as down, slurmctld goes on
saying that the job runs, for minutes (22.05: until the node reports again). Who starts anew shows
it in the time since which its slurmd runs; then slurmd itself is asked (``sstat``), once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.slurm import Look

#: Pause between two questions, s: a job that is missing in two, and runs by the look, is gone.
_PAUSE_S: Final = 1.0

#: Most jobs that one question names; half as many after one that was not answered in time.
_MOST: Final = 200


class StepReader(Protocol):
    """Says which jobs have processes."""

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        """Return whether batch scripts have processes on their nodes; left out where unknown."""
        ...


class VanishedJobs:
    """Finds jobs of which nothing is left, among those whose slurmd began after them.

    Parameters
    ----------
    commands
        Of the Slurm.
    steady_s
        A clock that nobody sets.
    """

    def __init__(self, commands: StepReader, steady_s: Callable[[], float]) -> None:
        self._commands = commands
        self._steady_s = steady_s
        #: Since when the slurmd of each job's node ran when it was found to have processes.
        self._sure: dict[int, int] = {}
        self._missing: set[int] = set()
        self._asked_s = -_PAUSE_S
        self._most = _MOST
        #: The last job of the question before.
        self._last = 0

    def among(self, ids: Iterable[int], look: Look) -> frozenset[int]:
        """Return those of some jobs that have vanished; Slurm is asked where that is not sure."""
        begun_s = {id_: _begun_s(id_, look) for id_ in ids}
        self._sure = {id_: at_s for id_, at_s in self._sure.items() if id_ in begun_s}
        self._missing &= set(begun_s)
        open_ids = [id_ for id_, at_s in begun_s.items() if at_s and self._sure.get(id_, 0) != at_s]
        now_s = self._steady_s()
        if not open_ids or now_s - self._asked_s < _PAUSE_S:
            return frozenset()
        asked = self._next_of(open_ids)
        try:
            found = self._commands.jobs_with_processes(asked)
        except SlurmError:
            self._most = max(1, len(asked) // 2)
            return frozenset()  # nobody says what is left
        finally:
            self._asked_s = self._steady_s()
        self._most = min(2 * self._most, _MOST)
        self._sure |= {id_: begun_s[id_] for id_ in asked if found.get(id_)}
        absent = {id_ for id_ in asked if found.get(id_) is False}
        gone = absent & self._missing
        self._missing = (self._missing - set(asked)) | (absent - gone)
        return frozenset(gone)

    def sure_s(self, id_: int) -> int:
        """Return since when the slurmd ran that was last asked and had a job; 0 for none."""
        return self._sure.get(id_, 0)

    def _next_of(self, ids: Iterable[int]) -> list[int]:
        """Return the jobs that are asked for next: all have their turn."""
        turn = sorted(ids, key=lambda id_: (id_ <= self._last, id_))[: self._most]
        self._last = turn[-1]
        return turn


def _begun_s(id_: int, look: Look) -> int:
    """Return since when the slurmd of a job's node runs, where that is after its start, else 0."""
    job = look.jobs.get(id_)
    if job is None or not job.is_up or len(job.nodes) != 1:
        return 0
    node = look.nodes.get(job.nodes[0])
    if node is None or not node.is_up:
        return 0
    return node.begun_s if node.begun_s > job.started_s else 0
