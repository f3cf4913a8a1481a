"""Plan files: what is read, what is written, and how every problem says where it is."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from planner.files import (
    FileError,
    PlanDocument,
    read_plan,
    write_plan,
)
from tests.planner.files.plan_example import PLAN


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
