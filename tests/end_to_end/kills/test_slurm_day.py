"""The day of a site: scripts of every shape, admins who drain, reserve and limit, users who cancel.

Every promise is kept, or its owner was notified why not; nothing is left in the queue. Judged by
Slurm's accounting and the histories of reservations.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from dispatch.backends.slurm.control.commands import instant_word
from service.cli.main import main
from tests.end_to_end.server_process import serving
from tests.end_to_end.slurm_lab import NODES, SlurmLab, resume, until

SCRIPTS = int(os.environ.get("AGENDA_DAY_SCRIPTS", "40"))
PAUSE_S = float(os.environ.get("AGENDA_DAY_PAUSE", "10"))

#: Options, as sites' own scripts have them, and how long the script works, s.
SHAPES: Final[tuple[tuple[str, int], ...]] = (
    ("-N 2 --ntasks-per-node=4", 20),  # a solver over MPI
    ("-N 4 --ntasks-per-node=2 --mem=500", 15),
    ("-n 6 --mem-per-cpu=200", 20),
    ("-c 4 --mem=1500", 30),  # threads on one node
    ("-n 1", 10),
    ("-n 1 --mem=1G -J convert", 25),
    ("-N 1 --exclusive", 20),
    ("-N 1 --mem=0", 15),
    ("-a 0-5%2 -c 1", 8),  # a sweep
    ("-a 1-3 -c 2 --mem=400", 10),
    ("-b now+60 -c 2", 10),
    ("-d afterany:{last}", 10),  # the next step of a pipeline
    ("-q single -c 1", 10),
    ("-c 1 --requeue --comment=nightly", 10),
    ("-N 2 -x n1", 10),  # refused by name
)

#: What histories say of a promise that others broke.
TOLD: Final = frozenset({"degraded", "missed", "failed", "moved", "restored", "relocated",
                         "work_waits", "work_runs_on", "work_ended"})  # fmt: skip


@dataclass(slots=True)
class Day:
    """What was requested and done.

    Attributes
    ----------
    promised
        Job of each reservation.
    cancelled
        Reservations that their owners gave up, by either command.
    refused
        Why scripts were refused.
    done
        What admins and users did.
    """

    promised: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


class Site:
    """A site on a Slurm: its users and its admins."""

    def __init__(self, lab: SlurmLab, rng: random.Random) -> None:
        self.lab, self.rng, self.day = lab, rng, Day()
        self._put_right: list[Callable[[], None]] = []
        self._last = 0

    def submit(self, number: int) -> None:
        """Submit one script of some shape."""
        options, work_s = self.rng.choice(SHAPES)
        script = self.lab.folder / f"job{number}.sh"
        script.write_text(f"#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\nsleep {work_s}\n")
        id_ = f"day{number}"
        words = ["sbatch", "--server", f"http://127.0.0.1:{self.lab.port}", f"--id={id_}"]
        words += [f"--deadline={self.rng.randint(5, 12)}m", "--no-allow-start"]
        words += [*options.replace("{last}", str(self._last)).split(), str(script)]
        done = CliRunner().invoke(main, words)
        if done.exit_code:
            assert done.exit_code in (1, 3), done.output
            self.day.refused.append(f"{options}: {done.stderr.strip()}")
            return
        self._last = int(done.stdout.split()[-1])
        self.day.promised[id_] = self._last

    def disturb(self) -> None:
        """Let an admin or a user do something, and put an earlier drain or reservation right."""
        if self._put_right and self.rng.random() < 0.7:
            self._put_right.pop(0)()
        acts = [self._drain, self._reserve, self._limit, self._urgent, self._scancel, self._give_up]
        done = self.day.done.total()
        for act in self.rng.sample(acts, len(acts)):
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
        self.lab.slurm.wait_for_nodes()
        ids = set(self.day.promised.values())

        def is_quiet() -> bool:
            jobs = self.lab.slurm.commands.jobs()
            return not any(job.is_open and {job.id, job.array} & ids for job in jobs)

        until(is_quiet, 1500)


def faults_of(day: Day, works: Mapping[str, str], told: Mapping[str, set[str]]) -> list[str]:
    """Return the promises that were broken, and whose owners were not told."""
    return [
        f"{id_}: its work is {works.get(id_, 'unknown')}, and all that was reported is {told[id_]}"
        for id_ in day.promised
        if works.get(id_) not in ("in time", "short")
        and id_ not in day.cancelled
        and not told[id_] & TOLD
    ]


@pytest.mark.soak
@pytest.mark.slurm
def test_a_day_of_a_site_keeps_its_promises_or_says_why_not(tmp_path: Path) -> None:
    """From a seed that is reported."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    rng = random.Random(seed)
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path, stack)
        stack.callback(lab.close)
        settings = str(lab.settings)
        lab.port = stack.enter_context(
            serving(tmp_path / "agenda.db", lab.cluster, slurm=settings, agent="earliest")
        ).port
        until(lambda: lab.call("GET", "/v1/assignments")["at"] is not None)
        site = Site(lab, rng)
        for number in range(SCRIPTS):
            site.submit(number)
            if number % 2:
                site.disturb()
            time.sleep(rng.uniform(0, PAUSE_S))
        site.end()
        day = site.day
        told = {
            id_: {one["what"] for one in lab.call("GET", f"/v1/reservations/{id_}")["history"]}
            for id_ in day.promised
        }

        def works() -> dict[str, str]:
            url = f"http://127.0.0.1:{lab.port}"
            shown = CliRunner().invoke(main, ["sacct", "--server", url, "-o", "json"])
            return {one["reservation"]: one["work"] for one in json.loads(shown.stdout)}

        until(lambda: "open" not in [works().get(id_) for id_ in day.promised], 900)
        found = works()
    print(
        f"{SCRIPTS} scripts, {len(day.promised)} promised, {len(day.refused)} refused; "
        f"{dict(day.done)}; work {dict(Counter(found.get(id_) for id_ in day.promised))}; "
        f"told {dict(Counter(word for words in told.values() for word in words))}"
    )
    print("\n".join(day.refused), flush=True)
    faults = faults_of(day, found, told)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("work", "told", "count"),
    [("in time", set(), 0), ("late", {"admitted"}, 1), ("late", {"missed"}, 0),
     ("failed", {"admitted"}, 1), ("unknown", set(), 1)],
)  # fmt: skip
def test_a_broken_promise_of_which_nobody_was_told_is_noticed(
    work: str, told: set[str], count: int
) -> None:
    """The judge of this file can find something; what its owner gave up is no fault."""
    assert len(faults_of(Day({"r": 1}), {"r": work}, {"r": told})) == count
    assert faults_of(Day({"r": 1}, {"r"}), {"r": work}, {"r": told}) == []
