"""A job file on real executors: stages in order, retries, and a kill before they start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.cli.kit.errors import ExitCode
from tests.end_to_end.lab import CLUSTER, LONG_S, Lab
from tests.patience import eventually

JOB = """
id = "nightly"
rdl = '''
window(order(
  extract: atom(<1 cpu>, 2, 2, 4s, 8s),
  transform: atom(<1 cpu>, 1, 1, 4s, 4s),
  publish: atom(<1 cpu>, 1, 1, 4s, 4s)), +0, +20s)
'''

[stages.extract]
command = ["sh", "-c", "echo extract $AGENDA_INDEX >> NOTES; echo read $AGENDA_INDEX; sleep 1"]

[stages.transform]
retries = 2
backoff = "1s"
timeout = "60s"
success = [0, 7]
environment = { WORD = "two words" }
directory = "FOLDER"
command = '''
echo "transform $WORD $PWD" >> NOTES
if test $(grep -c transform NOTES) = 1; then echo no such table >&2; exit 3; fi
exit 7
'''

[stages.publish]
command = ["sh", "-c", "echo publish >> NOTES"]
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a server that waits for executors."""
    with ExitStack() as stack:
        found = Lab(tmp_path, stack)
        found.serve(LONG_S)
        yield found


def agenda(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the server."""
    command = [sys.executable, "-m", "service.cli.main", *words]
    server = ["--server", f"http://127.0.0.1:{lab.port}"]
    return subprocess.run([*command, *server], capture_output=True, text=True, check=False)


def job_file(lab: Lab, text: str = JOB) -> str:
    """Write the job; return where."""
    path = lab.folder / "nightly.toml"
    text = text.replace("NOTES", str(lab.notes)).replace("FOLDER", str(lab.folder))
    path.write_text(text)
    return str(path)


def test_a_job_runs_its_stages_in_order_whatever_is_killed_before(lab: Lab) -> None:
    """kill -9 of the server between the commit and the first start loses nothing.

    Each bundle runs the command once, a failed stage is tried again, and the next one waits for
    that.
    """
    ran = agenda(lab, "run", job_file(lab))
    assert ran.returncode == 0, ran.stderr
    assert lab.server is not None
    lab.server.kill()
    lab.serve(LONG_S)
    lab.execute("lab-0", "lab-1")
    eventually(lambda: lab.state("nightly.publish") in ("completed", "failed"))

    words = f"transform two words {lab.folder}"
    assert sorted(lab.lines()[:2]) == ["extract 0", "extract 1"]
    assert lab.lines()[2:] == [words, words, "publish"]
    assert [(run["state"], run["code"]) for run in lab.runs("nightly.transform")] == [
        ("failed", 3),
        ("exited", 7),
    ]
    read = agenda(lab, "logs", "nightly", "--stage", "extract", "--follow")
    assert sorted(read.stdout.splitlines()) == ["read 0", "read 1"]
    every = agenda(lab, "logs", "nightly")
    assert sorted(every.stdout.splitlines()) == ["read 0", "read 1"]
    assert every.stderr.count("==> ") == 3
    assert "no such table" in every.stderr
    stages = lab.call("GET", "/v1/pipelines/nightly")["stages"]
    assert [(one["state"], one["retries"]) for one in stages] == [
        ("completed", 0),
        ("completed", 1),
        ("completed", 0),
    ]


def test_a_stage_that_takes_too_long_fails_and_so_does_what_follows(lab: Lab) -> None:
    """Its run is stopped with all that it started; the next stage names it."""
    text = JOB.replace('timeout = "60s"', 'timeout = "1s"').replace("exit 7", "sleep 600")
    text = text.replace("retries = 2", "retries = 0")
    text = text.replace("exit 3", "sleep 600")
    lab.execute("lab-0", "lab-1")
    assert agenda(lab, "run", job_file(lab, text)).returncode == 0
    eventually(lambda: lab.state("nightly.publish") == "failed")

    (run,) = lab.runs("nightly.transform")
    why = "it ran for longer than its timeout of 1 s"
    assert (run["state"], run["code"], run["detail"]) == ("failed", 124, why)
    shown = lab.call("GET", "/v1/applications/nightly.publish")
    assert shown["reason"] == f"nightly.transform failed: {why}"


def test_a_job_that_is_wrong_or_refused_leaves_nothing(lab: Lab) -> None:
    """A check says what, stage by stage; a run says it too, and by its exit code."""
    wrong = job_file(lab, JOB.replace("[stages.publish]", "[stages.publsh]"))
    checked = agenda(lab, "run", "--check", wrong)
    assert checked.returncode == ExitCode.ERROR, checked.stderr
    assert "/stages/publsh" in checked.stderr
    assert "did you mean 'publish'?" in checked.stderr
    large = job_file(lab, JOB.replace("<1 cpu>, 2, 2, 4s, 8s", "<1 cpu>, 9, 9, 4s, 36s"))
    assert agenda(lab, "run", large).returncode == ExitCode.REFUSED
    good = agenda(lab, "run", "--check", job_file(lab))

    assert good.returncode == 0, good.stderr
    assert "nightly would be accepted" in good.stdout
    assert lab.call("GET", "/v1/applications")["applications"] == []


#: A run each 15 seconds; the second one's `publish` fails where a file is not there.
RECURRING = """
id = "nightly"
rdl = '''
every(15s, window(order(extract: atom(<1 cpu>, 1, 1, 4s, 4s), publish: atom(<1 cpu>, 1, 1, 4s, 4s)),
  0, 14s), times=40)
'''

[stages.extract]
command = "echo extract $AGENDA_JOB_RUN >> NOTES; echo read $AGENDA_JOB $AGENDA_JOB_RUN"

[stages.publish]
command = '''
test $AGENDA_JOB_RUN != 1 || test -e FOLDER/table || exit 3
echo publish $AGENDA_JOB_RUN >> NOTES
'''
"""


def test_each_run_of_a_job_that_recurs_is_done_once(lab: Lab) -> None:
    """Also across a kill of the server; one that failed is run again by hand, and logs are by run.

    The runs are looked at, and run again, by the command line.
    """
    lab.execute("lab-0", "lab-1")
    ran = agenda(lab, "run", job_file(lab, RECURRING))
    assert ran.returncode == 0, ran.stderr
    assert "it recurs" in ran.stdout
    eventually(lambda: "extract 0" in lab.lines())
    assert lab.server is not None
    lab.server.kill()
    lab.serve(LONG_S)
    eventually(lambda: run_states(lab)[:3] == ["succeeded", "failed", "succeeded"])
    listed = agenda(lab, "pipelines", "runs", "nightly")
    assert "publish failed" in listed.stdout
    assert "publish 1" not in lab.lines()
    (lab.folder / "table").touch()
    again = agenda(lab, "pipelines", "again", "nightly", "--run", "1")
    assert again.returncode == 0, again.stderr
    eventually(lambda: run_states(lab)[1] == "succeeded")

    notes = lab.lines()
    assert {f"{stage} {run}" for stage in ("extract", "publish") for run in range(3)} <= {*notes}
    assert len(notes) == len({*notes}), lab.story(["nightly.extract@0", "nightly.publish@0"])
    read = agenda(lab, "logs", "nightly", "--run", "1", "--stage", "extract")
    assert read.stdout == "read nightly 1\n"
    wrong = agenda(lab, "logs", "nightly", "--run", "77")
    assert (wrong.returncode, "run 77 has not begun" in wrong.stderr) == (1, True)


def run_states(lab: Lab) -> list[str]:
    """Return the state of each run of the job, the oldest first."""
    runs = lab.call("GET", "/v1/pipelines/nightly/runs")["runs"]
    return [str(one["state"]) for one in reversed(runs)]


TRAINING = """
id = "training"
rdl = '''
window(order(
  train: together(
    driver: atom(<1 cpu>, 1, 1, 20s, 20s),
    workers: atom(<20m cpu, 2 MiB memory>, 64, 64, 20s, 1280s)),
  publish: atom(<1 cpu>, 1, 1, 4s, 4s)), +0s, +120s)
'''

[stages.driver]
command = "echo driver $AGENDA_COMPONENT >> NOTES"

[stages.workers]
command = "echo worker $AGENDA_INDEX >> NOTES"

[stages.publish]
command = "echo publish >> NOTES"
"""


def test_a_driver_and_64_workers_start_together_and_what_follows_waits_for_all(lab: Lab) -> None:
    """They are one application: nothing runs while its driver has no machine, then all of it."""
    lab.execute("lab-0", "lab-1")
    ran = agenda(lab, "run", job_file(lab, TRAINING))
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: lab.state("training.publish") in ("completed", "failed"))

    lines = lab.lines()
    assert sorted(lines[:-1]) == sorted(
        ["driver driver", *(f"worker {index}" for index in range(64))]
    )
    assert lines[-1] == "publish"
    shown = lab.call("GET", "/v1/applications/training.train")["application"]
    assert [(one["name"], one["count"], one["atom"]) for one in shown["components"]] == [
        ("driver", 1, "0.0.0"),
        ("workers", 64, "0.0.1"),
    ]
    stages = lab.call("GET", "/v1/pipelines/training")["stages"]
    assert [(one["name"], one["state"], one["after"]) for one in stages] == [
        ("train", "completed", []),
        ("publish", "completed", ["train"]),
    ]


#: Two racks of two machines, of which each holds the driver and all workers.
RACKS = CLUSTER.partition("[[machines]]")[0] + "".join(
    f'[[machines]]\nname = "{rack}"\ncount = 2\ndomains = {{ rack = "{rack}" }}\n'
    'resources = { cpu = 2, memory = "512 MiB" }\n'
    for rack in ("left", "right")
)


@pytest.mark.printed
def test_a_driver_and_64_workers_move_to_another_rack_and_run_there(tmp_path: Path) -> None:
    """The rack of their slots is lost before they start: all move, at the same times, and run.

    The executors of both racks are there before the window begins. A request is placed late in its
    window, so there is time to lose the rack.
    """
    text = TRAINING.replace("1280s)),", "1280s), within=rack),")
    with ExitStack() as stack:
        lab = Lab(tmp_path, stack, RACKS)
        lab.serve(LONG_S)
        lab.execute("left-0", "left-1", "right-0", "right-1")
        eventually(lambda: lab.call("GET", "/v1/executors")["executors"])
        ran = agenda(lab, "run", job_file(lab, text.replace("echo worker", "echo $AGENDA_MACHINE")))
        assert ran.returncode == 0, ran.stderr
        before = _racks_of_training(lab)
        (lost,) = before
        outage = {"machines": lost, "count": 2, "end": "+1h"}
        affected = lab.call("POST", "/v1/cluster/outages", outage)["affected"]
        assert [(one["id"], one["fate"]) for one in affected] == [("training", "relocated")]
        (there,) = _racks_of_training(lab)
        assert there != lost
        eventually(lambda: lab.state("training.publish") in ("completed", "failed"))

    runs = lab.lines()
    assert [line for line in runs if line.startswith("driver")] == ["driver driver"]
    workers = [line.partition("-")[0] for line in runs if line.startswith(("left", "right"))]
    assert workers == [there] * 64
    assert runs[-1] == "publish"


def _racks_of_training(lab: Lab) -> set[str]:
    """Return the racks in which the driver and the workers have slots."""
    atoms = lab.call("GET", "/v1/reservations/training")["atoms"]
    return {
        slot[3].partition("-")[0]
        for atom in atoms
        if atom["path"] in ("0.0.0", "0.0.1")
        for slot in atom["slots"]
    }
