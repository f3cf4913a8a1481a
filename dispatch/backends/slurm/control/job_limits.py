"""Limits of accounts and QOS in Slurm: what a job may be, and what may run alongside it.

Slurm starts no job beyond them, whatever is reserved for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch.backends.slurm.control.amounts import seconds_of, tres_of
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_demand import JobDemand

#: Columns of ``sacctmgr``, with the scope in which each counts.
_ASSOCIATION: Final = "User,Account,ParentName,GrpTRES,GrpJobs,MaxTRES,MaxJobs,MaxWall"
_QOS: Final = "Name,GrpTRES,GrpJobs,MaxTRES,MaxTRESPU,MaxJobsPU,MaxWall"


class Load(NamedTuple):
    """What one job is that is promised the same time, or runs in it.

    Attributes
    ----------
    id, user, account, qos
        Of the job.
    until_s
        When it will have ended, Unix time.
    amounts
        What it has, by the names of Slurm's TRES: ``cpu``, ``node``, ``mem`` (MiB), ``gres/gpu``.
    """

    id: int
    user: str
    account: str
    qos: str
    until_s: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JobLimit:
    """Limits under which a job is.

    Attributes
    ----------
    name
        Whose they are, such as ``QOS high``.
    user, account, qos
        The jobs that count together; empty: whichever.
    wall_s
        How long a job may run; None for no limit.
    job
        What one job may have.
    jobs
        How many may run at a time; None for no limit.
    together
        What those may have that run at a time.
    """

    name: str
    user: str = ""
    account: str = ""
    qos: str = ""
    wall_s: int | None = None
    job: Mapping[str, int] = field(default_factory=dict)
    jobs: int | None = None
    together: Mapping[str, int] = field(default_factory=dict)

    def problems(self, demand: JobDemand, seconds: int) -> Iterator[str]:
        """Yield why Slurm would start a job at no time, in sbatch's words."""
        limit_s = demand.limit_s or seconds
        if self.wall_s is not None and limit_s > self.wall_s:
            yield f"MaxWall of {self.name} is {self.wall_s // 60} minutes: write a shorter --time"
        task, at_once = amounts_of(demand, 1), amounts_of(demand, demand.throttle)
        for name, most in self.job.items():
            if task.get(name, 0) > most:
                yield f"MaxTRES of {self.name} is {name}={most}: the job has {task[name]}"
        for name, most in self.together.items():
            if at_once.get(name, 0) > most:
                yield f"TRES of {self.name} are {name}={most}: the job has {at_once[name]}"
        if self.jobs is not None and demand.throttle > self.jobs:
            yield f"jobs of {self.name} are {self.jobs} at a time: the array has {demand.throttle}"

    def in_the_way(self, demand: JobDemand, loads: Iterable[Load]) -> tuple[str, list[Load]] | None:
        """Return which limit a job would exceed alongside others, and these; None: none."""
        mine = [load for load in loads if self._counts(load)]
        if self.jobs is not None and len(mine) + demand.throttle > self.jobs:
            return f"{self.name} may run {self.jobs} jobs at a time", mine
        wanted = amounts_of(demand, demand.throttle)
        for name, most in self.together.items():
            if wanted.get(name, 0) + sum(load.amounts.get(name, 0) for load in mine) > most:
                return f"{self.name} may have {name}={most} at a time", mine
        return None

    def _counts(self, load: Load) -> bool:
        pairs = ((self.user, load.user), (self.account, load.account), (self.qos, load.qos))
        return all(not ours or ours == theirs for ours, theirs in pairs)


def amounts_of(demand: JobDemand, times: int) -> dict[str, int]:
    """Return what this many jobs have, by the names of Slurm's TRES."""
    nodes = times * demand.nodes
    return {
        "cpu": nodes * demand.cpus,
        "node": nodes,
        "mem": nodes * demand.memory,
        "gres/gpu": nodes * demand.gpus,
    }


def limits_of(commands: SlurmCommands, user: str, account: str, qos: str) -> list[JobLimit]:
    """Return the limits under which a user's jobs are; none if Slurm enforces none.

    Parameters
    ----------
    account, qos
        Of the job, as Slurm says them; empty: none.

    Raises
    ------
    SlurmError
        If Slurm, or slurmdbd, does not say them.
    """
    enforced = commands.configuration().get("AccountingStorageEnforce", "").lower().split(",")
    found: list[JobLimit] = []
    if "limits" in enforced and account:
        text = commands.run(
            "sacctmgr", "--noheader", "--parsable2", "show", "association",
            f"format={_ASSOCIATION}",
        )  # fmt: skip
        rows = list(_rows(text, 8))
        accounts = _with_parents(account, rows)
        found += [one for row in rows for one in _of_association(row, user, accounts)]
    if ("limits" in enforced or "qos" in enforced) and qos:
        text = commands.run(
            "sacctmgr", "--noheader", "--parsable2", "show", "qos", f"format={_QOS}"
        )
        found += [one for row in _rows(text, 7) for one in _of_qos(row, user, qos)]
    return found


def _with_parents(account: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Return an account and those above it, whose limits count for it too."""
    above = {row[1]: row[2] for row in rows if not row[0]}
    found = [account]
    while (parent := above.get(found[-1], "")) and parent not in found:
        found.append(parent)
    return found


def _rows(text: str, count: int) -> Iterator[list[str]]:
    rows = (line.split("|") for line in text.splitlines())
    return (row for row in rows if len(row) == count)


def _of_association(row: Sequence[str], user: str, accounts: Sequence[str]) -> Iterator[JobLimit]:
    owner, account, _, group, group_jobs, job, jobs, wall = row
    if account not in accounts:
        return
    if owner == user and account == accounts[0]:
        yield JobLimit(
            f"{user} in account {account}", user, account, "", seconds_of(wall), tres_of(job),
            _count(jobs), tres_of(group),
        )  # fmt: skip
    elif not owner:
        yield JobLimit(
            f"account {account}", "", account, "", None, {}, _count(group_jobs), tres_of(group)
        )


def _of_qos(row: Sequence[str], user: str, qos: str) -> Iterator[JobLimit]:
    name, group, group_jobs, job, per_user, user_jobs, wall = row
    if name != qos:
        return
    yield JobLimit(
        f"QOS {name}",
        "",
        "",
        name,
        seconds_of(wall),
        tres_of(job),
        _count(group_jobs),
        tres_of(group),
    )
    yield JobLimit(
        f"{user} in QOS {name}", user, "", name, None, {}, _count(user_jobs), tres_of(per_user)
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
