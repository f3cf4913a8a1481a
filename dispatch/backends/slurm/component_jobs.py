"""A component as a Slurm job: its name, script and requested resources."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.job_names import comment_of, job_name, limit_comment
from dispatch.backends.slurm.control.records import NodeRights
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.job_logs import log_paths
from dispatch.executions.assignment import Key
from rdl.resources import Resources


@dataclass(frozen=True, slots=True)
class ComponentOrder:
    """Description of the component to run.

    Attributes
    ----------
    application, tenant
        Name of its application, and its owner.
    command
        Command for ``/bin/sh``; None if it has none.
    resources, environment
        Requested resources, and environment variables.
    core
        Whether its execution needs it.
    reservation
        The reservation that its execution names, or None.
    cores
        Number of components its execution needs, over all groups.
    ports
        Its ports on its node.
    """

    application: str
    tenant: str
    command: str | None
    resources: Resources
    environment: tuple[tuple[str, str], ...]
    core: bool
    reservation: str | None
    cores: int
    ports: tuple[int, ...] = ()


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
    countable = [
        (f"{name}:{amount}", name in settings.licenses)
        for name, amount in order.resources.items()
        if name not in ("cpu", "memory") and amount
    ]
    gres, licenses = (
        ",".join(words for words, is_license in countable if is_license is wanted)
        for wanted in (False, True)
    )
    output, errors = log_paths(settings, key, machine)
    return JobRequest(
        name=job_name(settings.prefix, key),
        script=_script(key, machine, order),
        partition=settings.promised if rights.own else settings.best_effort,
        node=settings.machines[machine],
        cpus=max(1, -(-millicores // 1000)),
        memory=order.resources.get("memory", 0),
        gres=gres,
        comment=comment_of(tenure, order.reservation, order.ports),
        directory=settings.directory,
        output=output,
        errors=errors,
        reservations=rights.names,
        licenses=licenses,
    )


def limited(request: JobRequest, minutes: int) -> JobRequest:
    """Return the job with a time limit that is also in its comment; unchanged if 0."""
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
