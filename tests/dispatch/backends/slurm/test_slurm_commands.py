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


@pytest.mark.parametrize("name", ["a|b", "a b", "caf\u2028", "", "two\nlines"])
def test_a_job_of_any_name_is_read_from_the_accounting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a line end in it is left out; the others are there."""
    row = (
        "\x1f{name}\x1fn[1-2]\x1fCOMPLETED\x1f0:0\x1f5\x1f6\x1f9\x1fann\x1fmain\x1f4\x1f5"
        "\x1f9\x1fx|y\n"
    )
    said = tmp_path / "said"
    said.write_text("1" + row.format(name=name) + "2" + row.format(name="plain"))
    sacct = tmp_path / "sacct"
    sacct.write_text(f'#!/bin/sh\ncase "$*" in *--delimiter=\x1f*) cat {said};; esac\n')
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = SlurmCommands().accounted_runs("now-1days")
    names = ["plain"] if "\n" in name else [name, "plain"]
    assert [(job.name, job.nodes, job.ends_s, job.comment) for job in found] == [
        (one, ("n1", "n2"), 9, "x|y") for one in names
    ]


@pytest.mark.parametrize(
    ("state", "own"),
    [("CANCELLED by 9", True), ("CANCELLED by 0", False), ("CANCELLED", False), ("FAILED", False)],
)
def test_the_accounting_says_who_cancelled_a_job(
    state: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user of the job, whose number is 9 here, or another."""
    row = ["1", "job", "n1", state, "0:0", "5", "6", "9", "ann", "main", "4", "5", "9", "x"]
    (tmp_path / "said").write_text("\x1f".join(row) + "\n")
    sacct = tmp_path / "sacct"
    sacct.write_text(f"#!/bin/sh\ncat {tmp_path / 'said'}\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (job,) = SlurmCommands().accounted_runs("now-1days")
    assert (job.state, job.is_cancelled_by_owner) == (state.split()[0], own)
