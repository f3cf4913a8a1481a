"""Slurm's accounting as a workload: shapes of nodes, origin, recorded starts, parts of jobs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from planner.files import read_cluster, read_workload
from planner.workload.compile import compile_workload
from service.cli.reservations import bodies_in
from tests.service.cli.command_line import agenda

HEADER = (
    "JobID|JobName|User|Partition|Submit|Start|End|State|AllocCPUS|NNodes|AllocTRES|Timelimit|"
    "NodeList\n"
)


def record(id_: str, **changes: str) -> str:
    """Return a record: 8 CPUs on each of two nodes for an hour of two, after 5 minutes."""
    fields = {
        "id": id_, "name": "train", "user": "ada", "partition": "batch",
        "submit": "2026-11-09T02:00:30", "start": "2026-11-09T02:05:30",
        "end": "2026-11-09T03:05:30", "state": "COMPLETED", "cpus": "16", "nodes": "2",
        "tres": "cpu=16,mem=64G,gres/gpu:a100=4", "limit": "02:00:00", "list": "gpu-[1-2]",
    }  # fmt: skip
    return "|".join((fields | changes).values()) + "\n"


def imported(folder: Path, text: str, *more: str) -> tuple[list[dict[str, Any]], str]:
    """Import accounting; return the workload's lines and what was said."""
    (folder / "sacct.txt").write_text(HEADER + text)
    out, cluster = folder / "w.jsonl", folder / "c.toml"
    done = agenda(
        "import", "sacct", folder / "sacct.txt", "--out", out, "--cluster-out", cluster,
        "--slack", "1..1", *more,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in out.read_text().splitlines()], done.stderr


def test_a_job_is_a_gang_on_its_nodes(tmp_path: Path) -> None:
    """One share a node for the time limit; its wait and start are kept, from the origin on."""
    other = record("8", list="cpu-7", nodes="1", cpus="4", tres="cpu=4,mem=8G", limit="UNLIMITED",
                   partition="short", state="FAILED", submit="2026-11-09T02:01:00")  # fmt: skip
    lines, _ = imported(tmp_path, other + record("7"), "--zone", "Europe/Paris")
    first, second = lines
    assert (first["id"], first["tenant"], first["queue"], first["submitted"]) == (
        "7", "ada", "batch", 30,
    )  # fmt: skip
    assert first["rdl"]["window"] == {
        "start": 30,
        "end": 60 + 4 * 3600,
        "of": {
            "atom": {
                "bundle": {"cpu": 8, "memory": "32 GiB", "gpu": 2},
                "min": 2, "max": 2, "lease": 7200, "work": 14400,
            }
        },
    }  # fmt: skip
    assert first["recorded"] == {"start": 330, "end": 3930}
    assert second["rdl"]["window"]["of"]["atom"]["lease"] == 3600
    cluster = read_cluster(tmp_path / "c.toml")
    assert cluster.origin == datetime(2026, 11, 9, 1, 0, tzinfo=UTC)
    assert [
        (one.name, one.count, dict(one.resources))
        for one in sorted(cluster.machines, key=lambda one: one.name)
    ] == [
        ("cpu", 1, {"cpu": 4000, "memory": 8192}),
        ("gpu", 2, {"cpu": 8000, "gpu": 2, "memory": 32768}),
    ]
    work = compile_workload(list(read_workload(tmp_path / "w.jsonl", cluster.origin)), cluster)
    assert (len(work.requests), work.refusals) == (2, ())
    assert [body["id"] for body in bodies_in(str(tmp_path / "w.jsonl"))] == ["7", "8"]
    assert all("recorded" not in body for body in bodies_in(str(tmp_path / "w.jsonl")))


def test_a_node_is_as_large_as_what_jobs_had_of_it_at_the_same_time(tmp_path: Path) -> None:
    """Two jobs side by side on a node add up, one after the other do not."""
    small = {"cpus": "4", "nodes": "1", "tres": "cpu=4", "list": "n1"}
    later = {"start": "2026-11-09T03:05:30", "end": "2026-11-09T04:00:00"}
    text = record("1", **small) + record("2", **small) + record("3", **small, **later)
    imported(tmp_path, text)
    (group,) = read_cluster(tmp_path / "c.toml").machines
    assert dict(group.resources) == {"cpu": 8000}


def test_records_that_are_no_runs_are_left_out(tmp_path: Path) -> None:
    """A job that waits and a broken record are reported; steps are within their job."""
    text = (
        record("1") + record("1.batch") + record("2", start="Unknown", end="Unknown",
        state="PENDING") + "3|short\n" + record("4_7") + record("5+0") + record("5+1")
    )  # fmt: skip
    lines, said = imported(tmp_path, text)
    assert [line["id"] for line in lines] == ["1", "4_7", "5+0", "5+1"]
    assert [word for word in ("line 4 left out", "line 5 left out") if word not in said] == []


def test_a_requeued_job_waits_from_its_first_submission_to_its_last_start(tmp_path: Path) -> None:
    """Attempts of one job are one request."""
    again = record("1", submit="2026-11-09T04:00:30", start="2026-11-09T05:00:30",
                   end="2026-11-09T06:00:30")  # fmt: skip
    (line,), _ = imported(tmp_path, record("1", state="NODE_FAIL") + again)
    assert (line["submitted"], line["recorded"]["start"]) == (30, 3 * 3600 + 30)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER.replace("Submit|", "") + record("1"), "no column Submit"),
        (HEADER + record("1", start="Unknown"), "no job of the file has run"),
        (HEADER + record("1", start="soon"), "Start is a time"),
        (HEADER.replace("NodeList", "Comment") + record("1"), "no column NodeList"),
    ],
)
def test_accounting_that_says_too_little_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    """The column that is missing, or that no job has run."""
    (tmp_path / "sacct.txt").write_text(text)
    done = agenda("import", "sacct", tmp_path / "sacct.txt", "--cluster-out", tmp_path / "c.toml")
    assert (done.exit_code, said in done.output) == (1, True)
