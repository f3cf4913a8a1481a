"""A run on disk: whoever is killed when, it is started once and ends once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from service.cli import executor_supervisor as supervisor
from service.cli.executor_runs import RunDirectory, RunLimits, find_engine
from tests.patience import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the executor needs Linux")

NOTE = 'echo "$AGENDA_RUN" >> ../note; '


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    """Return a lease that lasts."""
    path = tmp_path / "lease"
    supervisor.write_json(str(path), {"until": time.monotonic() + 600})
    return path


def made(
    tmp_path: Path, lease: Path, command: str | None, limits: RunLimits | None = None, **more: Any
) -> RunDirectory:
    """Return a run of a command, not started yet."""
    order = {
        "id": "r1", "execution": "x", "component": "w", "index": 0, "machine": "m-0",
        "command": command, "image": None, "environment": {}, "resources": {"cpu": 1000}, **more,
    }  # fmt: skip
    return RunDirectory.create(tmp_path / "runs", order, lease, limits or RunLimits(False, 0.5))


def notes(run: RunDirectory) -> int:
    """Return how often the command has begun."""
    path = run.path / "note"
    return len(path.read_text().split()) if path.exists() else 0


def test_a_start_is_made_once_however_often_it_is_requested(tmp_path: Path, lease: Path) -> None:
    """By one executor, by one after it, and by several supervisors at once."""
    run = made(tmp_path, lease, NOTE + "sleep 1")
    for _ in range(3):
        run.start()
        RunDirectory(run.path).start()
    eventually(lambda: run.has_ended)

    assert notes(run) == 1
    assert run.report() == {"id": "r1", "state": "exited", "code": 0}


def test_a_run_that_is_stopped_before_it_began_never_begins(tmp_path: Path, lease: Path) -> None:
    """Neither by a start that comes later."""
    run = made(tmp_path, lease, NOTE)
    run.stop()
    run.start()
    subprocess.run([sys.executable, supervisor.__file__, str(run.path)], check=True)

    assert notes(run) == 0
    assert run.report()["state"] == "stopped"


def test_a_run_that_ended_before_it_was_stopped_has_exited(tmp_path: Path, lease: Path) -> None:
    """Its work is done; one that ends well because it is stopped has been stopped."""
    run = made(tmp_path, lease, "true")
    run.start()
    eventually(lambda: run.has_ended)
    run.stop()
    assert run.report()["state"] == "exited"

    other = made(tmp_path, lease, "trap 'exit 0' TERM; touch ../up; sleep 600 & wait", id="r2")
    other.start()
    eventually((other.path / "up").exists)
    other.stop()
    eventually(lambda: other.has_ended)
    assert (other.report()["state"], other.report()["code"]) == ("stopped", 0)


def test_a_run_whose_supervisor_is_killed_ends(tmp_path: Path, lease: Path) -> None:
    """With all it has begun, and by no fault of its own."""
    run = made(tmp_path, lease, "setsid sleep 600 & echo $! > ../child; echo $$ > ../pid; wait")
    run.start()
    eventually((run.path / "pid").exists)
    pids = [int((run.path / name).read_text()) for name in ("pid", "child")]
    os.kill(json.loads((run.path / "supervisor").read_text())["pid"], signal.SIGKILL)
    eventually(lambda: run.has_ended)

    assert run.report()["state"] == "lost"
    eventually(lambda: not any(supervisor.started_at(pid) for pid in pids))


def test_a_run_whose_supervisor_left_an_empty_file_ends(tmp_path: Path, lease: Path) -> None:
    """A loss of power may do that to a file: no one decides on the run, and it is lost."""
    run = made(tmp_path, lease, "true")
    (run.path / "supervisor").touch()

    assert run.has_ended
    assert run.report()["state"] == "lost"


def test_one_process_alone_decides_on_a_run(tmp_path: Path) -> None:
    """Its file is whole when it is there, and drafts do not stay."""
    assert supervisor.claim(str(tmp_path))
    assert not supervisor.claim(str(tmp_path))
    assert json.loads((tmp_path / "supervisor").read_text())["pid"] == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == ["supervisor"]


def test_a_run_ends_with_the_lease(tmp_path: Path, lease: Path) -> None:
    """Whatever becomes of the executor."""
    run = made(tmp_path, lease, "sleep 600")
    run.start()
    eventually(lambda: run.report()["state"] == "running")
    supervisor.write_json(str(lease), {"until": time.monotonic()})
    eventually(lambda: run.has_ended)

    assert run.report() == {
        "id": "r1", "state": "lost", "code": -signal.SIGTERM, "detail": "its executor fell silent"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "more", "detail"),
    [
        (None, {}, "the component has no command to run"),
        (
            "true",
            {"image": "busybox"},
            "this host has neither podman nor docker, so it runs no images",
        ),
    ],
)
def test_what_cannot_run_says_why(
    tmp_path: Path, lease: Path, command: str | None, more: dict[str, Any], detail: str
) -> None:
    """It fails without a start."""
    run = made(tmp_path, lease, command, **more)
    run.start()

    assert run.report() == {"id": "r1", "state": "failed", "code": 126, "detail":
                            f"{detail}"}  # fmt: skip


def test_a_run_is_held_to_its_memory(tmp_path: Path, lease: Path) -> None:
    """128 MiB are refused to one that asked for 64."""
    python = f"{sys.executable} -c 'bytearray(128 << 20)'"
    run = made(tmp_path, lease, python, RunLimits(True, 0.5), resources={"memory": 64})
    run.start()
    eventually(lambda: run.has_ended)

    assert run.report()["state"] == "failed"


def engine_of(tmp_path: Path, remove: str) -> str:
    """Return a program that plays podman: it writes down its own environment, and removes so."""
    program = tmp_path / "podman"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}\n"
        f'if [ "$1" = rm ]; then {remove}; fi\nenv > engine; echo "$@" > words\n'
    )
    program.chmod(0o755)
    return str(program)


def test_variables_of_an_image_are_no_settings_of_podman(tmp_path: Path, lease: Path) -> None:
    """They are in a file that only this user reads; podman has the environment of the executor."""
    limits = RunLimits(False, 0.5, engine_of(tmp_path, "exit 0"), ("/data:ro",))
    given = {"CONTAINERS_CONF": "/tmp/own.conf", "LD_PRELOAD": "/tmp/own.so", "TEXT": "a = #b"}
    run = made(tmp_path, lease, "true", limits, image="x:1", environment=given)
    run.start()
    eventually(lambda: run.has_ended)

    file = run.path / "environment"
    assert file.stat().st_mode & 0o777 == 0o600
    assert {f"{name}={value}" for name, value in given.items()} <= set(
        file.read_text().splitlines()
    )
    words = (tmp_path / "words").read_text().split()
    assert {f"--env-file={file}", "--volume=/data:/data:ro", "--stop-timeout=0"} <= set(words)
    engine = dict(line.split("=", 1) for line in (tmp_path / "engine").read_text().splitlines())
    assert not given.keys() & engine.keys()
    assert engine["AGENDA_RUN"] == run.id
    assert engine["HOME"] == os.environ["HOME"]


def test_a_value_with_a_line_break_is_refused_for_an_image(tmp_path: Path, lease: Path) -> None:
    """Its second line would be another variable, such as one of the executor."""
    limits = RunLimits(False, 0.5, engine_of(tmp_path, "exit 0"))
    given = {"TEXT": "a\nAGENDA_TOKEN"}
    run = made(tmp_path, lease, "true", limits, image="x:1", environment=given)
    run.start()

    assert (run.report()["state"], run.report()["code"]) == ("failed", 126)
    assert "the value of TEXT has a line break" in run.report()["detail"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_has_not_ended_before_its_container_is_removed(
    tmp_path: Path, lease: Path, killed: bool
) -> None:
    """However often that fails, and whoever does it."""
    remove = "echo once >> removed; test $(wc -l < removed) -ge 3; exit $?"
    limits = RunLimits(False, 0.5, engine_of(tmp_path, remove))
    run = made(tmp_path, lease, "true", limits, image="x:1")
    if killed:
        (run.path / "supervisor").touch()  # as after a loss of power
    run.start()
    eventually(lambda: run.has_ended)

    assert (tmp_path / "removed").read_text() == "once\n" * 3
    assert run.report()["state"] == ("lost" if killed else "exited")


@pytest.mark.parametrize("given", [{"A=B": "x"}, {"A": "\0"}])
def test_variables_that_no_process_can_have_fail_a_run(
    tmp_path: Path, lease: Path, given: dict[str, str]
) -> None:
    """It is not lost: it would be started again for ever."""
    run = made(tmp_path, lease, "true", environment=given)
    run.start()
    eventually(lambda: run.has_ended)

    assert (run.report()["state"], run.report()["code"]) == ("failed", 126)
    assert "it could not be started" in run.report()["detail"]


def test_an_engine_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman fails, docker is slow; without the two there is nothing to say."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine() == ("", [])

    for name, text in (("podman", "exit 125"), ("docker", "exec /bin/sleep 600")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("service.cli.executor_runs.ENGINE_S", 0.2)
    assert find_engine() == (
        "",
        ["podman info ended with code 125", "docker info did not answer within 0.2 s"],
    )
