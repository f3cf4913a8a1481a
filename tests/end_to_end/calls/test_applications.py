"""Applications on a real server of two processes: submitted, dispatched, killed with it, back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from service.cli.main import main
from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import serving
from tests.patience import eventually

CLUSTER = """
step = "10s"
horizon = "2h"

[[machines]]
name = "node"
count = 4
resources = { cpu = 4 }
"""

APPLICATION = """
name = "flight-delays"

[[components]]
name = "master"
count = 2
core = true
resources = { cpu = 1 }

[[components]]
name = "worker"
count = 5
core = false
resources = { cpu = 2 }
"""


def _agenda(server: ServerProcess, *arguments: str) -> Any:
    """Run a client command and return its JSON."""
    given = [*arguments, "--server", f"http://127.0.0.1:{server.port}", "-o", "json"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def _await(server: ServerProcess, id_: str, state: str) -> dict[str, Any]:
    """Return the application once it is in a state."""

    def look() -> dict[str, Any]:
        shown: dict[str, Any] = _agenda(server, "apps", "show", id_)
        return shown

    return eventually(look, lambda shown: shown["state"] == state)


def test_applications_outlive_the_server(tmp_path: Path) -> None:
    """Running, `kill -9`, running again on machines with its submission; then ended by its owner.

    Both workers show it, whichever of them dispatches.
    """
    cluster, application = tmp_path / "cluster.toml", tmp_path / "app.toml"
    cluster.write_text(CLUSTER)
    application.write_text(APPLICATION)
    with serving(tmp_path / "agenda.db", cluster, workers=2) as server:
        asked = _agenda(server, "apps", "submit", str(application), "--id", "a")
        shown = _await(server, "a", "running")
        assert [part["assigned"] for part in shown["components"]] == [2, 5]
        server.kill()
    with serving(tmp_path / "agenda.db", cluster, workers=2) as server:
        rows = eventually(
            lambda: _agenda(server, "assignments", "--execution", "a")["rows"],
            lambda rows: rows and min(row["since"] for row in rows) > shown["started"],
        )
        assert len(rows) == 7
        assert _agenda(server, "apps", "show", "a")["submitted"] == asked["submitted"]
        _agenda(server, "apps", "kill", "a")
        _await(server, "a", "killed")
        assert _agenda(server, "assignments")["rows"] == []
        assert [one["id"] for one in _agenda(server, "apps", "list")] == ["a"]
