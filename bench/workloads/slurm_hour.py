"""An hour of jobs played on a real Slurm in one of four ways.

- `priority`: production work waits in the partition of the higher tier, which preempts best effort.
- `reservations`: for each production job a reservation of Slurm is asked for, at the first of many
  instants at which Slurm grants it before the deadline, with the flags that Agenda's have.
- `agenda`: a request to an Agenda server, whose Plan stands in Slurm as reservations.
- `early`: the same with an agent that plans early (`agenda serve --agent earliest`).

In the last three, a job whose promise is refused runs as best effort. Best effort is the same plain
`sbatch` in all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from bench.workloads.swim_hour import CPUS, HourJob
from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.client.server import Server

#: How much longer than its run a promise is, in s: what Slurm takes to start and to push aside.
MARGIN_S: Final = 8

#: Pause between two instants at which Slurm is asked for a reservation, s.
_ASK_S: Final = 5

_PROMISED: Final = "agenda"
_BEST_EFFORT: Final = "scavenge"


@dataclass(slots=True)
class SlurmHour:
    """One way in which an hour is played.

    Attributes
    ----------
    way
        ``priority``, ``reservations`` or ``agenda``; names of jobs begin with it.
    server
        Of the ways ``agenda`` and ``early``.
    promised
        Ids of the production jobs that were promised their deadline.
    """

    way: str
    commands: SlurmCommands = field(default_factory=lambda: SlurmCommands(timeout_s=30))
    server: Server | None = None
    began_s: float = 0.0
    promised: set[str] = field(default_factory=set)

    def play(self, jobs: Sequence[HourJob]) -> None:
        """Submit each job at its time; return when the last one is submitted."""
        submit: Callable[[HourJob], None] = {
            "priority": self._by_priority,
            "reservations": self._reserved,
            "agenda": self._planned,
            "early": self._planned,
        }[self.way]
        self.began_s = time.time()
        with ThreadPoolExecutor(8) as pool:
            futures = []
            for job in jobs:
                time.sleep(max(0.0, self.began_s + job.submitted_s - time.time()))
                how = self._best_effort if job.deadline_s is None else submit
                futures.append(pool.submit(how, job))
            for future in futures:
                future.result()

    def records(self) -> list[SlurmJob]:
        """Return what Slurm's accounting has of these jobs, one for each time that one ran."""
        since = instant_word(int(self.began_s) - 1)
        runs = self.commands.accounted_runs(since)
        return [run for run in runs if run.name.startswith(f"{self.way}-")]

    def end(self) -> None:
        """Cancel what waits or runs, and delete the reservations that are left."""
        left = [one.id for one in self.commands.jobs() if one.is_open]
        self.commands.cancel(left)
        while any(one.is_open or one.is_ending for one in self.commands.jobs()):
            time.sleep(0.5)
        for one in self.commands.reservations():
            self.commands.delete_reservation(one.name)

    def _best_effort(self, job: HourJob) -> None:
        self._sbatch(job, f"--partition={_BEST_EFFORT}")

    def _by_priority(self, job: HourJob) -> None:
        self.promised.add(job.id)
        self._sbatch(job, f"--partition={_PROMISED}")

    def _reserved(self, job: HourJob) -> None:
        assert job.deadline_s is not None
        lease_s = job.run_s + MARGIN_S
        begin_s, last_s = int(time.time()) + 2, self.began_s + job.deadline_s - lease_s
        while begin_s <= last_s:
            if self._has_submitted(job, begin_s, lease_s):
                self.promised.add(job.id)
                return
            begin_s = max(begin_s + _ASK_S, int(time.time()) + 2)
        self._best_effort(job)

    def _has_submitted(self, job: HourJob, begin_s: int, lease_s: int) -> bool:
        cores = [] if job.cpus == CPUS else [f"corecnt={job.cpus}"]
        name = f"{self.way}_{job.id}"
        try:
            self.commands.run(
                "scontrol", "create", "reservation", f"reservationname={name}",
                f"starttime={instant_word(begin_s)}", f"endtime={instant_word(begin_s + lease_s)}",
                f"nodecnt={job.nodes}", *cores, "users=root", "partitionname=main",
                "flags=FLEX,IGNORE_JOBS",
            )  # fmt: skip
        except SlurmError:
            return False
        try:
            self._sbatch(
                job, f"--partition={_PROMISED}", f"--reservation={name}",
                f"--begin={instant_word(begin_s)}",
            )  # fmt: skip
        except SlurmError:  # a reservation that no job of its size fits
            self.commands.delete_reservation(name)
            return False
        return True

    def _planned(self, job: HourJob) -> None:
        assert self.server is not None
        assert job.deadline_s is not None
        lease_s = job.run_s + MARGIN_S
        left_s = int(self.began_s + job.deadline_s - time.time())
        gang = f"{job.nodes}, {job.nodes}, {lease_s}s, {lease_s * job.nodes}s, spread=1"
        rdl = f"deadline(atom(<{job.cpus} cpu>, {gang}), +{left_s}s)"
        id_ = f"{self.way}-{job.id}"
        reply = self.server.call(
            "POST", "/v1/reservations", {"id": id_, "rdl": rdl, "tenant": "root"}
        )
        if not reply.ok:
            self._best_effort(job)
            return
        self.promised.add(job.id)
        deadline_s = int(self.began_s + job.deadline_s)
        comment = promise_comment(id_, deadline_s, job.run_s * job.nodes)
        self._sbatch(job, "--hold", f"--comment={comment}")

    def _sbatch(self, job: HourJob, *more: str) -> None:
        script = f"#!/bin/sh\nexec sleep {job.run_s}\n"
        minutes = -(-(job.run_s + MARGIN_S) // 60)
        self.commands.run(
            "sbatch", "--parsable", "--requeue", f"--job-name={self.way}-{job.id}",
            f"--nodes={job.nodes}", f"--ntasks-per-node={job.cpus}", f"--time={minutes}",
            "--output=/dev/null", "--chdir=/tmp", *more, given=script,
        )  # fmt: skip
