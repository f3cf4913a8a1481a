"""`agenda optimize`: from a Plan file to a better one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.cli.command_line import agenda

CLUSTER = """
step = "1s"
horizon = "12s"

[[machines]]
name = "m"
count = 2
resources = { cpu = 1 }
"""
LINES = (
    {"id": "a", "rdl": "window(atom(<1 cpu>, 2, 2, 4, 8), 4, 12)"},
    {"id": "b", "rdl": "window(atom(<1 cpu>, 2, 2, 4, 8), 6, 12)"},
)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """Write a Plan in which `b` was refused though both could be held."""
    (tmp_path / "c.toml").write_text(CLUSTER)
    lines = [json.dumps({"tenant": "t", "submitted": 0, **line}) for line in LINES]
    (tmp_path / "w.jsonl").write_text("\n".join(lines))
    out = tmp_path / "plan.json"
    files = [tmp_path / "c.toml", tmp_path / "w.jsonl"]
    done = agenda("plan", *files, "--agent", "gree", "--out", out)
    assert done.exit_code == 0, done.output
    return out


def test_a_better_plan_is_written_and_valid(plan_file: Path, tmp_path: Path) -> None:
    """`b` comes in, `a` moves, the weights and the diff are reported, and the judge agrees."""
    out = tmp_path / "better.json"
    given = [str(plan_file), "--out", str(out), "--work", "40", "--admit-refused", "--no-solver"]
    done = agenda("optimize", *given, "-o", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["admitted"] == 1
    assert told["diff"]["counts"]["gained"] == 1
    assert told["goal"]["weights"]["reject"] == 1000
    assert agenda("validate", out).exit_code == 0
    table = agenda("optimize", *given)
    assert "1 gained, 1 moved" in table.output


def test_without_admission_nothing_need_change(plan_file: Path) -> None:
    """Refused requests stay out unless they are asked in; the file's refusals stay as they are."""
    done = agenda("optimize", plan_file, "--work", "20", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["diff"]["counts"]["gained"] == 0


def test_pins_that_cannot_all_stay_are_named(plan_file: Path, tmp_path: Path) -> None:
    """The machines under `a` are out: the pin is the conflict, told with where; exit code 3."""
    document = json.loads(plan_file.read_text())
    start, end = document["reservations"][0]["atoms"][0]["allocation"][0][:2]
    outage = {"machines": "m", "count": 1, "start": start, "end": end}
    document["cluster"]["outages"] = [outage]
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(document))
    done = agenda("optimize", broken, "--pin", "a", "--work", "5")
    assert done.exit_code == 3
    assert "cannot all be kept: a" in done.output
    assert "machines that are up at 8s from the origin hold 1 of its 2 bundles" in done.output
    mended = tmp_path / "mended.json"
    free = [str(broken), "--work", "5", "--no-solver", "--out", str(mended)]
    assert agenda("optimize", *free).exit_code == 0
    assert agenda("validate", mended).exit_code == 0


def test_promises_that_are_lowered_are_counted_apart(plan_file: Path, tmp_path: Path) -> None:
    """No machine is left for `a`: it is degraded in the summary and the JSON, not moved."""
    document = json.loads(plan_file.read_text())
    document["cluster"]["outages"] = [{"machines": "m", "count": 2, "start": 0, "end": 20}]
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(document))
    given = ["optimize", str(broken), "--work", "5", "--no-solver"]
    table = agenda(*given)
    assert table.exit_code == 0, table.output
    assert "1 degraded, " in table.output
    told = json.loads(agenda(*given, "-o", "json").output)["diff"]
    assert (told["counts"]["degraded"], told["counts"]["moved"]) == (1, 0)
    assert [one["fate"] for one in told["requests"]] == ["degraded"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--pin", "c"], "no current reservation 'c'"),
        (["--pin", "b"], "'b' was refused and has no allocation to pin"),
        (["--weights", "chrun=1"], "is not a weight"),
        (["--weights", "churn=much"], "is not a number"),
        (["--weights", "churn=-1"], "0 or more"),
        (["--frozen-until", "2h"], "before the horizon"),
    ],
)
def test_bad_options_are_reported(plan_file: Path, option: list[str], said: str) -> None:
    """Each says what is wrong and what would be right."""
    done = agenda("optimize", plan_file, "--work", "1", *option)
    assert done.exit_code == 1
    assert said in done.output


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (["--weights", "churn=1,churn=2"], 1, "churn is given twice"),
        (["--solver", "exact", "--no-solver"], 2, "either --solver or --no-solver"),
    ],
)
def test_wishes_that_exclude_each_other_are_reported(
    plan_file: Path, given: list[str], code: int, says: str
) -> None:
    """Neither the first nor the last wins in silence."""
    done = agenda("optimize", plan_file, *given)
    assert done.exit_code == code
    assert says in done.output


def test_the_bound_written_is_that_of_the_whole_plan(plan_file: Path, tmp_path: Path) -> None:
    """`a` is over by `frozen_until`: it counts in the bound of the file as it does in the value."""
    lines = [
        {**LINES[0], "rdl": "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 4)"},
        {**LINES[1], "id": "c"},
    ]
    text = "\n".join(json.dumps({"tenant": "t", "submitted": 0, **line}) for line in lines)
    (tmp_path / "w.jsonl").write_text(text)
    files = [tmp_path / "c.toml", tmp_path / "w.jsonl"]
    assert agenda("plan", *files, "--out", plan_file).exit_code == 0
    out = tmp_path / "better.json"
    how = ["--frozen-until", "5", "--work", "5", "--out", str(out), "-o", "json"]
    done = agenda("optimize", plan_file, *how)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["value"] == pytest.approx(8 / 3600, abs=1e-6)
    metrics = json.loads(out.read_text())["metrics"]
    assert [metrics["value"], metrics["bound"]] == pytest.approx([16 / 3600] * 2)
    assert metrics["gap"] == 0
    assert agenda("validate", out).exit_code == 0


def test_who_is_left_out_is_reported(plan_file: Path, tmp_path: Path) -> None:
    """How many by code, and each with the first line of why; the JSON has them all."""
    wide = [{"id": f"w{i}", "rdl": "window(atom(<2 cpu>, 1, 1, 2, 2), 0, 12)"} for i in range(22)]
    text = "\n".join(
        json.dumps({"tenant": "t", "submitted": 0, **line}) for line in (*LINES, *wide)
    )
    (tmp_path / "w.jsonl").write_text(text)
    files = [tmp_path / "c.toml", tmp_path / "w.jsonl"]
    assert agenda("plan", *files, "--out", plan_file).exit_code == 0
    given = [str(plan_file), "--work", "40", "--admit-refused", "--no-solver"]
    table = agenda("optimize", *given).output
    assert "22 left out: 22 unsatisfiable" in table
    assert "2 cpu is more than any machine has" in table
    assert "^" not in table
    assert "... and 2 more; -o json lists all" in table
    told = json.loads(agenda("optimize", *given, "-o", "json").output)
    assert [one["id"] for one in told["left_out"]] == [one["id"] for one in wide]
