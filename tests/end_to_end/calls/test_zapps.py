"""Zoe's applications run on executors, or are refused when they are submitted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.fake_podman import calls_of_podman, fake_podman
from tests.end_to_end.lab import LONG_S, Lab
from tests.end_to_end.server_process import Client
from tests.patience import eventually

_CLUSTER = """
step = "1s"
horizon = "1h"

[[machines]]
name = "big"
count = 2
resources = { cpu = 16, memory = "64 GiB" }
labels = ["gpu"]
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Return a server, and an executor that plays podman for each of two large hosts."""
    with ExitStack() as stack:
        found = Lab(tmp_path, stack)
        found.cluster.write_text(_CLUSTER)
        found.serve(LONG_S)
        path = str(fake_podman(tmp_path, runs_commands=False))
        for index in range(2):
            address = f"127.0.0.{index + 1}"
            found.execute(f"big-{index}", name=f"host{index}", address=address, path=path)
        eventually(lambda: len(found.call("GET", "/v1/executors")["executors"]) == 2)
        yield found


def a_service(name: str, essential: int, total: int, **more: Any) -> dict[str, Any]:
    """Return a service in Zoe's shape."""
    return {
        "name": name, "image": f"zoe/{name}:1", "monitor": False, "total_count": total,
        "essential_count": essential, "startup_order": 0, "environment": [], "volumes": [],
        "ports": [], "command": None,
        "resources": {"memory": {"min": 1 << 30, "max": None}, "cores": {"min": 1, "max": None}},
        **more,
    }  # fmt: skip


def submit(lab: Lab, zapp: object) -> tuple[int, dict[str, Any]]:
    """Submit one; return the answer."""
    assert lab.port is not None
    status, found = Client(lab.port).call("POST", "/v1/applications", {"application": zapp})
    return status, dict(found)


def test_a_cluster_of_services_knows_its_master(lab: Lab) -> None:
    """Its images get the variables that Zoe fills in; its ports keep their numbers."""
    port = {
        "name": "Web interface", "port_number": 9090, "protocol": "tcp",
        "url_template": "http://{ip_port}/",
    }  # fmt: skip
    master = a_service("hub", 1, 1, ports=[port], environment=[["OWN", "{dns_name#self}"]])
    text = "spark://{dns_name#hub0}:7077 {user_name} {execution_id}"
    worker = a_service("worker", 1, 3, environment=[["HUB", text]], monitor=True)
    zapp = {"name": "my-cluster", "version": 3, "will_end": True, "size": 5}
    status, found = submit(lab, {**zapp, "services": [master, worker]})
    assert status == 201
    id_ = found["id"]

    def ran() -> list[tuple[list[str], dict[str, str]]]:
        found = [one for one in calls_of_podman(lab.folder) if one[0][0] == "run"]
        return found if len(found) == 4 else []

    calls = eventually(ran)
    (hub,) = [one["host"] for one in json.loads(calls[0][1]["AGENDA_PEERS"])["hub"]]
    by_image = Counter(words[-1] for words, _ in calls)
    assert by_image == {"zoe/hub:1": 1, "zoe/worker:1": 3}
    for words, environment in calls:
        if words[-1] == "zoe/worker:1":
            assert environment["HUB"] == f"spark://{hub}:7077 default {id_}"
        else:
            assert (environment["OWN"], environment["AGENDA_PORT_WEB_INTERFACE"]) == (hub, "9090")


@pytest.mark.traces
def test_every_collected_zapp_runs_or_is_refused(lab: Lab, traces: Path) -> None:
    """The table of docs/dispatch.md: 15 of 38 run, and each other one is told why it does not."""
    outcomes: Counter[str] = Counter()
    for path in sorted((traces / "zapps").glob("*.json")):
        status, found = submit(lab, json.loads(path.read_text()))
        if status != 201:
            (error,) = found["errors"]
            what = "format 2" if error["pointer"].endswith("/version") else error["message"]
            outcomes["no version tag" if what.endswith("version tag") else what] += 1
            continue
        shown = f"/v1/applications/{found['id']}"
        eventually(partial(lab.call, "GET", shown), lambda one: one["state"] == "running")
        lab.call("DELETE", shown)
        eventually(partial(lab.call, "GET", shown), lambda one: one["state"] == "killed")
        outcomes["runs"] += 1
    assert outcomes == {"runs": 15, "format 2": 18, "no version tag": 5}
