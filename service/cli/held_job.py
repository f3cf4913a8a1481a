"""HeldJob: a job that `agenda sbatch` submitted held, and that waits for its reservation."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_demand import (
    JobDemand,
    JobDemandError,
    demand_of,
    fields_of,
)
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.kit.errors import CliError


class HeldJob:
    """A job of Slurm that is not bound to a reservation yet.

    Parameters
    ----------
    id_
        The job id; of a job of several components that of the first.
    process
        The sbatch process that submitted it: with ``--wait`` it ends with the job.

    Attributes
    ----------
    is_promised
        Whether the job has a reservation.
    """

    def __init__(self, id_: int, process: subprocess.Popen[str]) -> None:
        self.id = id_
        self.is_promised = False
        self._process = process
        self._commands = SlurmCommands()

    def demands(self) -> list[JobDemand]:
        """Return the demand of each component of the job, as Slurm reports it: most have one.

        Raises
        ------
        CliError
            If it requests something that no reservation has, or Slurm does not report it.
        """
        try:
            text = self._commands.run("scontrol", "--oneliner", "show", "job", str(self.id))
        except SlurmError as error:
            raise CliError(f"Slurm does not say what job {self.id} is: {error}") from error
        jobs = sorted(fields_of(text), key=lambda job: int(job.get("HetJobOffset", "0")))
        demands: list[JobDemand] = []
        problems: dict[str, None] = {}
        for job in jobs:
            nodes = job.get("NumNodes", "")
            least, _, most = nodes.partition("-")
            if len(jobs) > 1 and most not in ("", least):
                problems[f"--nodes={nodes}: a component has a number of nodes, not a range"] = None
            try:
                demands.append(demand_of(job))
            except JobDemandError as error:
                problems[str(error)] = None
        if problems:
            raise CliError("; ".join(problems))
        return demands

    def promise(self, comment: str, demands: Sequence[JobDemand], seconds: int) -> None:
        """Write the promise into the job; it runs on exactly the promised number of nodes.

        Parameters
        ----------
        demands
            One for each component of the job.
        seconds
            Time limit for each task of an array without one.

        Raises
        ------
        SlurmError
            If Slurm does not accept the change.
        """
        changes = {"comment": comment}
        demand = demands[0]
        if demand.is_array and demand.limit_s is None:
            changes["timelimit"] = str(-(-seconds // 60))
        elif not demand.is_array and len(demands) == 1:  # Slurm refuses it for several components
            changes["numnodes"] = f"{demand.nodes}-{demand.nodes}"
        self._commands.update_job(self.id, **changes)
        self.is_promised = True

    def others(self) -> list[SlurmJob]:
        """Return the jobs that slurmctld knows.

        Raises
        ------
        CliError
            If slurmctld does not list them.
        """
        try:
            return self._commands.jobs()
        except SlurmError as error:
            raise CliError(f"Slurm does not say which jobs there are: {error}") from error

    def cancel(self) -> None:
        """Cancel the job."""
        self._commands.cancel([self.id])
        self._process.kill()

    def wait(self) -> int:
        """Return the exit code of the sbatch process; immediately 0 without ``--wait``."""
        return self._process.wait()


@contextmanager
def held_job(words: Sequence[str]) -> Iterator[HeldJob]:
    """Submit a job held; it is cancelled unless it gets a reservation within the context.

    Raises
    ------
    CliError
        If sbatch does not accept the job. If it did, but its answer was lost, the job is
        cancelled.
    """
    mark = f"agenda submission={os.urandom(8).hex()}"
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            ["sbatch", "--parsable", "--hold", f"--comment={mark}", *words],
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        answer = process.stdout.readline().strip().partition(";")[0]
        id_ = int(answer) if answer.isdecimal() else _quiet_job(process, mark)
        if id_ is None:
            raise CliError(_why_not(process, errors, mark))
        job = HeldJob(id_, process)
        try:
            yield job
        finally:
            if not job.is_promised:
                with suppress(SlurmError):
                    job.cancel()


def _quiet_job(process: subprocess.Popen[str], mark: str) -> int | None:
    """Return the job of an sbatch that succeeded without naming it (--quiet); None if unknown."""
    if process.wait():
        return None
    with suppress(SlurmError):
        for job in SlurmCommands().jobs():
            if job.comment == mark and job.is_open and not job.offset:
                return job.id
    return None


def _why_not(process: subprocess.Popen[str], errors: IO[str], mark: str) -> str:
    """Return the error of sbatch; if it submitted a job nevertheless, cancel that."""
    process.wait()
    errors.seek(0)
    said = errors.read().strip() or f"sbatch ended with {process.returncode} and named no job"
    commands = SlurmCommands()
    try:
        named = (job for job in commands.jobs() if job.comment == mark and job.is_open)
        jobs = [job.id for job in named if not job.offset]
        if jobs:
            commands.cancel(jobs)
            said += f"; job {jobs[0]}, which Slurm had taken nevertheless, was cancelled"
    except SlurmError:
        said += f"; if Slurm took the job, it stays held: look for {mark!r} in comments"
    return said
