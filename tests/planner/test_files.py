"""Files: what is read, what is written, and how every problem says where it is."""

from __future__ import annotations

import errno
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planner.files import (
    FileError,
    PlanDocument,
    classes_from_json,
    cluster_from_json,
    cluster_to_json,
    read_cluster,
    read_line,
    read_plan,
    write_plan,
)
from planner.files.schema import load_schema

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

PLAN = {
    "cluster": {
        "step": "1s",
        "horizon": "800s",
        "machines": [{"name": "m", "count": 100, "resources": {"cpu": 1}}],
    },
    "version": 1,
    "step_s": 1,
    "agent": "gree",
    "order": "submitted",
    "reservations": [
        {
            "id": "r1",
            "tenant": "ads",
            "queue": "default",
            "submitted": 0,
            "state": "accepted",
            "weight": 1.0,
            "priority": 0,
            "revision": 1,
            "agent": "gree",
            "expression": "atom(<1 cpu>, 1, 10, 240, 2400)",
            "choices": {},
            "notes": [],
            "atoms": [{"path": "", "bundle": {"cpu": 1}, "allocation": [[440, 680, 10]]}],
        }
    ],
    "refusals": [
        {
            "id": "r2",
            "tenant": "ads",
            "queue": "default",
            "submitted": 0.5,
            "weight": 1.0,
            "priority": 0,
            "expression": "atom(<200 cpu>, 1, 1, 1, 1)",
            "code": "capacity",
            "detail": "no",
            "binding": {
                "path": "",
                "kind": "fit",
                "at": None,
                "resource": "cpu",
                "needed": "500m",
                "free": 0,
                "policy": None,
            },
            "offers": [],
        }
    ],
    "metrics": {
        "runtime_ms": 0.1,
        "acceptance": 1.0,
        "accepted": 1,
        "requests": 2,
        "preemption": 10,
        "preemption_inner": 0,
        "uniformity": None,
        "value": 24.0,
        "bound": None,
        "gap": None,
        "status": "placed",
    },
}


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
            "known are m",
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
            "unknown zone",
        ),
        (
            {"policies": [{"type": "quota", "limit": {}, "from": "8:00", "to": "9:00"}]},
            "/policies/0/from",
            "08:00",
        ),
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "/", "given twice"),
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


def test_a_plan_written_is_the_plan_read(tmp_path: Path) -> None:
    """write_plan and read_plan are a round trip, byte for byte the second time."""
    document = PlanDocument.from_json(PLAN)
    path = tmp_path / "plan.json"
    write_plan(document, path)
    assert read_plan(path) == document
    assert read_plan(path).to_text() == path.read_text()
    assert json.loads(path.read_text()) == PLAN
    assert not list(tmp_path.glob("*.partial"))


def test_writing_a_plan_replaces_only_a_file(tmp_path: Path) -> None:
    """A link stays a link, a pipe is written to, a file that was private stays private."""
    document = PlanDocument.from_json(PLAN)
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    kept.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(kept)
    write_plan(document, link)
    assert link.is_symlink()
    assert kept.read_text() == document.to_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_plan(document, pipe)
        assert os.read(reader, 1_000_000).decode() == document.to_text()
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept.json", "link.json", "pipe"]


def test_a_plan_that_cannot_be_written_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the last moment: the old plan stands, and no part of the new one is left."""
    path = tmp_path / "plan.json"
    path.write_text("old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_plan(PlanDocument.from_json(PLAN), path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("edit", "pointer"),
    [
        (lambda p: p.pop("version"), "/"),
        (lambda p: p["reservations"][0].update(state="asleep"), "/reservations/0/state"),
        (lambda p: p["reservations"][0].update(statee=1), "/reservations/0/statee"),
        (
            lambda p: p["reservations"][0]["atoms"][0].update(allocation=[[1, 2]]),
            "/reservations/0/atoms/0/allocation/0",
        ),
        (lambda p: p["refusals"][0].update(code="mood"), "/refusals/0/code"),
        (lambda p: p["cluster"].update(step="1x"), "/cluster/step"),
    ],
)
def test_every_problem_of_a_plan_names_its_place(edit: Any, pointer: str) -> None:
    """Unknown keys, wrong states, short rows, and what is wrong with its cluster."""
    document = json.loads(json.dumps(PLAN))
    edit(document)
    with pytest.raises(FileError) as caught:
        PlanDocument.from_json(document)
    assert pointer in [one.pointer for one in caught.value.problems]


def test_a_broken_plan_file_names_its_line(tmp_path: Path) -> None:
    """Half a plan is not a plan."""
    path = tmp_path / "plan.json"
    path.write_text(PlanDocument.from_json(PLAN).to_text()[:-40])
    with pytest.raises(FileError) as caught:
        read_plan(path)
    assert caught.value.line is not None


@pytest.mark.parametrize("value", ["NaN", "Infinity", "9" * 5000])
def test_a_plan_file_holds_numbers_of_json(tmp_path: Path, value: str) -> None:
    """Python reads NaN and no number of 5,000 digits; neither passes, neither is a crash."""
    path = tmp_path / "plan.json"
    path.write_text(f'{{"version": {value}}}')
    with pytest.raises(FileError, match="number"):
        read_plan(path)


def test_the_examples_of_the_manual_are_true() -> None:
    """What docs/files.md shows is read, and its plan is written back letter for letter."""
    text = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    toml = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", text, re.S)]
    cluster = cluster_from_json({**toml[0], **toml[1]})
    assert (len(cluster.policies), len(cluster.outages)) == (3, 1)
    assert classes_from_json(toml[2])[0].name == "small"
    lines, plan = re.findall(r"```json\n(.*?)```", text, re.S)
    assert [read_line(json.loads(line)).id for line in lines.splitlines()] == ["r1", "r2"]
    assert PlanDocument.from_json(json.loads(plan)).to_text() == plan
