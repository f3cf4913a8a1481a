"""Machines lost and returned on a real server, by the commands that operators type."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from service.cli.operations import outages
from service.cli.reservations import show
from tests.end_to_end.server_process import Client, serving

CLUSTER = """
step = "60s"
horizon = "4h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1 }
"""


def _json(runner: CliRunner, command: object, *arguments: str) -> dict[str, object]:
    done = runner.invoke(command, [*arguments, "-o", "json"])  # type: ignore[arg-type]
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output)
    return found


def test_add_list_and_remove_against_a_server_that_is_killed_between(tmp_path: Path) -> None:
    """What was answered outlives `kill -9`: the outage, who was degraded, and why."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    database = tmp_path / "agenda.db"
    runner = CliRunner()
    with serving(database, file) as server:
        rdl = "window(atom(<1 cpu>, 8, 8, 600, 4800), +0, +1h)"
        status, _ = Client(server.port).call("POST", "/v1/reservations", {"id": "a", "rdl": rdl})
        assert status == 201
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        would = _json(runner, outages, "add", "plain", "--count", "5", "--end", "+2h",
                      "--dry-run", *to)  # fmt: skip
        did = _json(runner, outages, "add", "plain", "--count", "5", "--end", "+2h", *to)
        assert would["affected"] == did["affected"]
        server.kill()
    with serving(database, file) as server:
        to = ["--server", f"http://127.0.0.1:{server.port}"]
        listed = _json(runner, outages, "list", *to)["outages"]
        assert isinstance(listed, list)
        assert len(listed) == 1
        degraded = _json(runner, show, "a", *to)
        assert degraded["state"] == "degraded"
        shown = runner.invoke(show, ["a", *to])
        assert "degraded: machines were lost" in shown.output
        back = _json(runner, outages, "remove", listed[0]["id"], *to)
        affected = back["affected"]
        assert isinstance(affected, list)
        assert [(one["id"], one["fate"]) for one in affected] == [("a", "restored")]
        bad = runner.invoke(outages, ["add", "plane", "--count", "1", "--end", "+1h", *to])
        assert bad.exit_code == 1
        assert "no machines are called 'plane'" in bad.output
