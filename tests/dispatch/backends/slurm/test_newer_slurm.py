"""The JSON of newer Slurm, as its documented schemas have it: answers written after these.

None of these versions was run here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.records import SlurmJob

ANSWERS = Path(__file__).parent / "answers"
VERSIONS = ("23.11", "24.05", "24.11", "25.05")


@pytest.fixture(params=VERSIONS)
def commands(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SlurmCommands:
    """Return the commands of a version; each notes that it was asked."""
    for command, answer in (("squeue", "squeue"), ("sinfo", "sinfo"), ("scontrol", "nodes")):
        path = tmp_path / command
        file = ANSWERS / f"{answer}-{request.param}.json"
        path.write_text(f"#!/bin/sh\necho {command} >> {tmp_path}/asked\ncat {file}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return SlurmCommands()


def test_jobs_are_read(commands: SlurmCommands) -> None:
    """Times, limits and codes are objects there, and a state is a list of words."""
    runs, held, completing, failed, killed, stranded, array, task = commands.jobs()
    assert runs == SlurmJob(
        11, "train", "ann", "agenda reservation=r1 close=yes deadline=1764410000 work=3600",
        "RUNNING", "None", ("n1", "n2"), (), "agenda", ("agenda_r1_1",), 1, 0, 60, 1764400000,
        1764403600, 1764407200, 8, 1536, account="lab", qos="normal",
        tres="cpu=8,mem=1.50G,node=2,billing=8",
    )  # fmt: skip
    assert runs.is_up
    assert held.waits
    assert held.is_held
    assert (held.wanted_nodes, held.started_s, held.reservations) == (("n3", "n4"), 0, ())
    assert completing.is_ending
    assert (failed.state, failed.status) == ("FAILED", 3 << 8)
    assert (killed.state, killed.status) == ("CANCELLED", 9)
    assert stranded.is_stranded
    assert (array.array, array.waits) == (17, True)
    assert (task.array, task.limit_min, task.ends_s) == (17, 0, 0)
    assert [job.array for job in (runs, held)] == [0, 0]


def test_nodes_are_read_where_sinfo_lists_groups(commands: SlurmCommands, tmp_path: Path) -> None:
    """`scontrol` lists them one by one; from the second time on it alone is asked."""
    mixed, drained, down, unknown = commands.nodes()
    assert (mixed.cpus, mixed.memory, mixed.features) == (8, 64000, ("fat", "ib"))
    assert (mixed.gres, mixed.gpu_type) == ((("gpu", 4),), "a100")
    assert (mixed.partitions, mixed.begun_s) == (("agenda", "scavenge"), 1764300100)
    assert [one.is_up for one in (mixed, drained, down, unknown)] == [True, False, False, True]
    assert [one.answers for one in (mixed, drained, down, unknown)] == [True, True, False, None]
    assert drained.reason == "disk"
    commands.nodes()
    assert (tmp_path / "asked").read_text().split() == ["sinfo", "scontrol", "scontrol"]
