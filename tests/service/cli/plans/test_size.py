"""`agenda size`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner.workload import sizing
from service.cli.main import main

CLUSTER = """\
step = 60
horizon = "2h"
[[machines]]
name = "m"
count = 2
resources = { cpu = 4, memory = "8 GiB" }
"""


@pytest.fixture
def day(tmp_path: Path) -> tuple[str, str]:
    """Write a cluster of two machines, and six gangs of two cores for an hour."""
    cluster, workload = tmp_path / "cluster.toml", tmp_path / "workload.jsonl"
    cluster.write_text(CLUSTER)
    rdl = "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 60m, 2h), 0, 60m)"
    workload.write_text("".join(json.dumps({"id": f"r{n}", "rdl": rdl}) + "\n" for n in range(6)))
    return str(cluster), str(workload)


def test_the_answer_names_the_machines_of_each_group(day: tuple[str, str]) -> None:
    """Twelve cores at the same time need three machines of four."""
    done = CliRunner().invoke(main, ["size", *day, "--target", "100%", "-o", "json"])
    assert done.exit_code == 0
    body = json.loads(done.stdout)
    assert body["found"]["groups"] == {"m": 3}
    assert [one["machines"] for one in body["tried"]] == [2, 3, 4]
    assert body["found"]["work_share"] == 1.0


def test_the_sizes_tried_are_drawn(day: tuple[str, str], tmp_path: Path) -> None:
    picture = tmp_path / "size.svg"
    done = CliRunner().invoke(main, ["size", *day, "--picture", str(picture)])
    assert done.exit_code == 0
    assert picture.read_text().startswith("<?xml")


def test_compare_tries_each_number_of_machines_with_each_agent(
    day: tuple[str, str], tmp_path: Path
) -> None:
    """Rows are in ascending order of machines, agent by agent; the page has the same table."""
    page = tmp_path / "sizes.html"
    typed = ["compare", *day, "--machines", "3,1,2", "--agents", "gree,gree-l"]
    done = CliRunner().invoke(main, [*typed, "-o", "csv", "--html", str(page)])
    assert done.exit_code == 0
    rows = [line.split(",") for line in done.stdout.splitlines()[1:]]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (agent, machines, accepted)
        for agent in ("gree", "gree-l")
        for machines, accepted in (("1", "2"), ("2", "4"), ("3", "6"))
    ]
    assert page.read_text().count("<td") == len(rows) * len(rows[0])


def test_an_agent_that_breaks_costs_the_others_nothing(
    day: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error names it; the other's rows are there. With none left it is an error."""
    whole = sizing.try_sizes

    def broken(cluster: Any, lines: Any, agent: Any, *rest: Any, **more: Any) -> Any:
        if agent.name == "gree":
            raise RuntimeError("no such step")
        return whole(cluster, lines, agent, *rest, **more)

    monkeypatch.setattr(sizing, "try_sizes", broken)
    typed = ["compare", *day, "--machines", "1,2", "-o", "json", "--agents"]
    done = CliRunner().invoke(main, [*typed, "gree,gree-l"])
    assert done.exit_code == 0
    assert [(one["agent"], one["machines"]) for one in json.loads(done.stdout)["sizes"]] == [
        ("gree-l", 1),
        ("gree-l", 2),
    ]
    assert "gree: the agent failed: RuntimeError: no such step" in done.stderr
    assert CliRunner().invoke(main, [*typed, "gree"]).exit_code == 1


def test_no_size_is_a_refusal(day: tuple[str, str], tmp_path: Path) -> None:
    """A bundle larger than a machine fits on no number of them: exit code 3."""
    workload = tmp_path / "large.rdl"
    workload.write_text("window(atom(<8 cpu>, 1, 1, 60m, 1h), 0, 60m)")
    typed = ["size", day[0], str(workload), "--of", "requests"]
    done = CliRunner().invoke(main, [*typed, "-o", "json"])
    assert done.exit_code == 3
    assert json.loads(done.stdout)["tried"][-1]["refused"] == {"unsatisfiable": 1}
    assert "128 machines would refuse 1 unsatisfiable" in CliRunner().invoke(main, typed).stdout


@pytest.mark.parametrize(
    "typed",
    [
        ["size", "--target", "0"],
        ["size", "--target", "120%"],
        ["size", "--target", "most"],
        ["size", "--group", "n"],
        ["compare", "--machines", "0"],
        ["compare", "--machines", "3,x"],
        ["compare", "--machines", "3", "--group", "n"],
        ["compare", "--group", "m"],
        ["compare", "--machines", "3", "--workers", "2"],
    ],
    ids=" ".join,
)
def test_bad_options_are_errors_of_usage(day: tuple[str, str], typed: list[str]) -> None:
    """What is no share, count or group is exit code 2."""
    command, *options = typed
    assert CliRunner().invoke(main, [command, *day, *options]).exit_code == 2
