"""Components find each other: a master and its workers over TCP, on executors and on a Slurm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.lab import LONG_S, Lab
from tests.end_to_end.master_and_workers import master_and_workers
from tests.end_to_end.slurm_lab import SlurmLab, until
from tests.patience import eventually

_GANG = (
    "window(together(driver: atom(<1 cpu>, 1, 1, 60s, 60s), crew: atom(<1 cpu>, 2, 2, 60s, 120s)), "
    "+0, +10m)"
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a server with executors on two hosts: two addresses of loopback."""
    with ExitStack() as stack:
        found = Lab(tmp_path, stack)
        found.serve(LONG_S)
        for index in range(2):
            found.execute(f"lab-{index}", name=f"host{index}", address=f"127.0.0.{index + 1}")
        yield found


def test_workers_find_their_master_on_another_host(lab: Lab) -> None:
    """Three workers on two hosts, and the members of a together, which are one application."""
    components = master_and_workers(lab.notes, 3)
    body = {"application": {"name": "job", "components": components}}
    id_ = str(lab.call("POST", "/v1/applications", body)["id"])
    eventually(lambda: lab.state(id_) == "completed")
    assert lab.lines() == ["14 worker0 worker1 worker2"]
    assert {one["machine"] for one in lab.runs(id_)} == {"lab-0", "lab-1"}

    run = f"exec {sys.executable} {Path(master_and_workers.__code__.co_filename)}"
    master, worker = master_and_workers(lab.notes, 2)
    peers = worker["environment"]["MASTER"].replace("master", "driver")
    fix = 'AGENDA_PEERS=$(echo "$AGENDA_PEERS" | sed s/driver/master/g)'
    stages = {
        "driver": {"command": master["command"], "ports": ["work"]},
        "crew": {"command": f"{fix} {run} worker", "environment": {"MASTER": peers}},
    }
    body = {"id": "gang", "rdl": _GANG, "agent": "earliest", "stages": stages}
    lab.call("POST", "/v1/pipelines", body)
    eventually(lambda: lab.state("gang.driver-crew") == "completed")
    assert lab.lines()[1:] == ["5 crew0 crew1"]


def test_no_port_of_a_host_is_given_twice(lab: Lab) -> None:
    """Of one number there is one at a time, which the next gets once the first has ended."""
    fixed = {"ports": ["web:9080", "free"]}
    command = f'echo "$AGENDA_PORT_WEB $AGENDA_HOST" >> {lab.notes}; sleep 600'
    first, second, third = (lab.submit(command, component=fixed) for _ in range(3))
    eventually(lambda: len(lab.lines()) == 2)
    assert sorted(lab.lines()) == ["9080 127.0.0.1", "9080 127.0.0.2"]
    waits = next(one for one in (first, second, third) if lab.state(one) == "queued")
    found = lab.call("GET", f"/v1/applications/{waits}")["reason"]
    assert "port 9080 is in use" in found
    lab.call("DELETE", f"/v1/applications/{first if waits != first else second}")
    eventually(lambda: len(lab.lines()) == 3)


@pytest.mark.slurm
def test_workers_find_their_master_on_a_slurm(tmp_path: Path) -> None:
    """Two such applications at the same time, not on the same ports; what they write is read."""
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path, stack)
        lab.settings.write_text(f'logs = "{tmp_path}/logs"\n' + lab.settings.read_text())
        stack.callback(lab.close)
        lab.serve()
        notes = tmp_path / "notes"
        for name in ("one", "two"):
            lab.submit(name, *master_and_workers(notes, 2, cpu=2))
        until(lambda: notes.exists() and notes.read_text() == "5 worker0 worker1\n" * 2)
        for name in ("one", "two"):
            until(lambda name=name: lab.application(name)["state"] == "completed")  # type: ignore[misc]
            found = lab.call("GET", f"/v1/applications/{name}/logs")["logs"]
            said = {(one["component"], one["index"], one["stream"], one["text"]) for one in found}
            assert said == {
                ("master", 0, "stdout", "ready\n"),
                ("worker", 0, "stderr", "found it\n"),
                ("worker", 1, "stderr", "found it\n"),
            }
        found = lab.call("GET", "/v1/applications/one/logs")["logs"]
        (run,) = (one["run"] for one in found if one["component"] == "master")
        shown = subprocess.run(
            [sys.executable, "-m", "service.cli.main", "logs", "one", "--run", run,
             "--server", f"http://127.0.0.1:{lab.port}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert shown.stdout == "ready\n"
