"""The day of a site: scripts of every shape, admins who drain, reserve and limit, users who cancel.

Every promise is kept, or its owner was notified why not; nothing is left in the queue. Judged by
Slurm's accounting and the histories of reservations.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from dispatch.backends.slurm.control.commands import instant_word
from dispatch.backends.slurm.control.errors import SlurmError
from service.cli.main import main
from tests.end_to_end.server_process import serving
from tests.end_to_end.slurm_lab import NODES, SlurmLab, resume, until

SCRIPTS = int(os.environ.get("AGENDA_DAY_SCRIPTS", "60"))
PAUSE_S = float(os.environ.get("AGENDA_DAY_PAUSE", "6"))

CLUSTER: Final = f"""
step = "1s"
horizon = "1h"

[[machines]]
name = "n"
count = {NODES}
labels = ["fat", "gpu-a100"]
resources = {{ cpu = 4, gpu = 2, memory = "2000 MiB" }}

[[pools]]
name = "matlab"
count = 4
"""

#: How large jobs are, as sites' own scripts say it.
SIZES: Final = (
    "-n 1", "-n 1", "-c 2", "-n 1 --mem=1G", "-c 4 --mem=1500", "-N 2 --ntasks-per-node=4",
    "-N 2 -n 6", "-N 4 --ntasks-per-node=2 --mem=500", "-n 6 --mem-per-cpu=200",
    "-N 1 --exclusive", "-N 1 --mem=0", "-N 1-3 -n 2", "-G 2", "--gres=gpu:a100:1 -c 2",
    "-N 2 --gpus-per-node=1", "-C fat", "-L matlab:2", "-L matlab:1 -N 2 -n 2", "-a 0-5%2 -c 1",
    "-a 1-3 -c 2 --mem=400", "-O -n 4", "--mincpus=2", "-G 1 --mem-per-gpu=300",
)  # fmt: skip

#: When they may begin.
BEGINS: Final = ("", "", "", "", "-b now+40", "-d afterany:{last}", "-d afterok:{last}")

#: What else stands in scripts.
HABITS: Final = (
    "", "", "", "-p main", "-p scavenge --nice=10", "-A root", "-q single", "-J convert",
    "--comment=nightly", "--requeue", "--no-requeue --mail-type=NONE", "--export=NONE -D /tmp",
    "--signal=B:TERM@10 --open-mode=append", "--kill-on-invalid-dep=yes", "--wckey=x -v",
)  # fmt: skip

#: Options that are refused, and what the refusal names.
REFUSED: Final[Mapping[str, str]] = {
    "--contiguous -N 2": "--contiguous", "-s": "--oversubscribe", "-C fat|thin": "--constraint",
    "-t 2 --time-min=1": "--time-min", "-d singleton": "--dependency", "-L none:1": "license",
    "-N 99": "99",
}  # fmt: skip

#: How scripts end: well, badly, or not before their limit.
BODIES: Final[Mapping[str, str]] = {
    "well": "sleep {work_s}", "badly": "sleep {work_s}; exit 3", "never": "sleep 300",
}  # fmt: skip

#: What histories say of a promise that others broke, or of a job that Slurm did not start.
REASONS: Final = frozenset({"degraded", "missed", "failed", "work_waits", "work_runs_on"})

#: Reasons why a script is refused that names nothing wrong: no time is left, or no limit allows it.
NO_ROOM: Final = ("QOS", "--dependency", "no time is left")


@dataclass(frozen=True, slots=True)
class Script:
    """A script of a user.

    Attributes
    ----------
    options
        Of sbatch, on the command line or in lines of the script.
    end
        How it ends: a key of `BODIES`; or what the refusal of its options names.
    """

    options: str
    end: str
    is_refused: bool = False


def some_script(rng: random.Random) -> Script:
    """Return a script of public shape, told anew."""
    if rng.random() < 0.06:
        options = rng.choice(list(REFUSED))
        return Script(options, REFUSED[options], is_refused=True)
    parts = [rng.choice(SIZES), rng.choice(BEGINS), rng.choice(HABITS)]
    end = rng.choices(("well", "badly", "never"), (86, 10, 4))[0]
    return Script(" ".join(filter(None, parts)), end)


@dataclass(slots=True)
class Day:
    """What was requested and done.

    Attributes
    ----------
    promised
        Job of each reservation.
    scripts
        By the same.
    cancelled
        Reservations that their owners gave up, by either command.
    refused
        Why scripts were refused.
    done
        What admins and users did.
    faults
        Scripts that were accepted or refused though they should not have been.
    """

    promised: dict[str, int] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Site:
    """A site on a Slurm: its users and its admins."""

    def __init__(self, lab: SlurmLab, rng: random.Random) -> None:
        self.lab, self.rng, self.day = lab, rng, Day()
        self._put_right: list[Callable[[], None]] = []
        self._last = 0

    def submit(self, number: int) -> None:
        """Submit one script; some have their options in lines of their own."""
        script, id_ = some_script(self.rng), f"day{number}"
        options = script.options.replace("{last}", str(self._last))
        are_lines = self.rng.random() < 0.5
        path = self.lab.folder / f"job{number}.sh"
        body = BODIES.get(script.end, "true").format(work_s=self.rng.randint(2, 15))
        lines = f"#SBATCH {options}\n" if are_lines else ""
        path.write_text(f"#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\n{lines}{body}\n")
        words = ["sbatch", "--server", f"http://127.0.0.1:{self.lab.port}", f"--id={id_}"]
        words += [f"--deadline={self.rng.randint(4, 10)}m", "--no-allow-start"]
        words += [*([] if are_lines else options.split()), str(path)]
        done = CliRunner().invoke(main, words)
        if done.exit_code:
            self.day.refused.append(f"{options}: {done.stderr.strip()}")
            self._judge_refusal(script, done)
            return
        self._last = int(done.stdout.split()[-1])
        self.day.promised[id_], self.day.scripts[id_] = self._last, script
        if script.is_refused:
            self.day.faults.append(f"{options}: accepted")

    def _judge_refusal(self, script: Script, done: Result) -> None:
        """A script is refused by name, or with exit code 3 or a limit for want of time."""
        said = done.stderr
        if script.is_refused:
            is_good = done.exit_code in (1, 3) and script.end.lower() in said.lower()
        else:
            is_good = done.exit_code == 3 or any(word in said for word in NO_ROOM)
        if not is_good:
            self.day.faults.append(f"{script.options}: exit code {done.exit_code}: {said}")

    def disturb(self) -> None:
        """Let an admin or a user do something, and put an earlier drain or reservation right."""
        if self._put_right and self.rng.random() < 0.7:
            self._put_right.pop(0)()
        acts = [
            self._drain, self._reserve, self._limit, self._urgent, self._scancel, self._give_up,
            self._hold, self._requeue, self._quota, self._take_licences,
        ]  # fmt: skip
        done = self.day.done.total()
        for act in self.rng.sample(acts, len(acts)):
            with suppress(SlurmError):  # its job has ended or waits again since
                act()
            if self.day.done.total() > done:  # there was a job for it
                return

    def _count(self, what: str) -> None:
        self.day.done[what] += 1

    def _drain(self) -> None:
        node = f"n{self.rng.randint(1, NODES)}"
        run = self.lab.slurm.commands.run
        run("scontrol", "update", f"nodename={node}", "state=drain", "reason=disk")
        self._put_right.append(lambda: resume(self.lab, node))
        self._count("drain")

    def _reserve(self) -> None:
        name = f"upkeep-{self.lab.prefix}-{self.day.done['reserve']}"
        start_s = int(time.time()) + self.rng.randint(90, 200)
        self.lab.slurm.commands.run(
            "scontrol", "create", "reservation", f"reservationname={name}", "users=root",
            f"starttime={instant_word(start_s)}", "duration=2",
            f"nodes=n{self.rng.randint(1, NODES)}", "flags=MAINT,IGNORE_JOBS",
        )  # fmt: skip
        self._put_right.append(lambda: self._free(name))
        self._count("reserve")

    def _free(self, name: str) -> None:
        if any(one.name == name for one in self.lab.slurm.commands.reservations()):
            self.lab.slurm.commands.delete_reservation(name)

    def _limit(self) -> None:
        running = [job for job in self._own_jobs().values() if job.is_up and not job.array]
        if running:
            self.lab.slurm.commands.update_job(self.rng.choice(running).id, timelimit="3")
            self._count("limit")

    def _urgent(self) -> None:
        self.lab.slurm.commands.run(
            "sbatch", "--parsable", f"--job-name={self.lab.prefix}-urgent", "--partition=urgent",
            "--time=1", "--exclusive", "--nodes=1", "--output=/dev/null", "--wrap=sleep 30",
        )  # fmt: skip
        self._count("urgent")

    def _hold(self) -> None:
        waiting = [job.id for job in self._own_jobs().values() if job.waits and not job.array]
        if waiting:
            job = self.rng.choice(waiting)
            self.lab.slurm.commands.run("scontrol", "hold", str(job))
            self._put_right.append(lambda: self._release(job))
            self._count("hold")

    def _release(self, job: int) -> None:
        if any(one.id == job and one.waits for one in self.lab.slurm.commands.jobs()):
            self.lab.slurm.commands.release(job)

    def _requeue(self) -> None:
        running = [job.id for job in self._own_jobs().values() if job.is_up and not job.array]
        if running:
            self.lab.slurm.commands.run("scontrol", "requeue", str(self.rng.choice(running)))
            self._count("requeue")

    def _quota(self) -> None:
        most = self.rng.choice((1, 2))
        run = self.lab.slurm.commands.run
        run("sacctmgr", "-i", "modify", "qos", "single", "set", f"maxjobsperuser={most}")
        self._count("quota")

    def _take_licences(self) -> None:
        self.lab.slurm.commands.run(
            "sbatch", "--parsable", f"--job-name={self.lab.prefix}-mine", "--partition=urgent",
            "--time=1", "--licenses=matlab:2", "--output=/dev/null", "--wrap=sleep 40",
        )  # fmt: skip
        self._count("licences")

    def _scancel(self) -> None:
        open_ = [id_ for id_, job in self._own_jobs().items() if job.is_open]
        if open_:
            id_ = self.rng.choice(open_)
            self.lab.slurm.commands.cancel([self.day.promised[id_]])
            self.day.cancelled.add(id_)
            self._count("scancel")

    def _give_up(self) -> None:
        waiting = [id_ for id_, job in self._own_jobs().items() if job.waits and not job.array]
        if waiting:
            id_ = self.rng.choice(waiting)
            done = CliRunner().invoke(
                main, ["cancel", "--server", f"http://127.0.0.1:{self.lab.port}", id_]
            )
            if done.exit_code == 0:  # its job stays, held: its user has to take it away
                self.lab.slurm.commands.cancel([self.day.promised[id_]])
                self.day.cancelled.add(id_)
                self._count("give up")

    def _own_jobs(self) -> dict[str, Any]:
        """Return the job of each promise that Slurm knows."""
        jobs = {job.id: job for job in self.lab.slurm.commands.jobs()}
        return {id_: jobs[job] for id_, job in self.day.promised.items() if job in jobs}

    def end(self) -> None:
        """Put everything right, and wait until nothing waits or runs."""
        for put_right in self._put_right:
            put_right()
        ids = set(self.day.promised.values())

        def is_quiet() -> bool:
            jobs = self.lab.slurm.commands.jobs()
            return not any(job.is_open and {job.id, job.array} & ids for job in jobs)

        until(is_quiet, 1500)
        self.lab.slurm.wait_for_nodes()  # while promises last their nodes are marked as reserved


def faults_of(
    day: Day, works: Mapping[str, str], told: Mapping[str, set[str]], slurm: Mapping[str, str]
) -> list[str]:
    """Return the promises that were broken without a reason, or of which the two accounts differ.

    Parameters
    ----------
    works, slurm
        The outcome of their work, as `agenda sacct` has it, and as Slurm's own accounting has it.
    told
        The kinds of events in their histories.
    """
    faults = list(day.faults)
    for id_, script in day.scripts.items():
        work, reasons = works.get(id_, "unknown"), told[id_] & REASONS
        good = {"in time", "short"} if script.end == "well" else {"failed", "short", "cancelled"}
        if work not in good and id_ not in day.cancelled and not reasons:
            faults.append(f"{id_} ({script}): its work is {work}, reported is {told[id_]}")
        if script.end != "well" and work == "failed" and not {"work_ended", *reasons} & told[id_]:
            faults.append(f"{id_} ({script}): failed, and its owner was not notified")
        if (work == "in time") != (slurm.get(id_) == "in time"):
            faults.append(f"{id_} ({script}): {work}, and by Slurm {slurm.get(id_)}")
    return faults


def outcomes_in_slurm(deadlines: Mapping[str, float], since_s: int) -> dict[str, str]:
    """Return the outcome of each reservation's jobs by the columns of `sacct`."""
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    words = ["sacct", "-X", "-n", "-P", "-a", "-S", begin, "--format=JobID,State,End,Comment"]
    words += ["-E", "now", "-s", "CA,CD,F,NF,OOM,PD,R,RQ,TO"]
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    text = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    late: dict[str, bool] = {}
    for line in text.splitlines():
        _, state, end, comment = line.split("|", 3)
        id_ = comment.partition("reservation=")[2].partition(" ")[0]
        if id_ in deadlines:
            is_good = state == "COMPLETED" and int(end) <= deadlines[id_]
            late[id_] = late.get(id_, False) or not is_good
    return {id_: "not in time" if is_late else "in time" for id_, is_late in late.items()}


@pytest.mark.soak
@pytest.mark.slurm
def test_a_day_of_a_site_keeps_its_promises_or_says_why_not(tmp_path: Path) -> None:
    """From a seed that is reported."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    rng, began_s = random.Random(seed), int(time.time())
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path, stack)
        lab.cluster.write_text(CLUSTER)
        machines = {f"n-{index}": f"n{index + 1}" for index in range(NODES)}
        lab.settings = lab.slurm.settings_file(
            lab.folder / "slurm.toml", machines, licenses=["matlab"]
        )
        lab.prefix = lab.settings.read_text().split('"')[1]
        stack.callback(lab.close)
        for node in range(1, NODES + 1):
            lab.slurm.commands.run(
                "scontrol", "update", f"nodename=n{node}", "availablefeatures=fat,thin",
                "activefeatures=fat,thin",
            )  # fmt: skip
        lab.port = stack.enter_context(
            serving(tmp_path / "agenda.db", lab.cluster, slurm=str(lab.settings), agent="earliest")
        ).port
        until(lambda: lab.call("GET", "/v1/assignments")["at"] is not None)
        site = Site(lab, rng)
        for number in range(SCRIPTS):
            site.submit(number)
            if number % 3 == 0:
                site.disturb()
            time.sleep(rng.uniform(0, PAUSE_S))
        site.end()
        day = site.day
        shown = {id_: lab.call("GET", f"/v1/reservations/{id_}") for id_ in day.promised}
        told = {id_: {one["what"] for one in found["history"]} for id_, found in shown.items()}
        url = f"http://127.0.0.1:{lab.port}"

        def accounts() -> dict[str, dict[str, Any]]:
            text = CliRunner().invoke(main, ["sacct", "--server", url, "-o", "json"]).stdout
            return {one["reservation"]: one for one in json.loads(text)}

        until(lambda: "open" not in [accounts().get(id_, {}).get("work") for id_ in shown], 900)
        entries = {id_: one for id_, one in accounts().items() if id_ in day.promised}
        works = {id_: one["work"] for id_, one in entries.items()}
        deadlines = {
            id_: datetime.fromisoformat(one["deadline"]).timestamp()
            for id_, one in entries.items() if one["deadline"]
        }  # fmt: skip
        faults = faults_of(day, works, told, outcomes_in_slurm(deadlines, began_s))
        left = lab.slurm.commands.reservations()
        faults += [f"{one.name} is left" for one in left if one.name.startswith(lab.prefix)]
    print(
        f"{SCRIPTS} scripts, {len(day.promised)} promised, {len(day.refused)} refused; "
        f"{dict(day.done)}; work {dict(Counter(works.get(id_) for id_ in day.promised))}; "
        f"told {dict(Counter(word for words in told.values() for word in words))}; "
        f"{time.time() - began_s:.0f} s"
    )
    for id_, work in works.items():
        if work not in ("in time", "short"):
            print(id_, day.scripts[id_], work, sorted(told[id_]), id_ in day.cancelled)
    print("\n".join(day.refused), flush=True)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("end", "work", "told", "slurm", "count"),
    [
        ("well", "in time", set(), "in time", 0),
        ("well", "late", {"admitted"}, "not in time", 1),
        ("well", "late", {"missed"}, "not in time", 0),
        ("well", "failed", {"admitted"}, "not in time", 1),
        ("well", "in time", set(), "not in time", 1),
        ("badly", "failed", {"admitted"}, "not in time", 1),
        ("badly", "failed", {"work_ended"}, "not in time", 0),
        ("badly", "in time", {"admitted"}, "in time", 1),
    ],
)
def test_a_broken_promise_of_which_nobody_was_told_is_noticed(
    end: str, work: str, told: set[str], slurm: str, count: int
) -> None:
    """The judge of this file can find something; what its owner gave up is no fault."""
    day = Day({"r": 1}, {"r": Script("", end)})
    assert len(faults_of(day, {"r": work}, {"r": told}, {"r": slurm})) == count
    day.cancelled.add("r")
    found = faults_of(day, {"r": "cancelled"}, {"r": {"admitted"}}, {"r": "not in time"})
    assert found == []
