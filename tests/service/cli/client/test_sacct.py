"""`agenda sacct`: what the server reported of a promise that Slurm's accounting says was late."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.client.server import Server, ServerReply
from service.cli.client.slurm.sacct import sacct


@pytest.mark.parametrize(
    ("words", "verdict"), [(["admitted", "unused"], "unused"), (["admitted", "missed"], "late")]
)
def test_a_late_promise_that_passed_unused_is_called_so(
    words: list[str], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of the reservation is read; a job that ended after its deadline is late else."""
    comment = promise_comment("r", 1000, 40)
    job = SlurmJob(
        7, "job", "ann", comment, "COMPLETED", "", ("n1",), submitted_s=900, started_s=990,
        ends_s=1010,
    )  # fmt: skip
    monkeypatch.setattr(SlurmCommands, "accounted_runs", lambda *_: [job])
    reply = ServerReply(200, {"history": [{"what": word} for word in words]})
    monkeypatch.setattr(Server, "call", lambda *_: reply)

    done = CliRunner().invoke(sacct, ["-o", "json"])

    (entry,) = json.loads(done.stdout)
    assert entry["promise"] == verdict
