"""`agenda plan --agent exact`: the gap asked for, and what the Plan file says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.cli.command_line import MINUTES, agenda, write_day


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write a cluster and more gangs than it holds."""
    lines = []
    for index in range(5):
        height, length = 21 + index, 60 + 7 * index
        rdl = f"window(atom(<1 cpu>, {height}, {height}, {length}m, {height * length}m), 0, 5h)"
        lines.append({"id": f"r{index}", "rdl": rdl})
    return write_day(tmp_path, MINUTES, lines)


def test_the_plan_says_bound_and_gap(files: tuple[Path, Path]) -> None:
    """Rigid gangs are proven, and the search on machines ends with it: it has an hour."""
    done = agenda("plan", *files, "--agent", "exact", "--time-limit", "1h", "-o", "json")
    assert done.exit_code == 0
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["status"] == "optimal"
    assert metrics["gap"] < 1e-6
    assert metrics["bound"] == pytest.approx(metrics["value"])


def test_a_gap_that_greedy_keeps_ends_at_once(files: tuple[Path, Path]) -> None:
    """With 100 % allowed nothing is searched: the answer is the portfolio's."""
    wide = agenda("plan", *files, "--agent", "exact", "--gap", "100", "-o", "json")
    greedy = agenda("plan", *files, "--agent", "portfolio", "-o", "json")
    values = [json.loads(one.stdout)["metrics"]["value"] for one in (wide, greedy)]
    assert values[0] == pytest.approx(values[1])


def test_a_gap_above_all_is_refused(files: tuple[Path, Path]) -> None:
    """More than 100 % is reported as a mistake of the option."""
    done = agenda("plan", *files, "--agent", "exact", "--gap", "101")
    assert done.exit_code == 2
    assert "--gap" in done.stderr
