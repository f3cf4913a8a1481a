"""What Slurm has of the jobs of leaders before this one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.slurm import Slurm
from dispatch.backends.slurm.job_history import JobHistory
from dispatch.executions.assignment import Key

logger = logging.getLogger("agenda.slurm")


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
        The component of a job, None where it is a stranger's.
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
