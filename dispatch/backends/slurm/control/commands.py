"""SlurmCommands: calls of Slurm's command-line programs, in UTC whatever the host's zone."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import (
    SlurmJob,
    SlurmNode,
    SlurmReservation,
    expand_hostlist,
    job_of,
    node_of,
    reservation_of,
)

#: Error texts of commands if slurmctld does not answer, as opposed to a refusal.
_AWAY: Final = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Communication connection failure",
    "Transport endpoint",
    "in standby mode",
    "Unable to establish",
    "Zero Bytes were transmitted or received",
    "Message send failure",
    "Message receive failure",
    "Communication shutdown failure",
)

#: Timeout of a query to a slurmd, s: it blocks while the slurmd is down.
_ASK_NODE_S: Final = 2.0

#: Column separator of ``sacct``: users' job names may contain a bar.
_BETWEEN: Final = "\x1f"

#: All states of jobs in the accounting, for ``sacct --state``.
_ACCOUNTED_STATES: Final = (
    "BF", "CA", "CD", "DL", "F", "NF", "OOM", "PD", "PR", "R", "RQ", "S", "TO",
)  # fmt: skip

#: Job ids in error messages of ``sstat``.
_JOB_WORD: Final = re.compile(r"(?:StepId=|JobId=|\bjob )(\d+)")

#: Flags of the reservations that Agenda makes: see docs/slurm.md, Why so.
_FLAGS: Final = "FLEX,IGNORE_JOBS,OVERLAP"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One job on one node to submit.

    `memory` is in MiB, 0 for the partition's own; `minutes` its time limit, 0 for none.
    """

    name: str
    script: str
    partition: str
    node: str
    cpus: int
    memory: int
    gres: str
    comment: str
    directory: str
    output: str
    errors: str
    reservations: tuple[str, ...] = ()
    minutes: int = 0
    licenses: str = ""


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """Slurm's commands.

    Attributes
    ----------
    timeout_s
        Timeout of a command.
    """

    timeout_s: float = 6.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    #: Command that lists nodes: ``sinfo`` in Slurm 22.05, another one since.
    _node_words: list[str] = field(default_factory=lambda: ["sinfo", "--json"], compare=False)

    def jobs(self) -> list[SlurmJob]:
        """Return the jobs that slurmctld knows, including recently ended ones."""
        return [job_of(one) for one in self._json("squeue", "--json")["jobs"]]

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        found = self._json(*self._node_words)
        if "nodes" not in found:  # since 23.02 it lists groups of nodes
            self._node_words[:] = ["scontrol", "--json", "show", "nodes"]
            found = self._json(*self._node_words)
        return [node_of(one) for one in found["nodes"]]

    def reservations(self) -> list[SlurmReservation]:
        """Return all reservations."""
        text = self.run("scontrol", "--oneliner", "show", "reservation")
        lines = (line for line in text.splitlines() if line.startswith("ReservationName="))
        return [reservation_of(line) for line in lines]

    def licenses(self) -> dict[str, int]:
        """Return the total of each licence that Slurm counts itself, by name."""
        found = {}
        for line in self.run("scontrol", "--oneliner", "show", "licenses").splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
            if fields.get("Remote", "no") == "no" and fields.get("Total", "").isdecimal():
                found[fields["LicenseName"]] = int(fields["Total"])
        return found

    def configuration(self) -> dict[str, str]:
        """Return slurmctld's configuration by key."""
        found = {}
        for line in self.run("scontrol", "show", "config").splitlines():
            name, mark, value = line.partition("=")
            if mark:
                found[name.strip()] = value.strip()
        return found

    def partitions(self) -> dict[str, dict[str, str]]:
        """Return the fields of each partition by its name."""
        found = {}
        for line in self.run("scontrol", "--oneliner", "show", "partition").splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
            if "PartitionName" in fields:
                found[fields["PartitionName"]] = fields
        return found

    def submit(self, job: JobRequest) -> int:
        """Submit a job; return its id.

        It waits for every earlier job of the same name, so that no component runs twice.
        """
        options = {
            "--job-name": job.name,
            "--partition": job.partition,
            "--nodelist": job.node,
            "--nodes": "1",
            "--ntasks": "1",
            "--cpus-per-task": str(job.cpus),
            "--comment": job.comment,
            "--chdir": job.directory,
            "--output": job.output,
            "--error": job.errors,
            "--export": "NIL",
            "--dependency": "singleton",
            "--open-mode": "append",
        }
        if job.memory:
            options["--mem"] = str(job.memory)
        if job.minutes:
            options["--time"] = str(job.minutes)
        if job.gres:
            options["--gres"] = job.gres
        if job.licenses:
            options["--licenses"] = job.licenses
        if job.reservations:
            options["--reservation"] = ",".join(job.reservations)
        words = [f"{name}={value}" for name, value in options.items()]
        answer = self.run("sbatch", "--parsable", "--no-requeue", *words, given=job.script)
        return int(answer.strip().partition(";")[0])

    def cancel(self, ids: Iterable[int], *, waiting: bool = False) -> None:
        """Cancel jobs; jobs that have already ended are ignored.

        Parameters
        ----------
        waiting
            Only waiting jobs: the waiting part of an array has the array's id, and its running
            tasks continue.
        """
        wanted, options = [str(one) for one in ids], ["--state=PENDING"] if waiting else []
        for first in range(0, len(wanted), 200):
            self.run("scancel", "--quiet", *options, *wanted[first : first + 200])

    def create_reservation(
        self, name: str, start_s: int, end_s: int, nodes: Sequence[str], users: Sequence[str]
    ) -> None:
        """Create a reservation on nodes, regardless of jobs and reservations there."""
        self.run(
            "scontrol", "create", "reservation", f"reservationname={name}",
            f"starttime={instant_word(start_s)}", f"endtime={instant_word(end_s)}",
            f"nodes={','.join(nodes)}", f"users={','.join(users)}", f"flags={_FLAGS}",
        )  # fmt: skip

    def update_reservation(self, name: str, **changes: str) -> None:
        """Change a reservation: nodes, endtime, starttime, users."""
        words = [f"{key}={value}" for key, value in changes.items()]
        self.run("scontrol", "update", f"reservationname={name}", *words)

    def delete_reservation(self, name: str) -> None:
        """Delete a reservation; Slurm refuses while a job runs in it."""
        self.run("scontrol", "delete", f"reservationname={name}")

    def update_job(self, id_: int, **changes: str) -> None:
        """Change a waiting job; the id of a leader stands for all components of its job."""
        self.run("scontrol", "update", f"jobid={id_}", *(f"{k}={v}" for k, v in changes.items()))

    def hold(self, id_: int) -> None:
        """Hold a waiting job such that its user may release it."""
        self.run("scontrol", "uhold", str(id_))

    def release(self, id_: int) -> None:
        """Release a held job."""
        self.run("scontrol", "release", str(id_))

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        """Return a user's ended jobs from the accounting."""
        return self._accounted(f"--user={user}", f"--starttime={since}")

    def accounted_runs(self, since: str) -> list[SlurmJob]:
        """Return all users' jobs since a time; a requeued job has one entry per run.

        Without states, ``sacct`` omits jobs that were cancelled before they could begin.
        """
        states = f"--state={','.join(_ACCOUNTED_STATES)}"
        times = (f"--starttime={since}", "--endtime=now")
        return self._accounted("--allusers", "--duplicates", states, *times)

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        """Return whether the batch scripts of some jobs have processes, according to slurmd.

        Jobs without an answer are left out: ``sstat`` succeeds even if a slurmd has not answered,
        and reports it in its error output.

        Raises
        ------
        SlurmError
            If there is no answer for any job.
        """
        steps = ",".join(f"{id_}.batch" for id_ in ids)
        quick = replace(self, timeout_s=min(self.timeout_s, _ASK_NODE_S))
        text, said = quick.answer(
            "sstat", "--noheader", "--parsable2", f"--jobs={steps}", "--format=JobID,Pids"
        )
        rows = (line.partition("|")[::2] for line in text.splitlines())
        found = {int(step.partition(".")[0]) for step, pids in rows if pids}
        unknown = _jobs_of_errors(said, ids)
        return {id_: id_ in found for id_ in ids if id_ in found or id_ not in unknown}

    def _accounted(self, *which: str) -> list[SlurmJob]:
        columns = (
            "JobIDRaw,JobName,NodeList,State,ExitCode,Submit,Start,End,User,Partition,AllocCPUS,"
            "Eligible,UID,Comment"
        )
        text = self.run(
            "sacct", "--allocations", "--noheader", "--parsable2", f"--delimiter={_BETWEEN}",
            f"--format={columns}", *which,
        )  # fmt: skip
        rows = (line.split(_BETWEEN) for line in text.split("\n"))
        return [_accounted_of(row) for row in rows if len(row) == columns.count(",") + 1]

    def run(self, *words: str, given: str | None = None) -> str:
        """Run a command; return its output.

        Raises
        ------
        SlurmAwayError
            If slurmctld did not answer.
        SlurmError
            If it refused, with its message.
        """
        return self.answer(*words, given=given)[0]

    def answer(self, *words: str, given: str | None = None) -> tuple[str, str]:
        """Run a command; return its output, and its error output if it succeeded."""
        environment = {
            **self.environment, "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C",
            "SLURM_BITSTR_LEN": "0",  # all tasks of an array, however many
        }  # fmt: skip
        try:
            done = subprocess.run(
                words, input=given, capture_output=True, encoding="utf-8", errors="replace",
                timeout=self.timeout_s, env=environment, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise SlurmError(f"there is no command {words[0]!r} here") from error
        except subprocess.TimeoutExpired as error:
            raise SlurmAwayError(f"{words[0]} did not answer in {self.timeout_s:g} s") from error
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"{words[0]} ended with {done.returncode}"
            kind = SlurmAwayError if any(one in said for one in _AWAY) else SlurmError
            raise kind(said)
        return done.stdout, done.stderr

    def _json(self, *words: str) -> dict[str, Any]:
        text = self.run(*words)
        try:
            found = json.loads(text)
        except ValueError as error:
            raise SlurmError(f"{words[0]} --json wrote no JSON: {text[:80]!r}") from error
        if found.get("errors"):
            raise SlurmAwayError(f"{words[0]}: {found['errors'][0]}")
        assert isinstance(found, dict)
        return found


def instant_word(unix_s: int) -> str:
    """Return an instant in the form of command arguments, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _jobs_of_errors(said: str, ids: Collection[int]) -> set[int]:
    """Return the jobs that ``sstat`` reported errors for; all if its last error names none."""
    errors = [line for line in said.splitlines() if "error:" in line]
    if errors and _JOB_WORD.search(errors[-1]) is None:
        return set(ids)
    return {int(word) for line in errors for word in _JOB_WORD.findall(line)}


def _accounted_of(fields: Sequence[str]) -> SlurmJob:
    id_, name, nodes, state, code, submitted, started, ended, *rest = fields
    user, partition, cpus, eligible, uid, comment = rest
    status, _, signal = code.partition(":")
    return SlurmJob(
        int(id_),
        name,
        user,
        comment,
        state.split()[0].upper() if state else "UNKNOWN",
        "",
        () if nodes == "None assigned" else expand_hostlist(nodes),
        partition=partition,
        status=int(status or 0) << 8 | int(signal or 0),
        submitted_s=_unix(submitted),
        started_s=_unix(started),
        ends_s=_unix(ended),
        cpus=_unix(cpus),
        eligible_s=_unix(eligible),
        is_cancelled_by_owner=state == f"CANCELLED by {uid}",
    )


def _unix(text: str) -> int:
    return int(text) if text.isdecimal() else 0
