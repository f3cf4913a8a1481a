"""A pipeline by night: one job file on every back-end, and three nights in which things fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

import agenda as client_library
from service.clock import FileClock, SystemClock, set_pace, unix_ms
from tests.end_to_end.lab import LONG_S, Lab
from tests.end_to_end.server_process import Client, serving
from tests.end_to_end.slurm_lab import SlurmLab
from tests.patience import eventually

#: Its transform fails the first time.
JOB = """
id = "nightly"
tenant = "root"
agent = "earliest"
margin = "1m"
rdl = '''
window(order(
  extract: atom(<1 cpu>, 2, 2, 20s, 40s),
  transform: atom(<1 cpu>, 1, 1, 20s, 20s),
  publish: atom(<1 cpu>, 1, 1, 20s, 20s)), +0s, +15m)
'''

[stages.extract]
command = "echo extract $AGENDA_INDEX >> NOTES"

[stages.transform]
retries = 2
backoff = "1s"
environment = { WORD = "two words" }
command = '''
echo "transform $WORD" >> NOTES
test $(grep -c transform NOTES) != 1
'''

[stages.publish]
command = ["sh", "-c", "echo publish >> NOTES"]
"""


class Served(Protocol):
    """A server whose stages run for real."""

    folder: Path
    port: int | None


def executors(folder: Path, stack: ExitStack) -> Served:
    """Return a server with an executor of two machines."""
    lab = Lab(folder, stack)
    lab.serve(LONG_S)
    lab.execute("lab-0", "lab-1")
    return lab


def slurm(folder: Path, stack: ExitStack) -> Served:
    """Return a server on a real Slurm."""
    lab = SlurmLab(folder, stack)
    stack.callback(lab.close)
    lab.serve()
    return lab


@pytest.mark.parametrize("begin", [executors, pytest.param(slurm, marks=pytest.mark.slurm)])
def test_one_job_file_runs_on_every_back_end(
    begin: Callable[[Path, ExitStack], Served], tmp_path: Path
) -> None:
    """In order, once in each bundle, and again after a failure; its deadline is kept."""
    notes, file = tmp_path / "NOTES", tmp_path / "nightly.toml"
    notes.touch()
    tmp_path.chmod(0o755)
    notes.chmod(0o666)
    file.write_text(JOB.replace("NOTES", str(notes)))
    with ExitStack() as stack:
        lab = begin(tmp_path, stack)
        ran = agenda(lab.port, "run", str(file))
        assert ran.returncode == 0, ran.stderr
        eventually(lambda: run_states(lab.port) in (["succeeded"], ["failed"]), limit_s=600)
        shown = call(lab.port, "/v1/pipelines/nightly")

    lines = notes.read_text().splitlines()
    assert sorted(lines[:2]) == ["extract 0", "extract 1"]
    assert lines[2:] == ["transform two words", "transform two words", "publish"]
    assert [(one["name"], one["retries"]) for one in shown["stages"]] == [
        ("extract", 0),
        ("transform", 1),
        ("publish", 0),
    ]
    assert all(one["ended_at"] <= shown["deadline_at"] for one in shown["stages"])


NIGHTS = """
id = "nightly"
agent = "earliest"
rdl = '''
every(1h, window(order(
  extract: atom(<1 cpu>, 2, 2, 10m, 20m),
  transform: atom(<1 cpu>, 1, 1, 10m, 10m),
  publish: atom(<1 cpu>, 1, 1, 10m, 10m)), 0, 50m), times=3)
'''

[stages.extract]
command = '''
echo extract $AGENDA_JOB_RUN $AGENDA_INDEX on $AGENDA_MACHINE
while test $AGENDA_JOB_RUN = 2 && ! test -e FOLDER/lost; do sleep 0.1; done
echo extract $AGENDA_JOB_RUN >> FOLDER/notes
'''

[stages.transform]
retries = 2
backoff = "1s"
command = '''
echo transform $AGENDA_JOB_RUN >> FOLDER/notes
if test $AGENDA_JOB_RUN = 1 && ! test -e FOLDER/tried; then
  touch FOLDER/tried; echo no such table >&2; exit 3
fi
'''

[stages.publish]
command = "echo publish $AGENDA_JOB_RUN >> FOLDER/notes; echo published"
"""

CLUSTER = """
step = "1m"
horizon = "6h"

[[machines]]
name = "host"
count = 3
resources = { cpu = 1, memory = "256 MiB" }
"""

_NEVER_S = 1e9


class Nights:
    """A server with `--local`, whose nights pass while nothing runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port: int | None = None
        self.clock = folder / "clock.json"
        set_pace(self.clock, SystemClock().now_ms(), 1.0)

    def go(self, at: str) -> None:
        """Move the clock on to an instant if that is to come; it continues as fast as any."""
        now_ms, at_ms = FileClock(self.clock).now_ms(), unix_ms(datetime.fromisoformat(at))
        if at_ms > now_ms:
            set_pace(self.clock, at_ms, 1.0)

    def stages(self, night: int) -> dict[str, Any]:
        """Return the stages of a night's run by name, once it has begun."""
        job = call(self.port, "/v1/pipelines/nightly")
        if job["runs"] <= night:
            self.go(job["next_at"])
        query = f"before={night + 1}&limit=1"
        (run,) = eventually(
            lambda: [
                one
                for one in call(self.port, f"/v1/pipelines/nightly/runs?{query}")["runs"]
                if one["run"] == night
            ]
        )
        return {one["name"]: one for one in run["stages"]}


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    """Serve on a host without other executors."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    found = Nights(tmp_path)
    settings: dict[str, Any] = {
        "executors": True,
        "local": str(tmp_path / "runs"),
        "lease_s": LONG_S,
        "takeover_s": _NEVER_S,  # its clock runs faster than others
        "clock_file": str(found.clock),
    }
    with serving(tmp_path / "agenda.db", cluster, **settings) as server:
        found.port = server.port
        yield found


def test_three_nights_keep_their_deadlines(nights: Nights) -> None:
    """A task of the second fails, the third loses a machine; logs are read by command and page."""
    port, notes = nights.port, nights.folder / "notes"
    file = nights.folder / "nightly.toml"
    file.write_text(NIGHTS.replace("FOLDER", str(nights.folder)))
    ran = agenda(port, "run", str(file))
    assert ran.returncode == 0, ran.stderr
    for night in range(3):
        nights.stages(night)
        if night == 2:
            lost = lose_a_machine(port)
            (nights.folder / "lost").touch()
        for name in ("extract", "transform", "publish"):
            nights.go(nights.stages(night)[name]["start_at"])
            id_ = f"nightly.{name}@{night}"
            eventually(lambda id_=id_: state(port, id_) in ("completed", "failed"))
        assert run_states(port)[night] == "succeeded", notes.read_text()

    runs = call(port, "/v1/pipelines/nightly/runs")["runs"][::-1]
    assert [one["run"] for one in runs] == [0, 1, 2]
    assert not any(one["late"] for one in runs)
    assert [stage["retries"] for stage in runs[1]["stages"]] == [0, 1, 0]
    done = notes.read_text().splitlines()
    for night in range(3):
        own = [line.split()[0] for line in done if line.endswith(str(night))]
        again = ["transform"] * (night == 1)
        assert own == ["extract", "extract", "transform", *again, "publish"]
    machines = {
        run["machine"]
        for run in call(port, "/v1/applications/nightly.extract@2/runs")["runs"]
        if run["state"] == "exited"
    }
    assert lost not in machines
    failed = agenda(port, "logs", "nightly", "--run", "1", "--stage", "transform")
    assert "no such table" in failed.stderr
    last = agenda(port, "logs", "nightly", "--stage", "publish")
    assert last.stdout == "published\n"
    url = f"http://127.0.0.1:{port}"
    job = client_library.Client(url).job("nightly")
    assert [one.text for one in job.logs("publish", 0, follow=True)] == ["published\n"]
    assert asyncio.run(written(url, "publish")) == ["published\n"]
    with urllib.request.urlopen(f"{url}/ui/pipelines/nightly") as answer:
        assert (answer.status, "pipelines.js" in answer.read().decode()) == (200, True)
    # What the page reads for the stage that is pressed.
    shown = call(port, "/v1/applications/nightly.transform@1/logs?limit=65536")["logs"]
    assert "no such table\n" in [one["text"] for one in shown]


async def written(url: str, stage: str) -> list[str]:
    """Return what a stage of the newest run wrote, by the asynchronous client."""
    async with client_library.AsyncClient(url) as client:
        job = await client.job("nightly")
        return [one.text async for one in job.logs(stage, follow=True)]


def agenda(port: int | None, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command against a server."""
    command = [sys.executable, "-m", "service.cli.main", *words]
    server = ["--server", f"http://127.0.0.1:{port}"]
    return subprocess.run([*command, *server], capture_output=True, text=True, check=False)


def call(port: int | None, path: str) -> Any:
    """Return what a server answers to a GET."""
    assert port is not None
    status, found = Client(port).call("GET", path)
    assert status == 200, found
    return found


def run_states(port: int | None) -> list[str]:
    """Return the state of each run, the oldest first."""
    runs = call(port, "/v1/pipelines/nightly/runs")["runs"]
    return [str(one["state"]) for one in reversed(runs)]


def state(port: int | None, id_: str) -> str:
    """Return the state of an application; empty before it was submitted."""
    assert port is not None
    return str(Client(port).call("GET", f"/v1/applications/{id_}")[1].get("state", ""))


def lose_a_machine(port: int | None) -> str:
    """Lose a machine on which a bundle runs; return its name once both run elsewhere."""
    lost: str = eventually(lambda: running_on(port, "nightly.extract@2"))[0]
    options = ("--name", lost, "--kind", "loss", "--end", "+1h")
    assert agenda(port, "outages", "add", "host", *options).returncode == 0
    eventually(lambda: lost not in (running_on(port, "nightly.extract@2") or [lost]))
    return lost


def running_on(port: int | None, id_: str) -> list[str]:
    """Return the machines on which both bundles run, or none."""
    assert port is not None
    status, found = Client(port).call("GET", f"/v1/applications/{id_}/runs")
    runs = [] if status != 200 else [one for one in found["runs"] if one["state"] == "running"]
    return [str(one["machine"]) for one in runs] if len(runs) == 2 else []
