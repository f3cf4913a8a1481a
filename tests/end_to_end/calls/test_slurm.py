"""A real Slurm under a real server: promises made over HTTP are kept on its nodes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from click.testing import CliRunner

from dispatch.backends.slurm.control.commands import instant_word
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.main import main
from tests.end_to_end.slurm_lab import NODES, SlurmLab, part, until

pytestmark = pytest.mark.slurm

#: Numbers of the applications that fill the nodes: an id is taken for as long as the server runs.
_FILLS = count()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Return a server on a Slurm."""
    with ExitStack() as stack:
        found = SlurmLab(tmp_path_factory.mktemp("slurm"), stack)
        stack.callback(found.close)
        found.serve()
        yield found


@pytest.fixture
def full_lab(lab: SlurmLab) -> Iterator[SlurmLab]:
    """Return the same, every node taken: by elastic work, and one by another user's Slurm job.

    The elastic work of the first test that asks for it is `fill-0`.
    """
    fill = f"fill-{next(_FILLS)}"
    lab.submit(fill, part("c", 1, "sleep 300"), part("e", 4, "sleep 300", core=False))
    until(lambda: len(lab.running(fill)) == 5)
    lab.slurm.commands.run(
        "sbatch", "--parsable", f"--job-name={lab.prefix}-other", "--partition=scavenge",
        "--requeue", "--nodes=1", "--exclusive", "--output=/dev/null", "--wrap=sleep 300",
    )  # fmt: skip
    until(lambda: lab.slurm.jobs(f"{lab.prefix}-other")[-1].is_up)
    yield lab
    lab.call("DELETE", f"/v1/applications/{fill}")
    lab.slurm.clear(f"{lab.prefix}-other")
    until(lambda: not lab.running(fill))


def test_a_gang_starts_in_its_window_and_best_effort_makes_way_and_returns(
    full_lab: SlurmLab,
) -> None:
    """Five nodes are given up for it, and filled again when it has ended."""
    lab = full_lab
    began_s = int(time.time())
    answer = lab.reserve("gang", "window(atom(<4 cpu>, 5, 5, 60, 300), +4, +94)")
    lab.submit("mpi", part("rank", 5, "sleep 4"), reservation="gang")
    assert answer["state"] in ("accepted", "active")
    until(lambda: any(one.name.startswith(lab.prefix) for one in lab.slurm.commands.reservations()))

    until(lambda: lab.application("mpi")["state"] == "completed")
    ranks = [job for job in lab.jobs("mpi") if job.state == "COMPLETED"]
    assert len(ranks) == 5
    assert {job.partition for job in ranks} == {"agenda"}
    assert len({job.nodes for job in ranks}) == 5
    assert all(began_s + 3 <= job.started_s and job.ends_s <= began_s + 95 for job in ranks)
    last = max(job.started_s for job in ranks)
    kept = [job for job in lab.jobs("fill-0") if job.started_s < last and job.ends_s > last]
    assert len(kept) <= 1  # the rest had been released

    until(lambda: len(lab.running("fill-0")) >= 4)


def test_a_driver_and_its_workers_start_together_on_nodes_of_their_own(
    full_lab: SlurmLab,
) -> None:
    """Each member is jobs of the promised partition, sent in one cycle; others make way for all."""
    lab = full_lab
    until(lab.is_unreserved)
    asked_s = time.time()
    job = (
        "window(together(driver: atom(<4 cpu>, 1, 1, 90, 90), "
        "workers: atom(<1 cpu>, 16, 16, 90, 1440)), +4, +124)"
    )
    lab.reserve("training", job)
    parts = (part("driver", 1, "sleep 6"), part("workers", 16, "sleep 6", cpu=1))
    bound = [one | {"atom": one["name"]} for one in parts]
    lab.submit("train", *bound, reservation="training", complete="all")
    until(lambda: lab.application("train")["state"] == "completed")

    done = [job for job in lab.jobs("train") if job.state == "COMPLETED"]
    drivers = [job for job in done if "/driver/" in job.name]
    workers = [job for job in done if "/workers/" in job.name]
    assert (len(drivers), len(workers)) == (1, 16)
    assert {job.partition for job in done} == {"agenda"}
    assert drivers[0].nodes not in {job.nodes for job in workers}
    assert all(job.ends_s <= asked_s + 125 for job in done)


def test_components_grow_into_idle_nodes_and_make_way_for_a_promise(lab: SlurmLab) -> None:
    """One elastic becomes four; a gang of four nodes is done in time; then it is four again."""
    until(lab.is_unreserved)  # the gang has no place alongside what earlier tests reserved
    lab.submit(
        "wide", part("c", 1, "sleep 300"), {**part("e", 1, "sleep 300", core=False), "grow": 3}
    )
    until(lambda: len(lab.running("wide", "e")) == 4)

    def grown() -> list[tuple[int, int]]:
        found = lab.application("wide")["components"]
        return [(one["wanted"], one["grown"]) for one in found if one["name"] == "e"]

    until(lambda: grown() == [(1, 3)])  # Slurm has it before it is recorded

    asked_s = time.time()
    lab.reserve("narrow", "window(atom(<4 cpu>, 4, 4, 60, 240), +4, +94)")
    lab.submit("squeeze", part("w", 4, "sleep 2"), reservation="narrow")
    until(lambda: lab.application("squeeze")["state"] == "completed")
    done = [job for job in lab.jobs("squeeze") if job.state == "COMPLETED"]
    assert len(done) == 4
    assert all(job.ends_s <= asked_s + 95 for job in done)
    last = max(job.started_s for job in done)
    kept = [job for job in lab.jobs("wide") if job.started_s < last and job.ends_s > last]
    assert len(kept) <= 2  # of six nodes

    until(lambda: len(lab.running("wide", "e")) == 4)
    lab.call("DELETE", "/v1/applications/wide")
    until(lambda: not lab.running("wide"))


def test_what_was_promised_on_a_killed_node_is_kept_on_another(lab: SlurmLab) -> None:
    """Its slurmd is killed before the window: the Plan moves, Slurm's reservation follows."""
    rdl = "window(atom(<4 cpu>, 2, 2, 60, 120), +30, +180)"
    body = {"id": "late", "rdl": rdl, "tenant": "root", "agent": "earliest"}
    lab.call("POST", "/v1/reservations", body)
    before = lab.slots("late")
    assert len(before) == 2
    lost = sorted(before)[0]
    (node,) = _nodes({lost})
    lab.slurm.kill(node)
    try:
        until(lambda: lost not in lab.slots("late"))
        # Submitted sooner, it might run somewhere before its time.
        until(lambda: lab.call("GET", "/v1/reservations/late")["state"] == "active")
        lab.submit("job", part("w", 2, "sleep 2"), reservation="late")
        until(lambda: lab.application("job")["state"] == "completed", 240)
        done = [job for job in lab.jobs("job") if job.state == "COMPLETED"]
        assert len(done) == 2
        assert {name for job in done for name in job.nodes} <= _nodes(lab.slots("late"))
        assert lab.call("GET", "/v1/cluster")["outages"]
    finally:
        lab.slurm.start(node)
        lab.slurm.wait_for_nodes()
    until(lambda: _is_up(lab, lost), 300)


def _nodes(machines: set[str]) -> set[str]:
    return {f"n{int(name.partition('-')[2]) + 1}" for name in machines}


def _is_up(lab: SlurmLab, machine: str) -> bool:
    lab.submit(f"try-{time.monotonic_ns()}", part("w", NODES, "true"))
    try:
        return bool(until(lambda: len(_nodes_of_tries(lab)) == NODES, 40))
    except TimeoutError:
        return False


def _nodes_of_tries(lab: SlurmLab) -> set[str]:
    return {name for job in lab.slurm.jobs(f"{lab.prefix}/try-") for name in job.nodes}


def test_what_was_promised_where_others_reserve_nodes_is_kept_elsewhere(lab: SlurmLab) -> None:
    """An administrator plans maintenance of its nodes: the promise moves while there is time."""
    rdl = "window(atom(<4 cpu>, 2, 2, 40, 80), +70, +170)"
    body = {"id": "moved", "rdl": rdl, "tenant": "root", "agent": "earliest"}
    lab.call("POST", "/v1/reservations", body)
    before = lab.slots("moved")
    name, nodes = f"maint-{lab.prefix}", _nodes(before)
    start_s = int(time.time()) + 60
    lab.slurm.commands.run(
        "scontrol", "create", "reservation", f"reservationname={name}", "users=root",
        f"starttime={instant_word(start_s)}", "duration=5", f"nodes={','.join(sorted(nodes))}",
        "flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    try:
        until(lambda: lab.slots("moved") and not before & lab.slots("moved"))
        until(lambda: len(_reserved(lab)) == 1)
        lab.submit("upkeep", part("w", 2, "sleep 2"), reservation="moved")
        until(lambda: lab.application("upkeep")["state"] == "completed", 240)
        done = [job for job in lab.jobs("upkeep") if job.state == "COMPLETED"]
        assert len(done) == 2
        assert all(job.ends_s <= start_s + 111 for job in done)
    finally:
        lab.slurm.commands.delete_reservation(name)
    until(lambda: not _reserved(lab))


def test_work_starts_on_nodes_that_others_reserved_for_later(lab: SlurmLab) -> None:
    """Slurm starts no job that might run into maintenance: each ends before it by its limit."""
    name = f"later-{lab.prefix}"
    nodes = ",".join(f"n{n}" for n in range(1, NODES + 1))
    lab.slurm.commands.run(
        "scontrol", "create", "reservation", f"reservationname={name}", "users=root",
        f"starttime={instant_word(int(time.time()) + 1000)}", "duration=5", f"nodes={nodes}",
        "flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    try:
        until(lambda: len(_reserved(lab)) == 1)
        lab.reserve("before", "window(atom(<4 cpu>, 2, 2, 6, 12), +5, +60)")
        lab.submit("covered", part("w", 2, "sleep 2"), reservation="before")
        lab.submit("lent", part("w", 2, "sleep 2"))
        for id_ in ("covered", "lent"):
            until(lambda id_=id_: lab.application(id_)["state"] == "completed")  # type: ignore[misc]
    finally:
        lab.slurm.commands.delete_reservation(name)
    until(lambda: not _reserved(lab))


def _reserved(lab: SlurmLab) -> list[object]:
    """Return the outages for what others have reserved."""
    outages = lab.call("GET", "/v1/cluster/outages")["outages"]
    return [one for one in outages if one["kind"] == "reserved"]


def test_a_script_is_reserved_and_submitted_in_one_step(lab: SlurmLab) -> None:
    """It waits held, is bound to its reservation, runs on its nodes, and gives the rest back."""
    script = lab.folder / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4\n#SBATCH --output=/dev/null\n"
        "#AGENDA --deadline=90s --work=120s\n"
        f"echo $SLURM_JOB_NUM_NODES $1 > {lab.folder}/said\n"
    )
    url = f"http://127.0.0.1:{lab.port}"
    answer = CliRunner().invoke(
        main,
        ["sbatch", "--server", url, f"--id=script-{lab.prefix}", "-J", "mine", str(script), "word"],
    )
    assert answer.exit_code == 0, answer.output
    job = int(answer.output.split()[3])
    id_ = f"script-{lab.prefix}"
    listing = CliRunner().invoke(main, ["squeue", "--server", url, "-o", "json"])
    entry = next(one for one in json.loads(listing.output) if one["job"] == job)
    assert entry["reservation"] == id_
    assert entry["promised"] in ("accepted", "active")  # on a busy machine it has begun

    until(lambda: (lab.folder / "said").exists())
    found = next(one for one in lab.slurm.commands.jobs() if one.id == job)
    assert (lab.folder / "said").read_text() == "2 word\n"
    assert (found.partition, len(found.nodes)) == ("agenda", 2)
    assert [name.startswith(lab.prefix) for name in found.reservations] == [True]
    until(lambda: lab.call("GET", f"/v1/reservations/{id_}")["state"] == "completed")

    report = CliRunner().invoke(main, ["sacct", "--server", url, "-o", "json"])
    said = next(one for one in json.loads(report.stdout) if one["reservation"] == id_)
    assert (said["promise"], said["work"]) == ("kept", "in time")
    assert (said["jobs"], said["promised_s"]) == (1, 120)


def test_a_script_whose_slot_passed_while_no_server_led_has_another(lab: SlurmLab) -> None:
    """It waits held through its eight seconds; the server that comes back plans them again."""
    id_ = f"late-{lab.prefix}"
    rdl = "deadline(atom(<4 cpu>, 1, 1, 8, 8), +300)"
    lab.call(
        "POST", "/v1/reservations", {"id": id_, "rdl": rdl, "tenant": "root", "agent": "earliest"}
    )
    assert lab.server is not None
    lab.server.kill()
    answer = lab.slurm.commands.run(
        "sbatch", "--parsable", "--hold", f"--comment={promise_comment(id_, 0, 8)}", "--time=1",
        f"--job-name={lab.prefix}-late", "--nodes=1", "--output=/dev/null", "--wrap=sleep 2",
    )  # fmt: skip
    time.sleep(14)
    lab.serve()

    def found() -> SlurmJob:
        return next(one for one in lab.slurm.commands.jobs() if one.id == int(answer))

    until(lambda: found().state == "COMPLETED", 300)
    assert (found().partition, len(found().nodes)) == ("agenda", 1)
    history = lab.call("GET", f"/v1/reservations/{id_}")["history"]
    assert [entry["what"] for entry in history][:3] == ["admitted", "missed", "restored"]


def test_a_script_that_is_refused_submits_nothing(lab: SlurmLab) -> None:
    """Seven nodes of six: exit code 3 or an error with the reason, and no job that waits."""
    script = lab.folder / "large.sh"
    script.write_text("#!/bin/bash\n#AGENDA --deadline=5m\n#SBATCH -N 7 -t 1\ntrue\n")
    url = f"http://127.0.0.1:{lab.port}"
    answer = CliRunner().invoke(main, ["sbatch", "--server", url, "-J", "large", str(script)])
    assert answer.exit_code in (1, 3)
    assert not [job for job in lab.slurm.commands.jobs() if job.name == "large" and job.is_open]


def test_a_script_that_slurm_took_without_an_answer_leaves_nothing(
    lab: SlurmLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch says that the answer did not come: the job is cancelled, and nothing is reserved."""
    script, own = lab.folder / "unheard.sh", lab.folder / "bin" / "sbatch"
    script.write_text("#!/bin/bash\n#AGENDA --deadline=9m\n#SBATCH -t 1 -J unheard\ntrue\n")
    own.parent.mkdir(exist_ok=True)
    real = shutil.which("sbatch")
    own.write_text(f'#!/bin/bash\n{real} "$@" > /dev/null && echo no answer >&2\nexit 1\n')
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own.parent}:{os.environ['PATH']}")
    url = f"http://127.0.0.1:{lab.port}"
    before = len(lab.call("GET", "/v1/reservations")["reservations"])
    answer = CliRunner().invoke(main, ["sbatch", "--server", url, str(script)])
    assert answer.exit_code == 1
    assert "no answer; job" in answer.output
    jobs = [job for job in lab.slurm.commands.jobs() if job.name == "unheard"]
    assert [job.is_open for job in jobs] == [False]
    assert len(lab.call("GET", "/v1/reservations")["reservations"]) == before


def test_restarts_in_mid_flight_lose_nothing_and_start_nothing_twice(lab: SlurmLab) -> None:
    """The server is killed and slurmctld restarted while a gang runs: it ends as one."""
    notes = lab.folder / "notes"
    go = lab.folder / "go"
    command = f"echo $AGENDA_INDEX >> {notes}; while [ ! -e {go} ]; do sleep 0.2; done"
    lab.submit("long", part("w", 4, command, cpu=2), part("e", 2, command, core=False, cpu=1))
    until(lambda: notes.exists() and len(notes.read_text().split()) == 6)
    assert lab.server is not None
    lab.server.kill()
    lab.slurm.kill("slurmctld")
    lab.slurm.start("slurmctld")
    lab.serve()
    until(lambda: lab.application("long")["state"] == "running", 300)
    go.touch()
    until(lambda: lab.application("long")["state"] == "completed")
    assert len(notes.read_text().split()) == 6
    assert {job.state for job in lab.jobs("long")} <= {"COMPLETED", "CANCELLED"}
