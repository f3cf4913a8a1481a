"""Limits of accounts and QOS in Slurm, for one job and for concurrent jobs.

Slurm starts no job beyond them, whatever is reserved for it. A limit of a job's QOS overrides the
same limit of its associations (Slurm's "Resource Limits", hierarchy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dispatch.backends.slurm.control.amounts import seconds_of, tres_of
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_demand import JobDemand

#: Columns of ``sacctmgr`` for associations and QOS.
_ASSOCIATION: Final = "User,Account,ParentName,Partition,GrpTRES,GrpJobs,MaxTRES,MaxJobs,MaxWall"
_QOS: Final = "Name,GrpTRES,GrpJobs,MaxTRES,MaxTRESPU,MaxJobsPU,MaxWall"


class Load(NamedTuple):
    """Load of a job that is promised the same time, or runs in it.

    Attributes
    ----------
    id, user, account, qos
        Of the job.
    until_s
        Its end, Unix time.
    amounts
        Its resources, by the names of Slurm's TRES: ``cpu``, ``node``, ``mem`` (MiB), ``gres/gpu``.
    jobs
        Number of jobs it counts as: concurrent tasks of an array, with `amounts` in total.
    """

    id: int
    user: str
    account: str
    qos: str
    until_s: int
    amounts: Mapping[str, int]
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class JobLimit:
    """Limits that apply to a job.

    Attributes
    ----------
    name
        Their owner, such as ``QOS high``.
    user, account, qos
        Scope of jobs that count together; empty for any.
    wall_s
        Longest run time of a job; None for no limit.
    job
        Limits of a single job.
    jobs
        Number of jobs that may run at a time; None for no limit.
    together
        Limits of the total of concurrent jobs.
    """

    name: str
    user: str = ""
    account: str = ""
    qos: str = ""
    wall_s: int | None = None
    job: Mapping[str, int] = field(default_factory=dict)
    jobs: int | None = None
    together: Mapping[str, int] = field(default_factory=dict)

    def problems(
        self, demand: JobDemand, demands: Sequence[JobDemand], seconds: int
    ) -> Iterator[str]:
        """Yield why Slurm would never start a job, in sbatch's terms.

        Parameters
        ----------
        demand
            The component of the job to which the limits apply.
        demands
            All components of the job that count together, `demand` among them.
        seconds
            Run time of a component without a time limit.
        """
        if self.wall_s is not None and (demand.limit_s or seconds) > self.wall_s:
            minutes = self.wall_s // 60
            yield f"MaxWall of {self.name} is {minutes} minutes: write a shorter --time"
        task = amounts_of([demand], 1)
        for name, most in self.job.items():
            if task.get(name, 0) > most:
                yield f"MaxTRES of {self.name} is {name}={most}: the job has {task[name]}"
        at_once = amounts_of(demands)
        for name, most in self.together.items():
            if at_once.get(name, 0) > most:
                yield f"TRES of {self.name} are {name}={most}: the job has {at_once[name]}"
        count = sum(demand.throttle for demand in demands)
        if self.jobs is not None and count > self.jobs:
            whole = "array" if len(demands) == 1 else "job of several components"
            yield f"jobs of {self.name} are {self.jobs} at a time: the {whole} has {count}"

    def in_the_way(
        self, demands: Sequence[JobDemand], loads: Iterable[Load]
    ) -> tuple[str, list[Load]] | None:
        """Return the limit that a job would exceed with other jobs, and these; None if none."""
        mine = [load for load in loads if self._counts(load)]
        count = sum(demand.throttle for demand in demands)
        if self.jobs is not None and sum(load.jobs for load in mine) + count > self.jobs:
            return f"{self.name} may run {self.jobs} jobs at a time", mine
        wanted = amounts_of(demands)
        for name, most in self.together.items():
            if wanted.get(name, 0) + sum(load.amounts.get(name, 0) for load in mine) > most:
                return f"{self.name} may have {name}={most} at a time", mine
        return None

    def _counts(self, load: Load) -> bool:
        pairs = ((self.user, load.user), (self.account, load.account), (self.qos, load.qos))
        return all(not ours or ours == theirs for ours, theirs in pairs)


def amounts_of(demands: Iterable[JobDemand], tasks: int | None = None) -> dict[str, int]:
    """Return the total of jobs, by the names of Slurm's TRES.

    Parameters
    ----------
    tasks
        Tasks of each array; by default all that may run at a time.
    """
    found = dict.fromkeys(("cpu", "node", "mem", "gres/gpu"), 0)
    for demand in demands:
        nodes = demand.nodes * (demand.throttle if tasks is None else tasks)
        for name, each in zip(found, (demand.cpus, 1, demand.memory, demand.gpus), strict=True):
            found[name] += nodes * each
    return found


def limits_of(
    commands: SlurmCommands, user: str, account: str, qos: str, partition: str = ""
) -> list[JobLimit]:
    """Return the limits that apply to a user's jobs; none if Slurm enforces none.

    Parameters
    ----------
    account, qos, partition
        Of the job, as in Slurm; empty for none.

    Raises
    ------
    SlurmError
        If Slurm or slurmdbd does not return them.
    """
    configuration = commands.configuration()
    enforced = configuration.get("AccountingStorageEnforce", "").lower().split(",")

    def shown(what: str, columns: str, *words: str) -> list[list[str]]:
        text = commands.run(
            "sacctmgr", "--noheader", "--parsable2", "show", what, f"format={columns}", *words
        )
        rows = (line.split("|") for line in text.splitlines())
        return [row for row in rows if len(row) == columns.count(",") + 1]

    of_qos: list[JobLimit] = []
    if ("limits" in enforced or "qos" in enforced) and qos:
        of_qos = [one for row in shown("qos", _QOS) for one in _of_qos(row, user, qos)]
    of_accounts: list[JobLimit] = []
    if "limits" in enforced and account:
        cluster = configuration.get("ClusterName", "")
        rows = shown("association", _ASSOCIATION, *([f"cluster={cluster}"] if cluster else []))
        accounts = _with_parents(account, rows)
        of_accounts = [
            one
            for row in _for_partition(rows, user, account, partition)
            for one in _of_association(row, user, accounts)
        ]
    return [*(_without(one, of_qos) for one in of_accounts), *of_qos]


def _without(limit: JobLimit, of_qos: Sequence[JobLimit]) -> JobLimit:
    """Return a limit of an association without the parts that the QOS overrides.

    The first limits of the QOS apply to all its jobs, like those of an account; the second to each
    user, like those of a user's association. The total of a user's jobs is a group limit in an
    association, so the group limit of the QOS overrides it.
    """
    if not of_qos:
        return limit
    group, each = of_qos
    same_jobs = each if limit.user else group
    return replace(
        limit,
        wall_s=limit.wall_s if group.wall_s is None else None,
        job={name: most for name, most in limit.job.items() if name not in group.job},
        jobs=limit.jobs if same_jobs.jobs is None else None,
        together={
            name: most for name, most in limit.together.items() if name not in group.together
        },
    )


def _for_partition(
    rows: Iterable[Sequence[str]], user: str, account: str, partition: str
) -> list[Sequence[str]]:
    """Return associations without those of a user for other partitions.

    An association for the job's own partition replaces the one for all partitions.
    """
    kept = [row for row in rows if row[3] in ("", *partition.split(","))]
    own = any(row[:2] == [user, account] and row[3] for row in kept)
    return [row for row in kept if row[3] or not (own and row[:2] == [user, account])]


def _with_parents(account: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Return an account and its ancestors, whose limits apply to it too."""
    above = {row[1]: row[2] for row in rows if not row[0]}
    found = [account]
    while (parent := above.get(found[-1], "")) and parent not in found:
        found.append(parent)
    return found


def _of_association(row: Sequence[str], user: str, accounts: Sequence[str]) -> Iterator[JobLimit]:
    owner, account, _, _, group, group_jobs, job, jobs, wall = row
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
