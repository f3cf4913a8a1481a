"""`agenda lotes`: lambda by hand, where classes come from, and what is said about bad ones."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import DONE, ERROR, USAGE
from service.cli.lotes import kind_of_file
from tests.service.cli.command_line import agenda
from tests.service.cli.lotes_files import Write, group, job, planned, writer

KEYS = [
    "lambda_allocation",
    "lambda_assignment",
    "lambda_rounded",
    "mode",
    "pairs",
    "bins",
    "table",
]


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> Write:
    """Write a cluster of the given groups and one more file; return both paths."""
    return writer(tmp_path)


@pytest.mark.parametrize("mode", ["priced", "paired", "paper"])
@pytest.mark.parametrize("solver", ["highs", "pulp:CBC"])
def test_two_machines_of_five_run_two_jobs_a_minute(files: Any, mode: str, solver: str) -> None:
    """Jobs of 3 on 2 x 5: 10/3 a minute pooled, 2 in bins, in any mode and by either solver."""
    paths = files(group("m", 2, "cpu = 5"), "classes.toml", job("three", "cpu = 3"))
    document = planned(*paths, "--mode", mode, "--solver", solver)
    assert list(document) == KEYS
    assert document["lambda_allocation"] == pytest.approx(10 / 3 / 60, rel=1e-6)
    assert document["lambda_assignment"] == pytest.approx(2 / 60, rel=1e-6)
    assert document["lambda_rounded"] == pytest.approx(2 / 60, rel=1e-6)
    assert document["bins"] == [{"machines": "m", "first": 0, "count": 2, "jobs": {"three": 1}}]
    assert document["table"] == [{"class": "three", "machines": "m", "part": 1.0, "target": 2}]


def test_the_bins_of_a_group_cover_its_machines_once(files: Any) -> None:
    """`first` and `count` of a group's bins follow one another from 0 to its last machine."""
    groups = group("a", 7, "cpu = 7") + group("b", 3, "cpu = 11")
    paths = files(groups, "classes.toml", job("two", "cpu = 2") + job("three", "cpu = 3"))
    bins = planned(*paths)["bins"]
    for name, count in (("a", 7), ("b", 3)):
        mine = [one for one in bins if one["machines"] == name]
        ends = [0, *(one["first"] + one["count"] for one in mine)]
        assert [one["first"] for one in mine] == ends[:-1]
        assert ends[-1] == count


def test_rates_follow_the_machine_group(files: Any) -> None:
    """A group left out of mean_time runs nothing of the class; twice as fast is twice as many."""
    groups = group("slow", 1, "cpu = 1") + group("fast", 1, "cpu = 1") + group("no", 1, "cpu = 1")
    times = '{ slow = "60s", fast = "30s" }'
    document = planned(*files(groups, "classes.toml", job("one", "cpu = 1", times)))
    assert document["lambda_rounded"] == pytest.approx(3 / 60)
    assert {row["machines"] for row in document["table"]} == {"slow", "fast"}


def line(name: str, rdl: str) -> str:
    """One line of a workload."""
    return json.dumps({"id": name, "submitted": 0, "rdl": rdl}) + "\n"


def test_a_workload_counts_leases_as_jobs(files: Any) -> None:
    """40 leases of 10 min in 10 h are 4 an hour; 4 cores finish 24 an hour: a load of 1/6.

    Of the `any` the first option counts; void requests count nothing.
    """
    atom = "atom(<1 cpu>, 1, 4, 600, 12000)"
    other = "atom(<4 cpu>, 1, 1, 600, 600)"
    content = line("a", f"window(order({atom}, {atom}), 0, 36000)")
    content += line("b", f"window(any({atom}, {other}), 0, 36000)")
    content = content.replace("12000", "6000") + line("v", "void(<1 cpu>, 3)")
    document = planned(*files(group("m", 1, "cpu = 4"), "w.jsonl", content), "--explain")
    explained = document["explain"]
    assert explained["jobs"] == 30
    assert explained["own_rate"] == pytest.approx(30 / 36000)
    assert explained["load"] == pytest.approx(3 / 24)
    assert [one["request"] for one in explained["classes"]] == [{"cpu": 1}]
    assert explained["classes"][0]["mean_time_s"] == {"m": pytest.approx(600)}


def test_work_on_a_label_stays_on_its_machines(files: Any) -> None:
    """Atoms with `on` make classes of their own, with a rate on labelled machines alone."""
    groups = group("plain", 3, "cpu = 4") + group("ssd", 1, "cpu = 4", '["ssd"]')
    content = line("a", "window(atom(<1 cpu>, 1, 4, 600, 6000), 0, 36000)")
    content += line("b", 'window(atom(<1 cpu>, 1, 4, 600, 6000, on="ssd"), 0, 36000)')
    table = planned(*files(groups, "w.jsonl", content))["table"]
    assert {row["machines"] for row in table if row["class"] == "ssd-1"} == {"ssd"}
    assert "plain" in {row["machines"] for row in table if row["class"] == "class-1"}


def test_a_plan_counts_starts_matched_first_in_first_out(files: Any, tmp_path: Path) -> None:
    """GREE's Plan of one atom of 10 x 240 s gives 10 jobs of 240 s, whatever the leases were."""
    rdl = "window(atom(<1 cpu>, 10, 10, 240, 2400), 0, 36000)"
    cluster, workload = files(group("m", 100, "cpu = 1"), "w.jsonl", line("r1", rdl))
    out = tmp_path / "plan.json"
    assert agenda("plan", cluster, workload, "--agent", "gree", "--out", out).exit_code == DONE
    explained = planned(cluster, out, "--explain")["explain"]
    assert (explained["source"], explained["jobs"]) == ("plan", 10)
    assert explained["classes"][0]["mean_time_s"] == {"m": pytest.approx(240)}
    assert explained["own_rate"] == pytest.approx(10 / 240)


def test_more_than_lambda_is_reported(files: Any) -> None:
    """A workload that asks for more than the machines sustain is planned, with a warning."""
    content = line("a", "window(atom(<1 cpu>, 1, 8, 600, 36000), 0, 7200)")
    done = agenda("lotes", *files(group("m", 1, "cpu = 4"), "w.jsonl", content))
    assert done.exit_code == DONE
    assert "brings 1.25 times the sustainable rate" in done.stderr


def test_work_without_jobs_is_an_error(files: Any) -> None:
    """A workload of best effort alone has nothing to make classes of."""
    done = agenda(
        "lotes", *files(group("m", 1, "cpu = 4"), "w.jsonl", line("v", "void(<1 cpu>, 3)"))
    )
    assert done.exit_code == ERROR
    assert "no work to form job classes from" in done.stderr


def test_the_three_forms_agree(files: Any) -> None:
    """CSV is the dispatch table of JSON; the table shows lambda, bins and pairs."""
    paths = files(group("m", 30, "cpu = 8"), "classes.toml", job("three", "cpu = 3"))
    document = planned(*paths)
    # By hand: 80 jobs pooled, 60 in bins.
    assert document["lambda_allocation"] / document["lambda_rounded"] == pytest.approx(80 / 60)
    rows = list(csv.DictReader(io.StringIO(agenda("lotes", *paths, "-o", "csv").stdout)))
    assert rows == [{key: str(value) for key, value in row.items()} for row in document["table"]]
    text = agenda("lotes", *paths, "--explain").stdout
    for word in ("allocation LP", "rounded", "2 three", "mean request", "proven bound"):
        assert word in text


def test_pictures_are_the_same_twice(files: Any, tmp_path: Path) -> None:
    """The SVG names groups and classes and has no date in it; another suffix is refused first."""
    paths = files(group("m", 30, "cpu = 8"), "classes.toml", job("three", "cpu = 3"))
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        assert agenda("lotes", *paths, "--picture", picture).exit_code == DONE
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert "m cpu" in pictures[0].read_text()
    assert "three" in pictures[0].read_text()
    wrong = agenda("lotes", *paths, "--picture", tmp_path / "a.gif")
    assert (wrong.exit_code, wrong.stdout) == (ERROR, "")


def test_an_unknown_solver_is_answered_with_the_nearest(files: Any) -> None:
    """Usage, exit code 2, before anything is read."""
    paths = files(group("m", 1, "cpu = 8"), "classes.toml", job("three", "cpu = 3"))
    done = agenda("lotes", *paths, "--solver", "higs")
    assert done.exit_code == USAGE
    assert "write highs" in done.stderr
    done = agenda("lotes", *paths, "--solver", "pulp:NOPE")
    assert (done.exit_code, "PuLP knows no solver 'NOPE'" in done.stderr) == (USAGE, True)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("[[classes]]", "classes"),
        ('{"id": "a", "rdl": "x"}\n{"id": "b"}', "workload"),
        ('{"cluster": {}, "reservations": []}', "plan"),
        ('{\n "version": 1, "reservations": []}', "plan"),
        ('{"id": "a",\n', "workload"),
    ],
)
def test_files_are_known_by_their_beginning(tmp_path: Path, content: str, kind: str) -> None:
    """TOML is a class file; one object with reservations a Plan; objects by line a workload."""
    path = tmp_path / "any"
    path.write_text(content)
    assert kind_of_file(path) == kind


@pytest.mark.parametrize(
    ("rate", "load", "served", "growth", "cores"),
    [
        ("60/h", 0.5, 60, 0, 0.3),
        ("2/m", 1.0, 120, 0, 0.6),
        ("0.05/s", 1.5, 120, 60, 0.6),
        ("0/d", 0.0, 0, 0, 0.0),
    ],
)
def test_a_rate_is_answered_with_what_it_does(
    files: Any, rate: str, load: float, served: float, growth: float, cores: float
) -> None:
    """Two machines of five cores run two jobs of three cores a minute: six of ten cores at most."""
    paths = files(group("m", 2, "cpu = 5"), "classes.toml", job("three", "cpu = 3"))
    told = planned(*paths, "--rate", rate)["at_rate"]
    assert told["load"] == pytest.approx(load)
    assert 3600 * told["served"] == pytest.approx(served)
    assert 3600 * told["growth"] == pytest.approx(growth)
    assert told["used"] == {"cpu": pytest.approx(cores)}
    assert told["in_service"] == {"three": pytest.approx(served / 60)}
    assert told["tightest"] == "three"


@pytest.mark.parametrize("rate", ["3000", "x/h", "1/week", "-1/h", "inf/h", "nan/h"])
def test_a_rate_that_is_none_is_refused(files: Any, rate: str) -> None:
    """The answer shows how one is written."""
    paths = files(group("m", 2, "cpu = 5"), "classes.toml", job("three", "cpu = 3"))
    assert agenda("lotes", *paths, f"--rate={rate}").exit_code == 2


def test_of_work_no_more_classes_are_made_than_machines_serve(files: Any) -> None:
    """Six sizes on two machines that hold one job each: they are joined until each class runs."""
    content = "".join(
        line(f"r{cpu}", f"window(atom(<{cpu} cpu>, 1, 1, 600, 600), 0, 36000)")
        for cpu in range(5, 11)
    )
    document = planned(*files(group("m", 2, "cpu = 10"), "w.jsonl", content), "--explain")
    assert 1 <= len(document["explain"]["classes"]) <= 2
    assert document["lambda_rounded"] > 0
    assert document["explain"]["load"] < 1
