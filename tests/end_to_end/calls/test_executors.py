"""Real work: executors run components as processes, and nothing is lost or started twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from service.cli.kit.errors import ExitCode
from tests.end_to_end.lab import LONG_S, SHORT_S, Lab, end
from tests.patience import eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a server that waits for executors."""
    with ExitStack() as stack:
        found = Lab(tmp_path_factory.mktemp("lab"), stack)
        found.serve(LONG_S)
        yield found


@pytest.fixture
def lab(served: Lab, tmp_path: Path) -> Iterator[Lab]:
    """Return the same server without executors, and a folder of its own for what they write."""
    served.enter(tmp_path)
    yield served
    served.leave()


@pytest.fixture
def strict_lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a server that waits for executors, and not for long."""
    with ExitStack() as stack:
        found = Lab(tmp_path, stack)
        found.serve(SHORT_S)
        yield found


@contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a process do nothing for a while."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_a_command_runs_where_its_component_was_placed(lab: Lab) -> None:
    """It has its names in the environment; its exit code and output are kept."""
    lab.execute("lab-0", "lab-1")
    id_ = lab.submit(
        f'echo "$AGENDA_APPLICATION $AGENDA_MACHINE $COLOUR" >> {lab.notes}; echo said',
        component={"environment": {"COLOUR": "blue"}},
    )
    eventually(lambda: lab.state(id_) == "completed")
    (run,) = lab.runs(id_)

    assert (run["state"], run["code"]) == ("exited", 0)
    assert lab.lines() == [f"{id_} {run['machine']} blue"]
    output = eventually(lambda: list((lab.folder / "one" / "over").glob("*/stdout")))
    assert output[0].read_text() == "said\n"


def test_a_command_that_fails_says_why(lab: Lab) -> None:
    """The application fails with the last line that the command wrote as an error."""
    lab.execute("lab-0")
    id_ = lab.submit("echo no such table >&2; exit 3")
    eventually(lambda: lab.state(id_) == "failed")

    assert lab.runs(id_)[0]["detail"] == "exit code 3: no such table"
    assert "no such table" in lab.call("GET", f"/v1/applications/{id_}")["reason"]


def test_a_gang_ends_with_the_last_of_its_components(lab: Lab) -> None:
    """One that exits early keeps its machine until all of its replicas have exited."""
    lab.execute("lab-0", "lab-1")
    id_ = lab.submit(
        f"sleep $AGENDA_INDEX; echo $AGENDA_INDEX >> {lab.notes}", component={"count": 3}
    )
    eventually(lambda: lab.state(id_) == "completed")

    assert sorted(lab.lines()) == ["0", "1", "2"]


def test_growth_makes_way_as_processes_do_and_ends_with_its_work(lab: Lab) -> None:
    """Workers above what was requested stop for another application, and may all end by themselves.

    The dispatcher continues when more of them have ended than were requested.
    """
    lab.execute("lab-0", "lab-1")
    core = {"name": "core", "count": 1, "core": True, "resources": {"cpu": 1}}
    go = lab.folder / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
    worker = {"name": "worker", "count": 1, "core": False, "grow": 3, "resources": {"cpu": 1}}
    parts = [{**core, "command": f"{wait}; sleep 2"}, {**worker, "command": wait}]
    document = {"application": {"name": "grower", "components": parts}}
    id_ = str(lab.call("POST", "/v1/applications", document)["id"])

    def workers() -> tuple[int, int] | None:
        found = lab.call("GET", f"/v1/applications/{id_}")["components"]
        return (found[1]["grown"], found[1]["running"]) if found else None

    eventually(lambda: workers() == (2, 3))
    rival = lab.submit(wait, component={"count": 2})
    eventually(lambda: lab.state(rival) == "running")
    assert workers() == (0, 1)
    assert [one["state"] for one in lab.runs(id_)].count("stopped") == 2
    lab.call("DELETE", f"/v1/applications/{rival}")
    eventually(lambda: workers() == (2, 3))
    go.touch()
    eventually(lambda: lab.state(id_) == "completed")
    last = lab.submit("true")
    eventually(lambda: lab.state(last) == "completed")


def test_nothing_runs_where_no_executor_is(lab: Lab) -> None:
    """A machine takes work when its executor has come, and not before."""
    id_ = lab.submit("true")
    time.sleep(1)
    assert lab.state(id_) == "queued"
    lab.execute("lab-1")
    eventually(lambda: lab.state(id_) == "completed")
    assert lab.runs(id_)[0]["machine"] == "lab-1"


def test_an_owner_who_ends_an_application_ends_its_processes(lab: Lab) -> None:
    """SIGTERM comes first; what does not end is killed."""
    lab.execute("lab-0")
    id_ = lab.submit(f"trap '' TERM; echo $$ >> {lab.notes}; while true; do sleep 0.1; done")
    (pid,) = eventually(lab.lines)
    lab.call("DELETE", f"/v1/applications/{id_}")
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert eventually(lambda: lab.runs(id_)[0]["state"] == "stopped")


def test_an_executor_that_is_killed_takes_its_runs_over_again(lab: Lab) -> None:
    """kill -9 and a start within the lease: the same process goes on, and is not started twice."""
    first = lab.execute("lab-0")
    id_ = lab.submit(f"echo $$ >> {lab.notes}; sleep 3; exit 0")
    (pid,) = eventually(lab.lines)
    end(first)
    lab.execute("lab-0")
    eventually(lambda: lab.state(id_) == "completed")

    assert lab.lines() == [pid]
    assert len(lab.runs(id_)) == 1


def test_a_server_that_is_killed_goes_on_with_what_runs(lab: Lab) -> None:
    """kill -9 of the server: what ran meanwhile, and what ended, is as if nothing had been."""
    lab.execute("lab-0")
    ids = [lab.submit(f"echo $$ >> {lab.notes}; sleep {seconds}") for seconds in (0.5, 4)]
    eventually(lambda: len(lab.lines()) == 2)
    assert lab.server is not None
    lab.server.kill()
    lab.serve(LONG_S)
    for id_ in ids:
        eventually(lambda id_=id_: lab.state(id_) == "completed")  # type: ignore[misc]

    assert len(lab.lines()) == 2


def test_runs_end_with_the_lease_and_begin_anew(strict_lab: Lab) -> None:
    """While no server answers for longer than the lease, runs are ended: that is no failure."""
    lab = strict_lab
    lab.execute("lab-0")
    id_ = lab.submit(f"echo $$ >> {lab.notes}; test $(wc -l < {lab.notes}) = 2 || sleep 600")
    (pid,) = eventually(lab.lines)
    assert lab.server is not None
    lab.server.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    lab.serve(SHORT_S)
    eventually(lambda: lab.state(id_) == "completed")

    assert [run["state"] for run in lab.runs(id_)] == ["lost", "exited"]


def test_a_silent_executor_is_an_outage_until_it_reports(strict_lab: Lab) -> None:
    """Its work is started elsewhere after it has ended it, and the Plan shows the machine away."""
    lab = strict_lab
    lost = lab.execute("lab-0", name="lost")
    id_ = lab.submit(f'echo "$AGENDA_MACHINE $$" >> {lab.notes}; sleep 600')
    (line,) = eventually(lab.lines)
    pid = line.split()[1]
    with frozen(lost):
        lab.execute("lab-1", name="other")
        eventually(lambda: len(lab.lines()) == 2)
        assert not Path(f"/proc/{pid}").exists()
        (outage,) = eventually(lambda: lab.call("GET", "/v1/cluster/outages")["outages"])
        assert (outage["kind"], outage["names"]) == ("loss", ["lab-0"])
        states = {run["machine"]: run["state"] for run in lab.runs(id_)}
        assert states["lab-0"] == "lost"
    eventually(lambda: not lab.call("GET", "/v1/cluster/outages")["outages"])

    def live() -> set[str]:
        found = lab.call("GET", "/v1/executors")["executors"]
        return {one["id"] for one in found if one["state"] == "live"}

    assert eventually(lambda: live() == {"lost", "other"})
    assert [line.split()[0] for line in lab.lines()] == ["lab-0", "lab-1"]


def test_two_executors_cannot_have_one_machine(lab: Lab) -> None:
    """The second is refused, and told by which the machine is taken."""
    lab.execute("lab-0", name="first")
    eventually(lambda: lab.call("GET", "/v1/executors")["executors"])
    second = lab.execute("lab-0", name="second")

    assert second.wait(300) == ExitCode.CONFLICT
    assert "lab-0 belongs to the executor 'first'" in (lab.folder / "second.log").read_text()
