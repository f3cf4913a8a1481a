"""A better Plan of a real server, by the commands that operators type; killed in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from service.cli.optimizing import optimizations
from tests.databases import KINDS, empty_database
from tests.end_to_end.server_process import Client, serving
from tests.patience import eventually

CLUSTER = """
step = "60s"
horizon = "4h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1 }
"""

_IN_THE_WAY = "window(atom(<1 cpu>, 8, 8, 1800, 14400), +30m, +110m)"
_LEFT_OUT = "window(atom(<1 cpu>, 8, 8, 1800, 14400), +41m, +76m)"


def _invoke(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(optimizations, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def _two_in_the_way(client: Client) -> None:
    asked = {"id": "a", "rdl": _IN_THE_WAY, "agent": "earliest"}
    assert client.call("POST", "/v1/reservations", asked)[0] == 201
    assert client.call("POST", "/v1/reservations", {"id": "b", "rdl": _LEFT_OUT})[0] == 409


def _until(client: Client, id_: str, wanted: str) -> dict[str, Any]:
    def look() -> dict[str, Any]:
        body: dict[str, Any] = client.call("GET", f"/v1/optimizations/{id_}")[1]
        return body

    return eventually(look, lambda body: body["state"] == wanted or wanted in body["progress"])


def _until_gained(client: Client, id_: str) -> None:
    def gained() -> float:
        done = client.call("GET", f"/v1/optimizations/{id_}")[1]["progress"]
        return float(done["value"] - done["trace"][0][1]) if "value" in done else 0.0

    eventually(gained, lambda more: more > 0.0)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of an empty database."""
    with empty_database(request.param, tmp_path) as url:
        yield url


def test_killed_in_the_middle_it_goes_on_and_what_was_found_can_be_applied(
    database: str, tmp_path: Path
) -> None:
    """`kill -9` of every server process: the next continues from the best so far, which counts."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    with serving(database, file, workers=2) as server:
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        _two_in_the_way(Client(server.port))
        started = json.loads(
            _invoke("start", "--time-limit", "10m", "--frozen-until", "+2m", "--admit-refused",
                    "--solver", "none", "--detach", "-o", "json", *to)
        )  # fmt: skip
        _until_gained(Client(server.port), started["id"])
        assert "running" in _invoke("list", *to)
        server.kill()
    with serving(database, file, workers=2) as server:
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        client = Client(server.port)
        _until(client, started["id"], "running")
        _invoke("stop", started["id"], *to)
        assert "1 gained" in _invoke("show", started["id"], *to)
        _invoke("apply", started["id"], *to)
        assert client.call("GET", "/v1/reservations/b")[1]["state"] == "accepted"
        assert "applied" in _invoke("list", *to)
        assert "2 reservations undone" in _invoke("undo", started["id"], *to)
        assert client.call("GET", "/v1/reservations/b")[1]["state"] == "cancelled"
        assert "undone" in _invoke("list", *to)
        _invoke("forget", started["id"], *to)
        assert _invoke("list", *to).strip() == "no optimisations"


def test_started_waited_for_and_applied_in_one_command(tmp_path: Path) -> None:
    """`start --apply` shows the diff and makes it true; a stop keeps the best so far."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    with serving(tmp_path / "agenda.db", file) as server:
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        client = Client(server.port)
        _two_in_the_way(client)
        text = _invoke("start", "--work", "60", "--frozen-until", "+2m", "--admit-refused",
                       "--apply", *to)  # fmt: skip
        assert "1 gained, 1 moved" in text
        assert client.call("GET", "/v1/reservations/b")[1]["state"] == "accepted"
        detached = _invoke("start", "--time-limit", "10m", "--detach", "-o", "json", *to)
        id_ = json.loads(detached)["id"]
        assert "too_many" not in _invoke("stop", id_, *to)
        assert _until(client, id_, "stopped")["result"]["moved"] == 0
        wrong = _invoke("start", "--pin", "zz", *to, code=1)
        assert "there is no current reservation 'zz'" in wrong
