"""A component as a Slurm job: its name, its script, and what its end means."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.job_names import comment_of, job_name, limit_comment
from dispatch.backends.slurm.control.records import NodeRights, SlurmJob
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.executions.assignment import Key
from dispatch.executions.events import EventKind
from rdl.resources import Resources

#: What the end of a job means for its component; what is not here is a failure.
_ENDS: Final = {
    "COMPLETED": EventKind.EXITED,
    "NODE_FAIL": EventKind.LOST,
    "BOOT_FAIL": EventKind.LOST,
    "PREEMPTED": EventKind.LOST,
    "REVOKED": EventKind.LOST,
}

_WORDS: Final = {
    "CANCELLED": "cancelled in Slurm",
    "TIMEOUT": "it reached its time limit in Slurm",
    "DEADLINE": "it reached its deadline in Slurm",
    "OUT_OF_MEMORY": "it used more memory than it asked for",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not boot",
    "PREEMPTED": "Slurm preempted it",
}


@dataclass(frozen=True, slots=True)
class ComponentOrder:
    """What a component is to run.

    Attributes
    ----------
    application, tenant
        Name of its application, and its owner.
    command
        For ``/bin/sh``; None where it has none.
    resources, environment
        What it asks for.
    core
        Whether its execution needs it.
    reservation
        The reservation that its execution names, or None.
    cores
        How many components its execution needs, all groups together.
    """

    application: str
    tenant: str
    command: str | None
    resources: Resources
    environment: tuple[tuple[str, str], ...]
    core: bool
    reservation: str | None
    cores: int


def request_of(
    settings: SlurmSettings,
    key: Key,
    machine: str,
    order: ComponentOrder,
    tenure: int,
    rights: NodeRights,
) -> JobRequest:
    """Return the job of a component on a machine."""
    millicores = order.resources.get("cpu", 0)
    gres = ",".join(
        f"{name}:{amount}"
        for name, amount in order.resources.items()
        if name not in ("cpu", "memory") and amount
    )
    said = f"{settings.directory}/{settings.prefix}-%j"
    return JobRequest(
        name=job_name(settings.prefix, key),
        script=_script(key, machine, order),
        partition=settings.promised if rights.own else settings.best_effort,
        node=settings.machines[machine],
        cpus=max(1, -(-millicores // 1000)),
        memory=order.resources.get("memory", 0),
        gres=gres,
        comment=comment_of(tenure, order.reservation),
        directory=settings.directory,
        output=f"{said}.out",
        errors=f"{said}.err",
        reservations=rights.names,
    )


def limited(request: JobRequest, minutes: int) -> JobRequest:
    """Return the job with a time limit that its comment tells of; as it is where that is 0."""
    if not minutes:
        return request
    return replace(request, minutes=minutes, comment=limit_comment(request.comment, minutes))


def _script(key: Key, machine: str, order: ComponentOrder) -> str:
    execution, component, index = key
    given: Mapping[str, str] = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **dict(order.environment),
        "AGENDA_APPLICATION": execution,
        "AGENDA_COMPONENT": component,
        "AGENDA_INDEX": str(index),
        "AGENDA_MACHINE": machine,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    command = shlex.quote(order.command or "true")
    body = ["export AGENDA_RUN=$SLURM_JOB_ID", f"exec /bin/sh -c {command}"]
    return "\n".join(["#!/bin/sh", *lines, *body, ""])


def end_of(job: SlurmJob) -> tuple[EventKind, str]:
    """Return what the end of a job means for its component, and why it ended."""
    kind = _ENDS.get(job.state, EventKind.FAILED)
    if kind is EventKind.EXITED:
        return kind, ""
    if job.state in _WORDS:
        return kind, f"{_WORDS[job.state]} (job {job.id})"
    if os.WIFSIGNALED(job.status):
        return kind, f"ended by signal {os.WTERMSIG(job.status)} (job {job.id})"
    return kind, f"exit code {job.status >> 8} (job {job.id})"


@dataclass(frozen=True, slots=True)
class ComponentJob:
    """The job that a component has.

    Attributes
    ----------
    machine, since_ms
        Where it is, and since when.
    job
        Number of the job.
    asked_s
        When it was submitted, by a clock that nobody sets.
    up
        Whether it was told as started.
    exited
        Whether it is a core that has ended by itself: it keeps its machine until all have.
    core
        Whether its execution needs it.
    limit
        Whether it was given a time limit, for what others have reserved.
    ending
        Whether its node was being cleaned when a new leader found it: the one before may have
        stopped it.
    """

    machine: str
    since_ms: int
    job: int
    asked_s: float
    core: bool
    up: bool = False
    exited: bool = False
    limit: bool = False
    ending: bool = False

    def end(self, job: SlurmJob) -> tuple[EventKind, str]:
        """Return what the end of its job means, and why it ended."""
        kind, detail = end_of(job)
        if self.limit and job.state == "TIMEOUT":
            kind = EventKind.LOST  # its node was to be another's: no fault of the component
        if self.ending and job.state == "CANCELLED":
            kind = EventKind.LOST
        return kind, detail

    def why_not_its_own(self, job: SlurmJob, node: str | None) -> str:
        """Return what an administrator or Slurm has done to its job that makes it another.

        Parameters
        ----------
        job
            As it stands; nothing is said of one that has ended.
        node
            Where it was sent.
        """
        if not job.is_open or job.is_ending:
            return ""
        if job.is_stranded:
            return f"its reservation in Slurm ended before it began (job {job.id})"
        if self.up and not job.is_up:
            return f"it was put back into Slurm's queue (job {job.id})"
        if job.is_up and job.nodes != (node,):
            return f"it was moved to {','.join(job.nodes)} in Slurm (job {job.id})"
        return ""
