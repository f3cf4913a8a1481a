"""DoubtfulRuns: runs that were stopped though nobody knows whether they ever began.

A slurmd that was killed before it read that it should start a job is back a little later; until
then slurmctld says that the job runs (see `vanished_jobs`). Where the job was stopped meanwhile,
nothing can be asked of it any more; but since when its slurmd runs tells that it was there before.
"""

from __future__ import annotations

from typing import NamedTuple

from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.assignment import Key


class LastRun(NamedTuple):
    """A run that was stopped while Slurm said that it ran.

    Attributes
    ----------
    key, machine, since_ms
        Its component, and where it was since when.
    job, node
        In Slurm.
    sure_s
        Since when the slurmd ran that was last asked and had the job, Unix time; 0 for none.
    """

    key: Key
    machine: str
    since_ms: int
    job: int
    node: str
    sure_s: int


class DoubtfulRuns:
    """Judges stopped runs by the first look at which their node answers."""

    def __init__(self) -> None:
        self._runs: list[LastRun] = []

    def add(self, run: LastRun) -> None:
        """Note a run that is stopped."""
        self._runs.append(run)

    def void(self, look: Look) -> list[LastRun]:
        """Return those of which nobody knows that they ran: their slurmd began after them.

        A slurmctld that began anew does not know since when a slurmd runs until it has heard of it.
        """
        found: list[LastRun] = []
        waiting: list[LastRun] = []
        for run in self._runs:
            job, node = look.jobs.get(run.job), look.nodes.get(run.node)
            if job is None or node is None:
                continue
            if not node.is_up or not node.answers or not node.begun_s:
                waiting.append(run)
            elif job.started_s < node.begun_s != run.sure_s:
                found.append(run)
        self._runs = waiting
        return found
