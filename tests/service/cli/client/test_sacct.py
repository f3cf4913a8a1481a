"""`agenda sacct`: what the server says of a promise, alongside what Slurm says of its work."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.kit.server import Server, ServerReply
from service.cli.slurm import sacct


@pytest.mark.parametrize(
    ("said", "is_over", "promise"),
    [("kept", True, "kept"), ("kept", False, "open"), ("unused", True, "unused"),
     ("degraded", True, "degraded")],
)  # fmt: skip
def test_whether_a_promise_was_kept_is_what_the_server_says(
    said: str, is_over: bool, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that ended after its deadline is late work, whatever became of the promise."""
    comment = promise_comment("r", 1000, 40)
    job = SlurmJob(
        7, "job", "ann", comment, "COMPLETED", "", ("n1",), submitted_s=900, started_s=990,
        ends_s=1010,
    )  # fmt: skip
    monkeypatch.setattr(SlurmCommands, "accounted_runs", lambda *_: [job])
    told = {"id": "r", "tenant": "t", "promise": said, "is_over": is_over}
    reply = ServerReply(200, {"reservations": [told]})
    monkeypatch.setattr(Server, "call", lambda *_, **__: reply)

    done = CliRunner().invoke(sacct, ["-o", "json"])

    (entry,) = json.loads(done.stdout)
    assert (entry["promise"], entry["work"]) == (promise, "late")
