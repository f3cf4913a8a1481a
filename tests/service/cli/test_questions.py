"""A number that may have been meant otherwise is asked about wherever it is given (F13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.kit.errors import DONE
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import MINUTES, agenda, write_day
from tests.service.conftest import Service

_HALF = "window(atom(<0.5 cpu, 100 memory>, 2, 2, 10m, 20m), 0, 2h)"


@pytest.mark.parametrize("written", [_HALF, '{"kind": "nothing"}'])
def test_check_and_plan_ask_alike(written: str, tmp_path: Path) -> None:
    """The same lines, from the one on standard output, from the other alongside its answer."""
    request = tmp_path / "half.rdl"
    request.write_text(written)
    cluster, _ = write_day(tmp_path, MINUTES, [])
    checked = agenda("rdl", "check", request)
    planned = agenda("plan", cluster, request)
    asked = [line for line in checked.stdout.splitlines() if line.startswith("question: ")]
    told = [line for line in planned.stderr.splitlines() if line.startswith("question: ")]
    assert asked == told
    assert len(asked) == (written == _HALF)


def test_submit_asks_and_continues(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The request is made as it was written."""
    let_commands_ask(service, monkeypatch)
    request = tmp_path / "half.rdl"
    request.write_text(_HALF)
    done = agenda("submit", request, "--id", "half")
    assert done.exit_code == DONE, done.output
    assert done.stderr.count("question: ") == 1
