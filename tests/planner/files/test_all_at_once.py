"""A cluster file with many mistakes: all are reported together, each at its own place."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.files import FileError, cluster_from_json, read_cluster

TEXT = """
step = "1 minute"
horizon = "24h"
zone = "Europe/Berln"
colour = "red"

[[machines]]
name = "plain"
count = "four"
resources = { cpu = 16, memory = "64 Gib" }

[[machines]]
name = "gpus"
count = 2
labels = "ssd"
resources = { cpu = 16, gpu = 0.5 }

[[outages]]
machines = "plain"
count = 1
start = "2h"
end = "1h"
colour = "red"

[[outages]]
machines = "gpsu"
count = 1
start = "1h"
end = "2h"

[[outages]]
machines = "gpus"
count = 3
start = "2h"
end = "1h"
"""


def test_a_cluster_file_is_checked_in_one_round(tmp_path: Path) -> None:
    """Form, units, zones, names of groups, ends and counts; what is right is not mentioned."""
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT)
    with pytest.raises(FileError) as caught:
        read_cluster(file)
    assert {one.pointer for one in caught.value.problems} == {
        "/step",
        "/zone",
        "/colour",
        "/machines/0/count",
        "/machines/0/resources",
        "/machines/1/labels",
        "/machines/1/resources/gpu",
        "/outages/0/colour",
        "/outages/0/end",
        "/outages/1/machines",
        "/outages/2/count",
        "/outages/2/end",
    }


def test_limits_that_cannot_be_read_are_reported_after_many_other_problems() -> None:
    """Problems beyond the first twenty are only counted, and still known."""
    policies = [{"type": "quota", "limit": {"\x15": 1}} for _ in range(30)]
    document = {"step": "1m", "horizon": "1d", "machines": [], "policies": policies}
    document["machines"] = [{"name": "m", "count": 1, "resources": {"cpu": 1}}]
    with pytest.raises(FileError) as caught:
        cluster_from_json(document)
    assert caught.value.problems.total >= 30
