"""`agenda plan --agent exact`: the gap asked for, and what the Plan file says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.main import main

CLUSTER = """
step = "1m"
horizon = "10h"
[[machines]]
name = "m"
count = 10
resources = { cpu = 4 }
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a cluster and more gangs than it holds."""
    cluster, workload = tmp_path / "c.toml", tmp_path / "w.jsonl"
    cluster.write_text(CLUSTER)
    lines = []
    for index in range(6):
        height, length = 21 + index, 60 + 7 * index
        rdl = f"window(atom(<1 cpu>, {height}, {height}, {length}m, {height * length}m), 0, 5h)"
        lines.append(json.dumps({"id": f"r{index}", "rdl": rdl}))
    workload.write_text("\n".join(lines))
    return [str(cluster), str(workload)]


def test_the_plan_says_bound_and_gap(files: list[str]) -> None:
    """Rigid gangs are proven: status optimal, and the bound is the value."""
    done = CliRunner().invoke(
        main, ["plan", *files, "--agent", "exact", "--time-limit", "20s", "-o", "json"]
    )
    assert done.exit_code == 0
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["status"] == "optimal"
    assert metrics["gap"] < 1e-6
    assert metrics["bound"] == pytest.approx(metrics["value"])


def test_a_gap_that_greedy_keeps_ends_at_once(files: list[str]) -> None:
    """With 100 % allowed nothing is searched: the answer is the portfolio's."""
    run = CliRunner().invoke
    wide = run(main, ["plan", *files, "--agent", "exact", "--gap", "100", "-o", "json"])
    greedy = run(main, ["plan", *files, "--agent", "portfolio", "-o", "json"])
    values = [json.loads(one.stdout)["metrics"]["value"] for one in (wide, greedy)]
    assert values[0] == pytest.approx(values[1])


def test_a_gap_above_all_is_refused(files: list[str]) -> None:
    """More than 100 % is told as a mistake of the option."""
    done = CliRunner().invoke(main, ["plan", *files, "--agent", "exact", "--gap", "101"])
    assert done.exit_code == 2
    assert "--gap" in done.stderr
