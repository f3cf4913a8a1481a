"""Images: run by podman or docker where a host has one of them, and refused where none has."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.cli.executor_runs import find_engine
from tests.end_to_end.fake_podman import calls_of_podman, fake_podman
from tests.end_to_end.lab import LONG_S, Lab
from tests.end_to_end.server_process import Client
from tests.patience import eventually


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a server that waits for executors."""
    with ExitStack() as stack:
        found = Lab(tmp_path, stack)
        found.serve(LONG_S)
        yield found


def refusal(lab: Lab, **component: object) -> tuple[int, str, list[str]]:
    """Return the status, the code and the pointers of the refusal of an image."""
    core = {"name": "c", "count": 1, "core": True, "resources": {"cpu": 1}, "image": "x:1"}
    body = {"application": {"name": "job", "components": [{**core, **component}]}}
    assert lab.port is not None
    status, found = Client(lab.port).call("POST", "/v1/applications", body)
    return status, found["code"], [one["pointer"] for one in found["errors"]]


def test_an_image_runs_with_limits_and_mounts_or_is_refused(lab: Lab) -> None:
    """No host, one of two and both hosts have podman."""
    folder = fake_podman(lab.folder)
    expected = (409, "wrong_state", ["/application/components/0/image"])
    lab.execute("lab-0", name="plain", options=["--no-images"])
    eventually(lambda: len(lab.call("GET", "/v1/executors")["executors"]) == 1)
    assert refusal(lab) == expected

    mount = ["--mount", f"{folder}:ro"]
    able = lab.execute("lab-1", name="able", path=str(folder), options=mount)
    eventually(lambda: len(lab.call("GET", "/v1/executors")["executors"]) == 2)
    engines = {one["id"]: one["engine"] for one in lab.call("GET", "/v1/executors")["executors"]}
    assert engines == {"plain": "", "able": "podman"}
    assert refusal(lab) == expected  # it may get to lab-0
    assert able.poll() is None

    lab.leave()
    lab.execute("lab-0", "lab-1", name="both", path=str(folder), options=mount)
    eventually(lambda: len(lab.call("GET", "/v1/executors")["executors"]) == 1)
    id_ = lab.submit(
        f'echo "$COLOUR $AGENDA_COMPONENT" >> {lab.notes}; exit 4',
        component={
            "image": "busybox:1",
            "environment": {"COLOUR": "blue", "HOME": "/root"},
            "resources": {"cpu": 0.5, "memory": "64 MiB"},
            "success": [4],
        },
    )
    eventually(lambda: lab.state(id_) == "completed")
    assert lab.lines() == ["blue work"]
    (run,) = lab.runs(id_)
    calls = [words for words, _ in calls_of_podman(lab.folder)]
    called, variables = next(one for one in calls_of_podman(lab.folder) if one[0][0] == "run")
    name = f"agenda-{run['id']}"
    assert called[1:4] == ["--rm", f"--name={name}", "--network=host"]
    assert {"--stop-timeout=0", "--cpus=0.5", "--memory=64m"} <= set(called)
    assert f"--volume={folder}:{folder}:ro" in called
    assert (variables["COLOUR"], variables["HOME"]) == ("blue", "/root")
    assert variables["AGENDA_RUN"] == run["id"]
    assert called[called.index("busybox:1") - 1 :][:3] == [
        "--entrypoint=/bin/sh",
        "busybox:1",
        "-c",
    ]
    assert ["rm", "--force", name] in calls


def test_a_container_is_removed_though_its_supervisor_was_killed(lab: Lab) -> None:
    """Then its run is lost, and its component starts again."""
    lab.execute("lab-0", "lab-1", name="both", path=str(fake_podman(lab.folder)))
    eventually(lambda: lab.call("GET", "/v1/executors")["executors"])
    id_ = lab.submit(f"echo begin >> {lab.notes}; sleep 600", component={"image": "busybox:1"})
    eventually(lambda: len(lab.lines()) == 1)
    (first,) = lab.runs(id_)
    supervisor = lab.folder / "both" / "runs" / first["id"] / "supervisor"
    os.kill(json.loads(supervisor.read_text())["pid"], signal.SIGKILL)
    eventually(lambda: len(lab.lines()) == 2)
    assert [one["state"] for one in lab.runs(id_)] == ["lost", "running"]
    removed = ["rm", "--force", f"agenda-{first['id']}"]
    assert removed in [words for words, _ in calls_of_podman(lab.folder)]


#: Settings of podman for a host that lets no process raise its limits.
_CONTAINERS = """
[engine]
runtime = "runc"

[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


def image_of_local_files(folder: Path) -> str:
    """Return an image that has a shell, for podman or docker as they are on this host.

    Skip if neither of them runs it, also with settings for a host that has little to give.
    """
    engine, _ = find_engine()
    if not engine:
        pytest.skip("no podman or docker answers here")
    root, image = folder / "root", f"agenda-test-{uuid.uuid4().hex[:8]}:1"
    linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    for name in ("/bin/sh", *re.findall(r"/\S+", linked)):
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, root / name[1:])
    subprocess.run(["tar", "-C", root, "-cf", folder / "root.tar", "."], check=True)
    subprocess.run([engine, "import", folder / "root.tar", image], check=True)
    (folder / "containers.conf").write_text(_CONTAINERS)
    programs = folder / "programs"
    programs.mkdir()
    words = [
        "run",
        "--rm",
        "--network=host",
        "--cpus=1",
        "--memory=64m",
        image,
        "/bin/sh",
        "-c",
        "",
    ]
    said = ""
    for setting in ("", f"CONTAINERS_CONF={folder}/containers.conf "):
        real = shutil.which(engine)
        (programs / engine).write_text(f'#!/bin/sh\n{setting}exec {real} "$@"\n')
        (programs / engine).chmod(0o755)
        ran = subprocess.run(
            [programs / engine, *words], capture_output=True, text=True, check=False
        )
        if ran.returncode == 0:
            return image
        said = ran.stderr.strip()[-200:]
    subprocess.run([engine, "rmi", "--force", image], check=False)
    pytest.skip(f"{engine} runs no image on this kernel: {said}")


def test_an_image_of_local_files_runs(lab: Lab, tmp_path: Path) -> None:
    """With the real podman or docker, where this host has one that works."""
    image = image_of_local_files(tmp_path)
    try:
        programs = str(tmp_path / "programs")
        (tmp_path / "shared").mkdir()
        notes = tmp_path / "shared" / "notes"
        mount = ["--mount", str(notes.parent)]
        lab.execute("lab-0", "lab-1", path=programs, options=mount)
        eventually(lambda: lab.call("GET", "/v1/executors")["executors"])
        id_ = lab.submit(
            f'echo "$AGENDA_MACHINE $COLOUR" >> {notes}; echo said; exit 4',
            component={
                "image": image,
                "resources": {"cpu": 1, "memory": "64 MiB"},
                "environment": {"COLOUR": "blue"},
                "success": [4],
            },
        )
        eventually(lambda: lab.state(id_), lambda state: state == "completed")
        (run,) = lab.runs(id_)
        assert notes.read_text() == f"{run['machine']} blue\n"
        logs = f"/v1/applications/{id_}/logs"
        eventually(lambda: lab.call("GET", logs)["logs"], lambda found: len(found) == 1)
        assert [one["text"] for one in lab.call("GET", logs)["logs"]] == ["said\n"]
        last = lab.submit("while true; do :; done", component={"image": image})
        eventually(lambda: lab.state(last) == "running")
        lab.call("DELETE", f"/v1/applications/{last}")
        eventually(lambda: lab.runs(last)[0]["state"] == "stopped")
        listed = [tmp_path / "programs" / find_engine()[0], "ps", "--all", "--format={{.Names}}"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        assert f"agenda-{lab.runs(last)[0]['id']}" not in names
    finally:
        subprocess.run([find_engine()[0], "rmi", "--force", image], check=False)
