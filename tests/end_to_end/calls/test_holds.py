"""Holds and what is read of a Plan through a real server, killed in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from service.cli.main import main
from tests.end_to_end.server_process import Client, serving
from tests.patience import eventually

CLUSTER = """
step = "1s"
horizon = "1h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1 }
"""

_ALL = "window(atom(<1 cpu>, 10, 10, 10m, 100m), +20m, +40m)"


_LATER = "window(atom(<1 cpu>, 1, 1, 5m, 5m), +45m, +55m)"


def _hold(client: Client, id_: str, rdl: str) -> None:
    status, body = client.call("POST", "/v1/holds", {"id": id_, "rdl": rdl, "time": 15})
    assert status == 201, body


def _state(client: Client, id_: str) -> str:
    state: str = client.call("GET", f"/v1/reservations/{id_}")[1]["state"]
    return state


def test_holds_survive_kill_and_end_by_themselves(tmp_path: Path) -> None:
    """After kill -9 what is held is still held, by every worker; in time it ends by itself; what
    was accepted before stays."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    database = tmp_path / "agenda.db"
    with serving(database, file, workers=2) as server:
        client = Client(server.port)
        _hold(client, "kept", _LATER)
        assert client.call("POST", "/v1/holds/kept/accept")[0] == 200
        _hold(client, "held", _ALL)
        server.kill()
    with serving(database, file, workers=2) as server:
        client = Client(server.port)
        held = [one["id"] for one in client.call("GET", "/v1/holds")[1]["holds"]]
        assert held == ["held"] or _state(client, "held") == "cancelled"
        eventually(lambda: _state(client, "held"), lambda state: state == "cancelled")
        told = client.call("GET", "/v1/reservations/held")[1]["history"][-1]
        assert "before it was accepted" in told["detail"]
        assert client.call("POST", "/v1/reservations", {"id": "b", "rdl": _ALL})[0] == 201
        assert _state(client, "kept") == "accepted"


def test_an_exported_plan_is_taken_by_the_commands_on_files(tmp_path: Path) -> None:
    """`agenda export` of a live server; validate and plan-diff take the file as it is."""
    file, out = tmp_path / "cluster.toml", tmp_path / "plan.json"
    file.write_text(CLUSTER)
    with serving(tmp_path / "agenda.db", file, workers=2) as server:
        client = Client(server.port)
        for number in range(3):
            ask: dict[str, Any] = {"id": f"r{number}", "rdl": _ALL}
            client.call("POST", "/v1/reservations", ask)
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        for words in (["export", str(out), *to], ["validate", str(out)]):
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, done.output
    same = CliRunner().invoke(main, ["plan-diff", str(out), str(out), "-o", "json"])
    assert same.exit_code == 0, same.output
    document = json.loads(out.read_text())
    known = {one["id"] for one in (*document["reservations"], *document["refusals"])}
    assert known == {"r0", "r1", "r2"}
