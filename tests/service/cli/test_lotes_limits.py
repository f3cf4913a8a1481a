"""`agenda lotes` on bad and on extreme input: what is named, what is refused, what still works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import DONE, ERROR
from tests.service.cli.command_line import agenda
from tests.service.cli.lotes_files import Write, group, job, planned, writer


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> Write:
    """Write a cluster of the given groups and one more file; return both paths."""
    return writer(tmp_path)


def test_a_class_that_fits_no_machine_is_named_and_the_rest_planned(files: Any) -> None:
    """The message has the class and the nearest fit; the other class keeps its lambda."""
    groups = group("small", 2, "cpu = 4") + group("large", 2, "cpu = 8")
    paths = files(groups, "classes.toml", job("huge", "cpu = 10") + job("one", "cpu = 4"))
    done = agenda("lotes", *paths)
    assert done.exit_code == DONE
    assert "class 'huge' gets nothing: its mean request fits no machine" in done.stderr
    assert "nearest is large, one takes 1.25 of it" in done.stderr
    # Six jobs of 4 cores a minute are half of the arrivals.
    assert planned(*paths)["lambda_rounded"] == pytest.approx(12 / 60)


def test_nothing_served_is_an_error(files: Any) -> None:
    """With no rate at all lambda is 0, said on standard error, and the exit code is 1."""
    paths = files(group("m", 1, "cpu = 4"), "classes.toml", job("never", "cpu = 1", "{ }"))
    done = agenda("lotes", *paths)
    assert done.exit_code == ERROR
    assert "class 'never' gets nothing: every rate of it is zero" in done.stderr
    assert "lambda is 0" in done.stderr


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (job("a", "cpu = 1", share=0.0), "/classes/0/share"),
        (job("a", "cpu = 1", '{ nowhere = "60s" }'), "known are m"),
        (job("a", "cpu = 1", '"0s"'), "/classes/0/mean_time"),
        (job("a", "cpu = 1") * 2, "is given twice"),
        ("[[classes]\n", "line 1"),
    ],
)
def test_a_bad_class_file_is_reported_with_its_place(files: Any, classes: str, said: str) -> None:
    """Zero shares, unknown machines, zero times, names given twice, broken TOML: exit code 1."""
    done = agenda("lotes", *files(group("m", 1, "cpu = 4"), "classes.toml", classes))
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert said in done.stderr


def test_a_class_may_ask_nothing_of_a_resource(files: Any) -> None:
    """r = 0 in memory limits nothing there: one machine of 4 cores runs four jobs of one."""
    resources = 'cpu = 4, memory = "8 GiB"'
    document = planned(*files(group("m", 1, resources), "c.toml", job("one", "cpu = 1")))
    assert document["lambda_rounded"] == pytest.approx(4 / 60)
    assert document["pairs"][0]["share"] == {"cpu": pytest.approx(1.0), "memory": 0.0}


def test_a_resource_that_no_machine_has_serves_no_one(files: Any) -> None:
    """A class that wants a GPU on a cluster without is named, not a division by zero."""
    paths = files(group("m", 1, "cpu = 4"), "c.toml", job("g", "gpu = 1") + job("o", "cpu = 1"))
    done = agenda("lotes", *paths)
    assert done.exit_code == DONE
    assert "class 'g' gets nothing: its mean request fits no machine" in done.stderr
    assert " inf " not in done.output + agenda("lotes", *paths, "--explain", "--rate", "9/h").output


def test_one_machine_runs_one_bin(files: Any) -> None:
    """One machine of 7 cores, jobs of 2 and 3 in equal shares: of its bins 2+1 is best balanced."""
    content = job("two", "cpu = 2") + job("three", "cpu = 3")
    document = planned(*files(group("m", 1, "cpu = 7"), "c.toml", content))
    assert [(one["count"], one["jobs"]) for one in document["bins"]] == [
        (1, {"two": 2, "three": 1})
    ]
    assert document["lambda_rounded"] == pytest.approx(2 / 60)


@pytest.mark.parametrize("mode", ["priced", "paper"])
def test_groups_of_equal_profile_are_as_one(files: Any, mode: str) -> None:
    """Two groups of the same machines sustain what one group of all of them does.

    Not so in paper mode, whose pairing may give each class a group of its own: never more.
    """
    content = job("two", "cpu = 2") + job("three", "cpu = 3", share=0.4)
    two = planned(
        *files(group("a", 20, "cpu = 7") + group("b", 10, "cpu = 7"), "c.toml", content),
        "--mode",
        mode,
    )
    one = planned(*files(group("m", 30, "cpu = 7"), "c.toml", content), "--mode", mode)
    assert two["lambda_allocation"] == pytest.approx(one["lambda_allocation"])
    if mode == "priced":
        assert two["lambda_assignment"] == pytest.approx(one["lambda_assignment"], rel=1e-5)
    assert 0 < two["lambda_rounded"] <= one["lambda_assignment"] * (1 + 1e-5)
    assert {one["machines"] for one in two["bins"]} == {"a", "b"}


def test_hundreds_of_classes_are_served_each(files: Any) -> None:
    """120 classes on 180 machines: each has a target, and lambda keeps most of its worth."""
    content = "".join(
        job(f"k{k}", f"cpu = {1 + (k * 7) % 13 / 10:.1f}", f'"{60 + k}s"') for k in range(120)
    )
    document = planned(*files(group("m", 180, "cpu = 16"), "c.toml", content))
    assert len({row["class"] for row in document["table"]}) == 120
    assert document["lambda_rounded"] > 0.6 * document["lambda_assignment"]


def test_more_classes_than_machines_can_serve_is_said_with_numbers(files: Any) -> None:
    """30 classes of whole machines on 20 machines: lambda is 0 after rounding, and why is said."""
    content = "".join(job(f"k{k}", "cpu = 4") for k in range(30))
    done = agenda("lotes", *files(group("m", 20, "cpu = 4"), "c.toml", content))
    assert done.exit_code == ERROR
    assert "30 classes are too many for 20 machines" in done.stderr
    assert "10 classes get nothing" in done.stderr


def test_too_many_classes_are_refused_with_numbers(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes whose bins would not fit in memory are refused, with what to do instead."""
    monkeypatch.setattr("lp.lotes.pricing.MOST_COUNTS", 6_000)
    content = "".join(job(f"k{k}", "cpu = 1") for k in range(80))
    done = agenda("lotes", *files(group("m", 20, "cpu = 4"), "c.toml", content))
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "80 usable pairs" in done.stderr
    assert "6,400 counts, more than the limit of 6,000" in done.stderr
    assert "merge classes that are the same" in done.stderr


def test_paper_mode_refuses_what_it_cannot_enumerate(files: Any) -> None:
    """Twelve classes of small jobs on one large machine: the message names the other mode."""
    content = "".join(job(f"k{k}", f"cpu = {1 + k / 10:.1f}") for k in range(12))
    kinds = group("m", 20, "cpu = 64") + group("n", 20, "cpu = 48")
    done = agenda("lotes", *files(kinds, "c.toml", content), "--mode", "paper")
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "use the priced mode" in done.stderr


def test_classes_that_ask_for_nothing_are_an_error(files: Any) -> None:
    """No rate is too high for them, which is said instead of computed."""
    done = agenda("lotes", *files(group("m", 1, "cpu = 8"), "classes.toml", job("free", "")))
    assert done.exit_code == ERROR
    assert "no rate is too high" in done.stderr
