"""Files of jobs in a shared folder: read by application, and limited by size and age."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dispatch.backends.run_records import LOG_BYTES
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.job_logs import limit_logs, log_paths, logs_of, make_folder


@pytest.fixture
def settings(tmp_path: Path) -> SlurmSettings:
    """Return settings with a folder for logs."""
    return SlurmSettings({"n-0": "node1"}, "agenda", "scavenge", logs=str(tmp_path / "logs"))


def write(settings: SlurmSettings, execution: str, job: int, text: bytes, index: int = 0) -> Path:
    """Write what a job does, where Slurm would."""
    make_folder(settings, execution)
    out, _ = log_paths(settings, (execution, "work.er", index), "n-0")
    path = Path(out.replace("%j", str(job)))
    with path.open("ab") as file:
        file.write(text)
    return path


def test_each_job_is_read_in_pieces(settings: SlurmSettings) -> None:
    """Of one application only, in the order of jobs, also where ids begin alike."""
    write(settings, "a", 9, b"first\n")
    write(settings, "a", 10, b"second\n", index=3)
    write(settings, "a.b", 8, b"other\n")
    first, second = logs_of(settings, "a")
    assert (first.component, first.index, first.machine, first.job) == ("work.er", 0, "n-0", "9")
    assert (second.index, second.stream, second.size) == (3, "stdout", 7)
    assert [second.read(0, 3), second.read(3, 100), second.read(7, 9)] == [
        (0, b"sec"), (3, b"ond\n"), (7, b""),
    ]  # fmt: skip
    assert logs_of(settings, "..") == []


def test_only_the_end_of_a_file_is_kept(settings: SlurmSettings) -> None:
    """Its space is freed, and what is kept stays where it was, while its job writes on."""
    path = write(settings, "a", 1, b"x" * (3 * LOG_BYTES) + b"end")
    (log,) = logs_of(settings, "a")
    assert log.read(0, 9)[0] == log.size - LOG_BYTES
    limit_logs(settings, 0, lambda _: True)
    write(settings, "a", 1, b" more")
    (log,) = logs_of(settings, "a")
    assert log.read(log.size - 8, 100) == (log.size - 8, b"end more")
    with path.open("rb") as file:
        has_holes = file.read(4) == b"\0" * 4
    if not has_holes:
        pytest.skip("this file system cannot free the beginning of a file")
    assert path.stat().st_blocks * 512 < 2 * LOG_BYTES


def test_old_output_goes_with_its_application(settings: SlurmSettings) -> None:
    """What was written to lately stays, and that of an application that is not over."""
    for execution, written_s in (("old", 100), ("new", 300), ("alive", 100)):
        path = write(settings, execution, 1, b"text")
        os.utime(path, (written_s, written_s))
        os.utime(path.parent, (written_s, written_s))
    limit_logs(settings, 200, lambda id_: id_ != "alive")
    left = {id_ for id_ in ("old", "new", "alive") if logs_of(settings, id_)}
    assert left == {"new", "alive"}
