"""Job-class files: shares, mean times and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.files import FileError, classes_from_json, read_classes
from tests.builders import a_cluster

TEXT = """
[[classes]]
name = "small"
share = 3
request = { cpu = 2, memory = "4 GiB" }
mean_time = "60s"

[[classes]]
name = "large"
share = 1
request = { cpu = 16 }
mean_time = { standard = "60s", fast = 30 }
"""
CLUSTER = a_cluster().machines("standard", 2, cpu=32, memory="64 GiB").build()


def test_classes_are_read_and_shares_add_up_to_one(tmp_path: Path) -> None:
    """Shares are of arrivals whatever their sum; a group left out cannot run the class."""
    path = tmp_path / "classes.toml"
    path.write_text(TEXT)
    small, large = read_classes(path)
    assert (small.share, large.share) == (0.75, 0.25)
    assert (small.mean_on("anything"), small.request["memory"]) == (60_000, 4096)
    assert [large.mean_on(group) for group in ("standard", "fast", "slow")] == [
        60_000,
        30_000,
        None,
    ]


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"mean_tme": 3}, "/classes/0/mean_tme", "did you mean 'mean_time'?"),
        ({"share": 0}, "/classes/0/share", "not more than 0"),
        ({"share": float("inf")}, "/classes/0/share", "finite"),
        ({"share": float("nan")}, "/classes/0/share", "finite"),
        ({"request": {"cpu": "x"}}, "/classes/0/request", "cpu"),
        ({"mean_time": "soon"}, "/classes/0/mean_time", "not a duration"),
        ({"mean_time": {"standard": 0}}, "/classes/0/mean_time/standard", "more than nothing"),
        ({"mean_time": {"fast": 3}}, "/classes/0/mean_time/fast", "known are standard"),
        ({"request": {"cpu": 33}}, "/classes/0", "no machine can run"),
    ],
)
def test_every_problem_of_a_class_names_its_place(
    change: dict[str, Any], pointer: str, words: str
) -> None:
    """A pointer, and what is wrong."""
    entry = {"name": "a", "share": 1, "request": {"cpu": 1}, "mean_time": 60, **change}
    with pytest.raises(FileError) as caught:
        classes_from_json({"classes": [entry]}, cluster=CLUSTER)
    assert any(one.pointer == pointer and words in str(one) for one in caught.value.problems)


def test_a_class_is_named_once() -> None:
    """The second of the same name is reported."""
    entry = {"name": "a", "share": 1, "request": {"cpu": 1}, "mean_time": 60}
    with pytest.raises(FileError, match="given twice"):
        classes_from_json({"classes": [entry, entry]})
