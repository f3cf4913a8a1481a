"""Who is asked which jobs have processes, and what an answer says of which of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmAwayError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.vanished_jobs import VanishedJobs


@pytest.mark.parametrize(
    ("errors", "known"),
    [
        ("", {5: True, 6: False, 7: False}),
        ("sstat: some remark", {5: True, 6: False, 7: False}),
        ("sstat: error: problem getting step_layout for StepId=6.batch: x", {5: True, 7: False}),
        ("sstat: error: couldn't get steps for job 7", {5: True, 6: False}),
        ("sstat: error: the request to n1 rc = Socket timed out", {5: True}),
    ],
)
def test_a_job_that_an_error_names_is_not_known_to_have_no_processes(
    tmp_path: Path, errors: str, known: dict[int, bool]
) -> None:
    """sstat ends well, without its row; an error that names no job may be of any."""
    command = tmp_path / "sstat"
    command.write_text(f'#!/bin/sh\necho "5.batch|123"\necho "{errors}" >&2\n')
    command.chmod(0o755)
    commands = SlurmCommands(environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert commands.jobs_with_processes([5, 6, 7]) == known


class _Nodes:
    """Nodes whose slurmd knows nothing of its job, but for one that never answers in time."""

    def __init__(self, mute: int) -> None:
        self.mute = mute
        self.asked: list[list[int]] = []

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        self.asked.append(list(ids))
        if self.mute in ids:
            raise SlurmAwayError("sstat did not answer in 2 s")
        return dict.fromkeys(ids, False)


def _gone_in(nodes: _Nodes, count: int, seconds: int) -> set[int]:
    """Return which of so many jobs are found gone by a look each second."""
    jobs = {
        id_: SlurmJob(id_, "j", "u", "", "RUNNING", "", (f"n{id_}",), started_s=100)
        for id_ in range(1, count + 1)
    }
    there = {f"n{id_}": SlurmNode(f"n{id_}", 1, 1, "IDLE", (), "", (), begun_s=200) for id_ in jobs}
    now = [0.0]
    vanished = VanishedJobs(nodes, lambda: now[0])
    gone: set[int] = set()
    for _ in range(seconds):
        now[0] += 1.0
        left = jobs.keys() - gone
        gone |= set(vanished.among(left, Look(jobs, there)))
    return gone


def test_all_jobs_have_their_turn() -> None:
    """Three hundred in two questions, each asked twice."""
    nodes = _Nodes(mute=0)
    assert _gone_in(nodes, 300, 5) == set(range(1, 301))
    assert max(map(len, nodes.asked)) == 200


def test_a_node_that_does_not_answer_hides_no_other_for_long() -> None:
    """Fewer are asked for at a time, until the others have answered."""
    assert _gone_in(_Nodes(mute=3), 40, 40) == set(range(1, 41)) - {3}
