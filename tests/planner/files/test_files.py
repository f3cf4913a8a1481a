"""Cluster files and the examples of the manual: what is read, and where every problem is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.files import (
    FileError,
    PlanDocument,
    classes_from_json,
    cluster_from_json,
    cluster_to_json,
    read_cluster,
    read_line,
    read_plan,
)
from planner.files.schema import load_schema
from planner.promise import PromiseLevel

CLUSTER = """
step = "60s"
horizon = "24h"
origin = "2026-01-05T00:00:00Z"
max_period = "12h"

[[machines]]
name = "standard"
count = 400
resources = { cpu = 32, memory = "128 GiB" }
labels = ["ssd"]
domains = { zone = "a", rack = "r1" }

[promises]
requests_may_choose = ["pooled"]

[[outages]]
machines = "standard"
count = 20
start = "2h"
end = 2026-01-05T04:00:00Z

[[outages]]
machines = "standard"
names = ["standard-3", "standard-5"]
start = 0
end = "10m"

[[queues]]
name = "dedicated"

[[queues]]
name = "scavenger"
reservable = false

[[prices]]
start = "8h"
end = "18h"
factor = 2.0

[[policies]]
type = "capacity_over_time"
tenant = "*"
instant = 0.7
average = 0.5
window = "24h"

[[policies]]
type = "quota"
name = "working hours"
queue = "dedicated"
limit = { cpu = 100, gpu = 0 }
from = "08:00"
to = "18:00"
days = ["mon", "tue"]
zone = "Europe/Paris"

[[policies]]
type = "limits"
max_window = "7d"
min_lead = "5m"
max_count = 3
"""


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """A cluster file that uses every key."""
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


def test_a_cluster_file_is_read_whole(cluster_file: Path) -> None:
    """Every key ends where it belongs, in ms, canonical amounts and machine numbers."""
    cluster = read_cluster(cluster_file)
    assert (cluster.step_ms, cluster.horizon_ms, cluster.max_period_ms) == (
        60_000,
        86_400_000,
        43_200_000,
    )
    assert cluster.outages[0].indices == tuple(range(380, 400))
    assert (cluster.outages[0].start_ms, cluster.outages[0].end_ms) == (7_200_000, 14_400_000)
    assert cluster.outages[1].indices == (3, 5)
    assert cluster.machines[0].domains == (("rack", "r1"), ("zone", "a"))
    assert cluster.promise is PromiseLevel.PLACED
    assert cluster.promise_choices == (PromiseLevel.POOLED,)
    assert [queue.reservable for queue in cluster.queues] == [True, False]
    assert dict(cluster.machines[0].resources) == {"cpu": 32_000, "memory": 131_072}
    assert [policy.name for policy in cluster.policies] == [
        "capacity_over_time-0",
        "working hours",
        "limits-2",
    ]


def test_writing_a_cluster_and_reading_it_gives_the_same_cluster(cluster_file: Path) -> None:
    """cluster_from_json(cluster_to_json(c)) == c, and what is written obeys the schema."""
    cluster = read_cluster(cluster_file)
    document = cluster_to_json(cluster)
    jsonschema.validate(document, load_schema("cluster"))
    assert cluster_from_json(json.loads(json.dumps(document))) == cluster


def test_a_cluster_without_promises_is_as_its_reader_says(tmp_path: Path) -> None:
    """A file promises machines; JSON of plans and records from before levels promised totals."""
    document = {"step": 1, "horizon": 9, "machines": [{"name": "m", "count": 1, "resources": {}}]}
    path = tmp_path / "c.toml"
    path.write_text('step = 1\nhorizon = 9\n[[machines]]\nname = "m"\ncount = 1\nresources = {}\n')

    assert read_cluster(path).promise is PromiseLevel.PLACED
    assert cluster_from_json(document).promise is PromiseLevel.POOLED
    present = cluster_from_json(document, level=PromiseLevel.PLACED)
    assert cluster_to_json(present)["promises"] == {"level": "placed"}
    assert cluster_from_json(cluster_to_json(present)) == present


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"horizn": 3}, "/horizn", "did you mean 'horizon'?"),
        ({"step": "1x"}, "/step", "unknown unit 'x'"),
        ({"step": 0}, "/step", "longer than nothing"),
        ({"step": None}, "/step", "expected"),
        ({"horizon": "10000w"}, "/", "take longer steps"),
        ({"machines": []}, "/machines", "1 or more"),
        ({"machines": [{"name": "m", "count": 1}]}, "/machines/0", "'resources' is missing"),
        (
            {"machines": [{"name": "m", "count": -1, "resources": {"cpu": 1}}]},
            "/machines/0/count",
            "less than 0",
        ),
        (
            {"machines": [{"name": "m", "count": 1, "resources": {"cpu": "1 GiB"}}]},
            "/machines/0/resources",
            "unknown unit 'GiB' for cpu",
        ),
        (
            {"outages": [{"machines": "n", "count": 1, "start": 0, "end": 1}]},
            "/outages/0/machines",
            "write one of m",
        ),
        (
            {"outages": [{"machines": "m", "names": [], "start": 0, "end": 1}]},
            "/outages/0/names",
            "one machine or more",
        ),
        (
            {"outages": [{"machines": "m", "names": ["m-0"], "start": 0, "end": 1, "id": "o"}] * 2},
            "/outages/1/id",
            "given twice",
        ),
        (
            {"outages": [{"machines": "m", "names": ["m-7"], "start": 0, "end": 1}]},
            "/outages/0/names/0",
            "machines are m-0 to m-1",
        ),
        (
            {"outages": [{"machines": "m", "count": 3, "start": 0, "end": 1}]},
            "/outages/0/count",
            "only 2 machines",
        ),
        (
            {"outages": [{"machines": "m", "count": 1, "start": 5, "end": 5}]},
            "/outages/0/end",
            "ends where it starts: no length",
        ),
        (
            {"outages": [{"machines": "m", "count": 1, "start": 5, "end": 4}]},
            "/outages/0/end",
            "the outage ends before it starts",
        ),
        (
            {"outages": [{"machines": "m", "start": 0, "end": 1}]},
            "/outages/0",
            "either a count or names",
        ),
        (
            {"machines": [{"name": "m", "count": 10**7, "resources": {"cpu": 10**9}}]},
            "/",
            "all machines together offer 10000000000000000 cpu",
        ),
        ({"origin": "yesterday"}, "/origin", "instant"),
        ({"origin": "9999-12-31T12:00:00Z"}, "/", "leaves the calendar"),
        ({"origin": "0001-01-01T12:00:00Z"}, "/", "leaves the calendar"),
        (
            {"prices": [{"start": "2026-01-01T00:00:00Z", "end": 1, "factor": 1}]},
            "/prices/0/start",
            "needs the cluster's origin",
        ),
        (
            {"prices": [{"start": 0, "end": 1, "factor": 1e308}]},
            "/prices/0/factor",
            "1e+308 is more than 1000000000",
        ),
        ({"policies": [{"type": "quotas"}]}, "/policies/0/type", "did you mean 'quota'?"),
        ({"policies": [{"name": "x"}]}, "/policies/0", "'type' is missing"),
        (
            {"policies": [{"type": "limits", "queue": "defalut", "max_count": 1}]},
            "/policies/0/queue",
            "there is no queue 'defalut'; did you mean 'default'?",
        ),
        (
            {"policies": [{"type": "capacity_over_time", "average": 0.5}]},
            "/policies/0",
            "come together",
        ),
        (
            {"policies": [{"type": "capacity_over_time", "average": 0.5, "window": 0.5}]},
            "/policies/0/window",
            "multiple of the step",
        ),
        (
            {"policies": [{"type": "capacity_over_time", "instant": 1.5}]},
            "/policies/0/instant",
            "more than 1",
        ),
        (
            {"policies": [{"type": "quota", "limit": {}, "zone": "Mars/Olympus"}]},
            "/policies/0/zone",
            "unknown time zone",
        ),
        (
            {"policies": [{"type": "quota", "limit": {}, "from": "8:00", "to": "9:00"}]},
            "/policies/0/from",
            "08:00",
        ),
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "/", "given twice"),
        (
            {"promises": {"level": "place"}},
            "/promises/level",
            "placed",
        ),
        (
            {"promises": {"requests_may_choose": ["pooled", "pooled"]}},
            "/promises/requests_may_choose/1",
            "pooled is given twice",
        ),
        (
            {"machines": [{"name": "m", "count": 2, "resources": {}, "domains": {"a\n": "b"}}]},
            "/machines/0/domains",
            "is not a domain",
        ),
        (
            {"machines": [{"name": "m", "count": 2, "resources": {}, "domains": {"rack": 1}}]},
            "/machines/0/domains/rack",
            "expected a text",
        ),
    ],
)
def test_every_problem_of_a_cluster_names_its_place(
    change: dict[str, Any], pointer: str, words: str
) -> None:
    """A pointer, what is wrong, and what would be right."""
    document = {
        "step": "1s",
        "horizon": "10s",
        "machines": [{"name": "m", "count": 2, "resources": {"cpu": 1}}],
        **change,
    }
    with pytest.raises(FileError) as caught:
        cluster_from_json(document, "c.toml")
    found = [one for one in caught.value.problems if one.pointer == pointer]
    assert found, caught.value
    assert any(words in str(one) for one in found), caught.value


def test_all_problems_of_a_cluster_are_reported_at_once() -> None:
    """Nobody fixes a file one error at a time."""
    with pytest.raises(FileError) as caught:
        cluster_from_json({"step": "1x", "horizon": "1y", "machines": [], "extra": 1})
    assert len(caught.value.problems) >= 2


def test_broken_toml_names_its_line(tmp_path: Path) -> None:
    """tomllib knows the line, so the reader says it."""
    path = tmp_path / "c.toml"
    path.write_text('step = "1s"\nhorizon = \n')
    with pytest.raises(FileError) as caught:
        read_cluster(path)
    assert caught.value.line == 2
    assert str(path) in str(caught.value)


def test_a_byte_order_mark_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """Some editors begin a text with one."""
    path = tmp_path / "c.toml"
    path.write_text(CLUSTER, encoding="utf-8-sig")
    assert read_cluster(path).step_ms == 60_000


def test_a_file_that_is_not_text_is_a_file_error(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are the file's fault, not a crash."""
    path = tmp_path / "c.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        read_cluster(path)
    with pytest.raises(FileError, match="UTF-8"):
        read_plan(path)


def test_the_examples_of_the_manual_are_true() -> None:
    """What docs/files.md shows is read, and its plan is written back letter for letter."""
    text = (Path(__file__).parents[3] / "docs" / "files.md").read_text()
    toml = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", text, re.S)]
    cluster = cluster_from_json({**toml[0], **toml[1], **toml[2]})
    assert (len(cluster.policies), len(cluster.outages)) == (6, 1)
    assert set(toml[1]["dispatch"]) == set(DispatchPolicy.__slots__)
    assert cluster.dispatch == DispatchPolicy()
    assert classes_from_json(toml[3])[0].name == "small"
    lines, plan = re.findall(r"```json\n(.*?)```", text, re.S)
    assert [read_line(json.loads(line)).id for line in lines.splitlines()] == ["r1", "r2"]
    assert PlanDocument.from_json(json.loads(plan)).to_text() == plan
