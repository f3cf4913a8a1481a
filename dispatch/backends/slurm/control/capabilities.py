"""Capabilities of a Slurm, checked at the start; everything missing is reported together."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dispatch.backends.slurm.control.amounts import seconds_of
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.settings import SlurmSettings

logger = logging.getLogger("agenda.slurm")

#: Required commands.
COMMANDS: Final = ("squeue", "sinfo", "sbatch", "scancel", "scontrol")

#: How far ahead the test reservation is that checks the permission to make reservations.
_FAR_S: Final = 365 * 86_400


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a Slurm.

    Attributes
    ----------
    version
        Version of slurmctld.
    accounting
        Whether the accounting keeps ended jobs that slurmctld has forgotten.
    yielding
        Partitions whose jobs promised work preempts.
    exempt_s
        How long a job in these partitions runs before it may be preempted.
    licenses
        Slurm's total of each licence in the settings.
    warnings
        Limitations of the setup, for the log.
    """

    version: str
    accounting: bool
    yielding: frozenset[str] = frozenset()
    exempt_s: int = 0
    licenses: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def find_capabilities(settings: SlurmSettings, commands: SlurmCommands) -> Capabilities:
    """Check a Slurm.

    Raises
    ------
    SlurmAwayError
        If it does not answer.
    SlurmError
        With everything that is missing, and how to fix it.
    """
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise SlurmError(
            f"no command {', '.join(missing)} here; install Slurm's client programs "
            "(Debian: slurm-client)"
        )
    configuration = commands.configuration()
    problems = [*_partition_problems(settings, commands), *_node_problems(settings, commands)]
    problems += _permission_problems(settings, commands)
    licenses = commands.licenses() if settings.licenses else {}
    problems += _license_problems(settings, licenses)
    if problems:
        raise SlurmError("\n".join(problems))
    store = configuration.get("AccountingStorageType", "")
    accounting = "slurmdbd" in store and shutil.which("sacct") is not None
    partitions = commands.partitions()
    return Capabilities(
        configuration.get("SLURM_VERSION", "unknown"),
        accounting,
        _yielding(configuration, partitions, settings.promised),
        seconds_of(configuration.get("PreemptExemptTime", "")) or 0,
        {name: licenses[name] for name in settings.licenses},
        (
            *_warnings(configuration, accounting),
            *_limit_warnings(settings, partitions),
        ),
    )


def _yielding(
    configuration: Mapping[str, str], partitions: Mapping[str, Mapping[str, str]], promised: str
) -> frozenset[str]:
    """Return the partitions whose jobs are preempted by those of the promised partition."""
    if configuration.get("PreemptType", "") != "preempt/partition_prio":
        return frozenset()

    def tier(name: str) -> int:
        return int(partitions[name].get("PriorityTier", 0) or 0)

    return frozenset(
        name
        for name, fields in partitions.items()
        if tier(name) < tier(promised) and fields.get("PreemptMode", "OFF").upper() != "OFF"
    )


def _partition_problems(settings: SlurmSettings, commands: SlurmCommands) -> Iterator[str]:
    there = commands.partitions()
    for key, name in (("promised", settings.promised), ("best_effort", settings.best_effort)):
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            yield f"{key} = {name!r}: Slurm has no such partition; it has {known}"
    tiers = [
        int(there.get(name, {}).get("PriorityTier", 0) or 0)
        for name in (settings.promised, settings.best_effort)
    ]
    if settings.promised in there and settings.best_effort in there and tiers[0] <= tiers[1]:
        yield (
            f"PriorityTier of {settings.promised!r} ({tiers[0]}) must be above that of "
            f"{settings.best_effort!r} ({tiers[1]}), so that promised work preempts"
        )


def _node_problems(settings: SlurmSettings, commands: SlurmCommands) -> Iterator[str]:
    there = {node.name: node for node in commands.nodes()}
    for machine, name in settings.machines.items():
        node = there.get(name)
        if node is None:
            yield f"machines: {machine} = {name!r}: Slurm has no such node"
            continue
        for partition in dict.fromkeys((settings.promised, settings.best_effort)):
            if partition not in node.partitions:
                yield f"the node {name} is not in the partition {partition!r}"


def _license_problems(settings: SlurmSettings, there: Mapping[str, int]) -> Iterator[str]:
    for name in settings.licenses:
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            yield f"licenses: Slurm has no licence {name!r}; it has {known}"


def _permission_problems(settings: SlurmSettings, commands: SlurmCommands) -> Iterator[str]:
    """Create a reservation far in the future, and delete it.

    Each attempt has a name of its own: one that a killed server left behind does no harm, and
    `ReservationKeeper` deletes it.
    """
    name = f"{settings.prefix}_try_{os.urandom(4).hex()}"
    start_s = int(time.time()) + _FAR_S
    node = next(iter(settings.machines.values()))
    try:
        commands.create_reservation(name, start_s, start_s + 60, [node], [settings.user])
    except SlurmAwayError:
        raise
    except SlurmError as error:
        yield (
            f"no reservation can be made as {settings.user}: {error}; make it an operator: "
            f"sacctmgr modify user {settings.user} set adminlevel=Operator"
        )
        return
    try:
        commands.delete_reservation(name)
    except SlurmAwayError:
        raise
    except SlurmError as error:
        logger.info("the reservation %s is deleted later: %s", name, error)


def _limit_warnings(
    settings: SlurmSettings, partitions: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Yield warnings about partition time limits, which apply to components."""
    for name in dict.fromkeys((settings.promised, settings.best_effort)):
        longest = partitions.get(name, {}).get("MaxTime", "UNLIMITED")
        if longest != "UNLIMITED":
            yield (
                f"MaxTime of {name!r} is {longest}: components end then, and before a later "
                "reservation of others Slurm starts none; set MaxTime=INFINITE"
            )


def _warnings(configuration: dict[str, str], accounting: bool) -> Iterator[str]:
    if configuration.get("PreemptType", "preempt/none") == "preempt/none":
        yield (
            "Slurm preempts nothing (PreemptType=preempt/none): promised work waits for other jobs "
            "on its nodes; set PreemptType=preempt/partition_prio and PreemptMode=REQUEUE"
        )
    if configuration.get("PreemptType", "") == "preempt/qos":
        yield (
            "Slurm preempts by QOS (PreemptType=preempt/qos), which is not read: nothing is "
            "promised on nodes while jobs run there; set PreemptType=preempt/partition_prio"
        )
    age = configuration.get("MinJobAge", "").split()[:1]
    if not accounting:
        yield (
            f"no slurmdbd: ends of jobs are known for {' '.join(age) or '?'} s (MinJobAge) only; "
            "what ends while this service is unavailable for longer begins again"
        )
