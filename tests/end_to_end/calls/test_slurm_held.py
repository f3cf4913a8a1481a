"""What a job of Slurm holds is promised to no one, and what it gives up is free within a look.

Each end of a reservation, its job waiting or running, and a second promise of the same nodes. The
rows are played on one server, side by side on two nodes each, before the first is judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest

from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from tests.end_to_end.server_process import Client
from tests.end_to_end.slurm_lab import SlurmLab, until

pytestmark = pytest.mark.slurm

#: Nodes of each row that is played, by the label of their machines.
PAIRS = {"one": ("n1", "n2"), "two": ("n3", "n4"), "three": ("n5", "n6")}
CLUSTER = (
    'step = "1s"\nhorizon = "1h"\n'
    + "".join(
        f'[[machines]]\nname = "{label}"\ncount = 2\nlabels = ["{label}"]\n'
        'resources = { cpu = 4, memory = "2000 MiB" }\n'
        for label in PAIRS
    )
    + '[[pools]]\nname = "matlab"\ncount = 3\n'
)  # one of Slurm's four is for others

#: For so long, s, a look may take on a busy machine, and the pause before it.
LOOK_S = 120

#: How long before its slot a reservation is one of Slurm's too.
AHEAD_S = 60


class Row:
    """Promises and jobs of one row, on its own two nodes."""

    def __init__(self, lab: SlurmLab, label: str, name: str) -> None:
        self.lab, self.label, self.name = lab, label, name
        self.nodes = PAIRS[label]
        self.jobs: list[int] = []
        self.said = ""

    def ask(
        self, id_: str, seconds: int, first: float, last: float, nodes: int = 2, more: str = ""
    ) -> Any:
        """Ask for nodes between two times from now, s; return the reservation, None if refused."""
        gang = f'{nodes}, {nodes}, {seconds}, {seconds * nodes}, on="{self.label}"'
        rdl = f"window(atom(<4 cpu{more}>, {gang}), +{round(first)}, +{round(last)})"
        body = {"id": self.id(id_), "rdl": rdl, "tenant": "root", "agent": "earliest"}
        assert self.lab.port is not None
        status, answer = Client(self.lab.port).call("POST", "/v1/reservations", body)
        assert status < 300 or "refusal" in answer, answer
        self.said = str(answer.get("detail"))
        # One that begins at once may have begun before it is answered.
        return answer if status < 300 and answer["state"] in ("accepted", "active") else None

    def id(self, id_: str) -> str:
        """Return the id of a reservation."""
        return f"{self.name}-{id_}"

    def state(self, id_: str) -> str:
        """Return where a reservation stands."""
        return str(self.lab.call("GET", f"/v1/reservations/{self.id(id_)}")["state"])

    def told(self, id_: str) -> list[tuple[str, str]]:
        """Return what its owner was notified of a reservation."""
        found = self.lab.call("GET", f"/v1/reservations/{self.id(id_)}")["history"]
        return [(one["what"], one.get("detail", "")) for one in found]

    def cancel(self, id_: str) -> None:
        """Cancel a reservation."""
        self.lab.call("DELETE", f"/v1/reservations/{self.id(id_)}")

    def submit(
        self, id_: str, command: str = "sleep 900", nodes: int = 2, minutes: int = 1, *more: str
    ) -> int:
        """Submit a job for a reservation as `agenda sbatch` does."""
        comment = promise_comment(self.id(id_), 0, 0)
        return self._sbatch("--hold", f"--comment={comment}", f"--time={minutes}",
                            f"--nodes={nodes}", "--ntasks-per-node=4", *more,
                            f"--wrap={command}")  # fmt: skip

    def submit_urgent(self, minutes: int) -> int:
        """Start a job on both nodes that promised work does not push aside."""
        return self._sbatch("--partition=urgent", f"--time={minutes}", "--exclusive", "--nodes=2",
                            f"--nodelist={','.join(self.nodes)}", "--wrap=sleep 900")  # fmt: skip

    def submit_licensed(self, count: int) -> int:
        """Start a job on some node that promised work pushes aside, with licences."""
        words = (f"--licenses=matlab:{count}", f"--nodelist={self.nodes[0]}", "--wrap=sleep 900")
        job = self._sbatch("--partition=main", "--time=9", "--requeue", *words)
        until(lambda: self.job(job).is_up)
        return job

    def _sbatch(self, *words: str) -> int:
        name = f"--job-name={self.lab.prefix}-{self.name}"
        run = self.lab.slurm.commands.run
        job = int(run("sbatch", "--parsable", name, "--output=/dev/null", *words))
        self.jobs.append(job)
        return job

    def job(self, id_: int) -> SlurmJob:
        """Return a job as Slurm has it."""
        return next(one for one in self.lab.slurm.commands.jobs() if one.id == id_)

    def scancel(self, id_: int) -> None:
        """Cancel a job."""
        self.lab.slurm.commands.cancel([id_])

    def running(self, id_: str, minutes: int = 5) -> int:
        """Promise both nodes from now on, and return a job that runs there."""
        assert self.ask(id_, 60 * minutes, 1, 60 * minutes + 3) is not None, self.said
        job = self.submit(id_, minutes=minutes)
        until(lambda: self.job(job).is_up)
        return job

    def waiting(self, id_: str, in_s: int = 100) -> tuple[int, float]:
        """Promise both nodes for later; return a job that was bound to them, and its begin."""
        begin_s = time.time() + in_s
        assert self.ask(id_, 60, in_s, in_s + 60) is not None, self.said
        job = self.submit(id_)
        until(lambda: self.job(job).partition == "agenda" and not self.job(job).is_held)
        return job, begin_s

    def wait_until_held(self) -> None:
        """Wait until the Plan knows that a job has a node that is not drained."""

        def is_held() -> bool:
            outages = self.lab.call("GET", "/v1/cluster/outages")["outages"]
            mine = [one for one in outages if one["machines"] == self.label]
            return any(one["kind"] == "reserved" for one in mine)

        until(is_held, LOOK_S)

    def is_unbound(self, job: int) -> bool:
        """Return whether a job waits without any right to promised nodes."""
        found = self.job(job)
        return found.is_held and found.partition == "scavenge" and not found.reservations

    def keep(self, id_: str, answer: Any, nodes: int = 2) -> None:
        """Run a job of a promise, and see that it was kept."""
        assert answer is not None, self.said
        job = self.submit(id_, "sleep 2", nodes)
        until(lambda: self.job(job).state == "COMPLETED")
        begin_s = datetime.fromisoformat(answer["begin_at"]).timestamp()
        end_s = datetime.fromisoformat(answer["finish_at"]).timestamp()
        assert begin_s - 2 <= self.job(job).started_s
        assert self.job(job).ends_s <= end_s

    def keep_once_free(self, id_: str, nodes: int = 2) -> None:
        """Ask until the nodes are free, within some looks, and keep that promise."""
        answer = until(lambda: self.ask(id_, 60, 1, 90, nodes), LOOK_S)
        self.keep(id_, answer, nodes)

    def keep_from(self, id_: str, begin_s: float, nodes: int = 2) -> None:
        """Promise the nodes for when a first job would have begun, and keep that promise.

        Repairs of the Plan that other rows caused may be under way.
        """

        def ask() -> Any:
            in_s = begin_s - time.time()
            return self.ask(id_, 60, in_s, in_s + 62, nodes)

        self.keep(id_, until(ask, 20), nodes)

    def drain(self, state: str) -> None:
        """Drain the first node, or resume it."""
        change = ("scontrol", "update", f"nodename={self.nodes[0]}", f"state={state}")
        self.lab.slurm.commands.run(*change, *(["reason=row"] if state == "drain" else []))

    def clear(self) -> None:
        """Leave nothing behind for the next row."""
        if any("DRAIN" in one.flags for one in self.lab.slurm.commands.nodes()
               if one.name in self.nodes):  # fmt: skip
            self.drain("resume")
        self.lab.slurm.commands.cancel(self.jobs)
        for id_ in ("first", "second", "third"):
            assert self.lab.port is not None
            Client(self.lab.port).call("DELETE", f"/v1/reservations/{self.id(id_)}")
        until(lambda: not any(self.job(job).is_open for job in self.jobs))
        until(lambda: self.ask("free", 100, 1, 103), LOOK_S)
        self.cancel("free")


def cancelled_while_its_job_waits(row: Row) -> None:
    """The job does not begin in the slot that another has now."""
    job, begin_s = row.waiting("first")
    row.cancel("first")
    until(lambda: row.is_unbound(job), LOOK_S)
    row.keep_from("second", begin_s)
    assert row.is_unbound(job)


def cancelled_while_its_job_runs(row: Row) -> None:
    """The nodes are promised when the job has ended, and not before."""
    job = row.running("first")
    row.cancel("first")
    row.wait_until_held()
    assert row.ask("second", 20, 1, 30) is None
    row.scancel(job)
    row.keep_once_free("third")


def degraded_while_its_job_waits(row: Row) -> None:
    """One of two nodes is drained: the other is another's, and the job does not begin there."""
    job, begin_s = row.waiting("first")
    row.drain("drain")
    until(lambda: row.is_unbound(job), LOOK_S)
    row.keep_from("second", begin_s, nodes=1)
    assert row.is_unbound(job)


def degraded_while_its_job_runs(row: Row) -> None:
    """Slurm lets it run on: the node that was not drained is free when it has ended."""
    job = row.running("first")
    row.drain("drain")
    row.wait_until_held()
    until(lambda: row.state("first") in ("degraded", "failed"), LOOK_S)
    assert row.job(job).is_up
    assert row.ask("second", 20, 1, 30, nodes=1) is None
    row.scancel(job)
    row.keep_once_free("third", nodes=1)


def its_job_may_run_for_longer(row: Row) -> None:
    """An operator changes the limit: what is promised next begins when the job has ended."""
    job = row.running("first", minutes=1)
    row.lab.slurm.commands.update_job(job, timelimit="4")
    ends_s = row.job(job).ends_s
    row.wait_until_held()
    assert row.ask("second", 20, ends_s - time.time() - 60, ends_s - time.time() - 5) is None
    third = row.ask("third", 20, 1, 400)
    assert third is not None
    assert datetime.fromisoformat(third["begin_at"]).timestamp() >= ends_s - 1
    until(lambda: "work_runs_on" in dict(row.told("first")), LOOK_S)
    assert row.job(job).is_up
    path = f"/v1/reservations/{row.id('first')}"
    assert row.lab.call("GET", path)["runs_on"] is True
    row.scancel(job)
    until(lambda: "runs_on" not in row.lab.call("GET", path), LOOK_S)


def its_job_can_never_start(row: Row) -> None:
    """Its owner is notified why, and when its window is over the job leaves the queue."""
    failed = row._sbatch("--partition=main", "--time=1", "--nodes=1", "--wrap=exit 1")
    until(lambda: not row.job(failed).is_open)
    assert row.ask("first", 30, 1, 75) is not None
    job = row.submit("first", "sleep 1", 2, 1, f"--dependency=afterok:{failed}")
    until(lambda: row.state("first") == "failed")
    until(lambda: not row.job(job).is_open)
    why = f"job {job} waits in Slurm: DependencyNeverSatisfied"
    assert ("work_waits", why) in row.told("first")
    assert any(what == "missed" and why in detail for what, detail in row.told("first"))


def its_job_is_cancelled_while_it_waits(row: Row) -> None:
    """Slurm's scancel gives the reservation back."""
    job, _ = row.waiting("first")
    row.scancel(job)
    until(lambda: row.state("first") == "completed", LOOK_S)


def its_job_is_cancelled_while_it_runs(row: Row) -> None:
    """The rest is free within a look."""
    row.scancel(row.running("first"))
    until(lambda: row.state("first") == "completed", LOOK_S)
    row.keep("second", row.ask("second", 60, 1, 90))


def its_job_fails(row: Row) -> None:
    """As one that has ended well."""
    assert row.ask("first", 300, 1, 303) is not None
    row.submit("first", "sleep 1; exit 3", minutes=5)
    until(lambda: row.state("first") == "completed", LOOK_S)
    row.keep("second", row.ask("second", 60, 1, 90))


def a_job_runs_that_is_not_pushed_aside(row: Row) -> None:
    """Nothing is promised on its nodes before its end; then they are free."""
    job = row.submit_urgent(5)
    row.wait_until_held()
    assert row.ask("first", 20, 1, 60) is None
    row.scancel(job)
    row.keep_once_free("second")


def a_job_comes_that_is_not_pushed_aside(row: Row) -> None:
    """What was promised there moves to after its end, and its owner can read so."""
    # Later than Slurm is notified of it: else no job of four minutes could begin before.
    assert row.ask("first", 12, AHEAD_S + 100, 500) is not None
    job = row.submit_urgent(4)
    until(lambda: row.job(job).is_up)

    def begins_s() -> float:
        found = row.lab.call("GET", f"/v1/reservations/{row.id('first')}")
        return datetime.fromisoformat(found["begin_at"]).timestamp() if found["begin_at"] else 0.0

    until(lambda: begins_s() >= row.job(job).ends_s - 1, LOOK_S)
    history = row.lab.call("GET", f"/v1/reservations/{row.id('first')}")["history"]
    assert len(history) > 1


def a_job_has_licences_of_the_pool(row: Row) -> None:
    """Slurm takes none from it: what it has is promised when it has ended; the rest before."""
    job = row.submit_licensed(3)

    def ask(id_: str, count: int, last: int) -> Any:
        return row.ask(id_, 60, 1, last, 1, f", {count} matlab")

    def is_refused() -> bool:
        refused = ask("first", 2, 62) is None
        if not refused:
            row.cancel("first")
        return refused

    until(is_refused, LOOK_S)
    answer = ask("second", 1, 90)
    assert answer is not None, row.said
    first = row.submit("second", "sleep 2", 1, 1, "--licenses=matlab:1")
    until(lambda: row.job(first).state == "COMPLETED")
    row.scancel(job)
    answer = until(lambda: ask("third", 2, 90), LOOK_S)
    third = row.submit("third", "sleep 2", 1, 1, "--licenses=matlab:2")
    until(lambda: row.job(third).state == "COMPLETED")
    assert row.job(third).ends_s <= datetime.fromisoformat(answer["finish_at"]).timestamp()


ROWS: list[Callable[[Row], None]] = [
    cancelled_while_its_job_waits,
    cancelled_while_its_job_runs,
    degraded_while_its_job_waits,
    degraded_while_its_job_runs,
    its_job_may_run_for_longer,
    its_job_can_never_start,
    its_job_is_cancelled_while_it_waits,
    its_job_is_cancelled_while_it_runs,
    its_job_fails,
    a_job_runs_that_is_not_pushed_aside,
    a_job_comes_that_is_not_pushed_aside,
    a_job_has_licences_of_the_pool,
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Play all rows, three at a time."""
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path_factory.mktemp("slurm"), stack)
        lab.cluster.write_text(CLUSTER)
        machines = {
            f"{label}-{index}": node
            for label, nodes in PAIRS.items()
            for index, node in enumerate(nodes)
        }
        lab.settings = lab.slurm.settings_file(
            lab.folder / "slurm.toml", machines, ahead_s=AHEAD_S, licenses=["matlab"]
        )
        lab.prefix = lab.settings.read_text().split('"')[1]
        stack.callback(lab.close)
        lab.serve()
        until(lambda: lab.call("GET", "/v1/assignments")["at"] is not None)
        found: dict[str, Future[None]] = {play.__name__: Future() for play in ROWS}
        with ThreadPoolExecutor(len(PAIRS)) as pool:
            for place, label in enumerate(PAIRS):
                pool.submit(_play_all, lab, label, ROWS[place :: len(PAIRS)], found)
        yield found


def _play_all(
    lab: SlurmLab, label: str, rows: list[Callable[[Row], None]], found: dict[str, Future[None]]
) -> None:
    for number, play in enumerate(rows):
        row = Row(lab, label, f"{label}{number}")
        try:
            play(row)
            found[play.__name__].set_result(None)
        except BaseException as error:  # noqa: BLE001 the row's own test raises it
            found[play.__name__].set_exception(error)
        finally:
            row.clear()


@pytest.mark.parametrize("row", [play.__name__ for play in ROWS])
def test_what_a_job_holds_is_promised_to_nobody(row: str, played: dict[str, Future[None]]) -> None:
    """And every second promise of its nodes was kept."""
    assert played[row].result() is None
