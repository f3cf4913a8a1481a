"""What Slurm's commands say: who does not answer, and what others have named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Batch job submission failed: Zero Bytes were transmitted or received", SlurmAwayError),
        ("Unable to contact slurm controller (connect failure)", SlurmAwayError),
        ("Message receive failure", SlurmAwayError),
        ("Batch job submission failed: Invalid partition name specified", SlurmError),
    ],
)
def test_a_slurmctld_that_dies_in_its_answer_is_away(said: str, kind: type[SlurmError]) -> None:
    """What it refuses is refused: that is not asked again at once."""
    with pytest.raises(SlurmError) as caught:
        SlurmCommands().run("sh", "-c", 'echo "error: $0" >&2; exit 1', said)
    assert type(caught.value) is kind


def test_a_job_whose_name_is_no_utf8_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may name a job so."""
    squeue = tmp_path / "squeue"
    entry = r'{"job_id": 1, "name": "caf\351", "job_state": "RUNNING"}'
    squeue.write_text(f"#!/bin/sh\nprintf '%b' '{{\"jobs\": [{entry}], \"errors\": []}}'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [job.id for job in SlurmCommands().jobs()] == [1]
