"""kill -9 during a pipeline: each stage is done once, in order, or is announced as failed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.lab import LONG_S, Lab, end
from tests.end_to_end.slurm_lab import SlurmLab, until
from tests.patience import eventually

_RDL = (
    "window(order(extract: atom(<1 cpu>, 2, 2, 6s, 12s), frames: atom(<1 cpu>, 1, 2, 6s, 12s), "
    "publish: atom(<1 cpu>, 1, 1, 4s, 4s)), +0, +30m)"
)
_BROKEN = (
    "window(order(first: atom(<1 cpu>, 1, 1, 4s, 4s), second: atom(<1 cpu>, 1, 1, 4s, 4s)), "
    "+0, +30m)"
)


def a_pipeline(notes: Path, *, with_tasks: bool = True) -> dict[str, Any]:
    """Return one of three stages that write when they begin and end, the second of four tasks."""

    def stage(seconds: float, what: str) -> str:
        words = f"$AGENDA_COMPONENT {what}"
        return f'echo "begin {words}" >> {notes}; sleep {seconds}; echo "end {words}" >> {notes}'

    tasks = {"tasks": 4} if with_tasks else {}
    return {
        "id": "nightly",
        "rdl": _RDL if with_tasks else _RDL.replace("1, 2, 6s, 12s", "2, 2, 6s, 12s"),
        "agent": "earliest",
        "stages": {
            "extract": {"command": stage(4, "$AGENDA_INDEX")},
            "frames": {
                "command": stage(2, "$AGENDA_TASK" if with_tasks else "$AGENDA_INDEX"), **tasks
            },
            "publish": {"command": stage(2, "0")},
        },
    }  # fmt: skip


def faults_of(lines: Sequence[str], units: dict[str, int]) -> list[str]:
    """Return what is wrong with the notes of stages that ran one after the other.

    Parameters
    ----------
    units
        By stage in its order, how often its command is to run.
    """
    faults: list[str] = []
    places = list(units)
    last = 0
    seen: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        what, component, unit = line.split()
        stage = component.removesuffix("-elastic")
        if places.index(stage) < last:
            faults.append(f"{line}: after the stage that follows")
        last = max(last, places.index(stage))
        seen.setdefault((stage, unit), []).append(what)
    for stage, count in units.items():
        for unit in map(str, range(count)):
            if seen.pop((stage, unit), []) != ["begin", "end"]:
                faults.append(f"{stage} {unit} did not run once")
    return [*faults, *(f"{key} should not run" for key in seen)]


def test_the_stages_of_a_pipeline_are_done_once_and_in_order(tmp_path: Path) -> None:
    """Both executors and the server are killed while stages run; a failure is announced as such."""
    with ExitStack() as stack:
        lab = Lab(tmp_path, stack)
        lab.serve(LONG_S)
        machines = {"one": "lab-0", "two": "lab-1"}
        executors = {name: lab.execute(machine, name=name) for name, machine in machines.items()}
        lab.call("POST", "/v1/pipelines", a_pipeline(lab.notes))
        broken = {"first": {"command": "exit 3"}, "second": {"command": f"echo no >> {lab.notes}"}}
        body = {"id": "broken", "rdl": _BROKEN, "agent": "earliest", "stages": broken}
        lab.call("POST", "/v1/pipelines", body)
        for stage in ("extract", "frames", "publish"):
            eventually(
                lambda stage=stage: any(  # type: ignore[misc]
                    line.startswith(f"begin {stage}") for line in lab.lines()
                )
            )
            for name, machine in machines.items():
                end(executors[name])
                executors[name] = lab.execute(machine, name=name)
            assert lab.server is not None
            lab.server.kill()
            lab.serve(LONG_S)
        eventually(lambda: lab.state("nightly.publish") == "completed")
        found = faults_of(lab.lines(), {"extract": 2, "frames": 4, "publish": 1})
        assert found == [], lab.story(["nightly.extract", "nightly.frames", "nightly.publish"])
        eventually(lambda: lab.state("broken.second") == "failed")
        (first, second) = lab.call("GET", "/v1/pipelines/broken")["stages"]
        assert (first["state"], first["reason"]) == ("failed", "exit code 3")
        assert second["reason"] == "broken.first failed: exit code 3"


@pytest.mark.slurm
def test_the_stages_on_a_slurm_are_done_once_and_in_order(tmp_path: Path) -> None:
    """The server is killed while the first runs, and slurmctld while the second does."""
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path, stack)
        stack.callback(lab.close)
        lab.serve()
        notes = tmp_path / "notes"
        notes.touch()
        lab.call("POST", "/v1/pipelines", a_pipeline(notes, with_tasks=False) | {"tenant": "root"})
        until(lambda: "begin extract" in notes.read_text())
        assert lab.server is not None
        lab.server.kill()
        lab.serve()
        until(lambda: "begin frames" in notes.read_text())
        lab.slurm.kill("slurmctld")
        lab.slurm.start("slurmctld")
        until(lambda: lab.application("nightly.publish")["state"] in ("completed", "failed"))
        lines = notes.read_text().splitlines()
        assert faults_of(lines, {"extract": 2, "frames": 2, "publish": 1}) == []


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["begin a 0", "end a 0", "begin b 0", "end b 0"], 0),
        (["begin a 0", "begin b 0", "end a 0", "end b 0"], 1),
        (["begin a 0", "end a 0", "begin b 0", "begin b 0", "end b 0"], 1),
        (["begin a 0", "end a 0"], 1),
    ],
)
def test_what_is_repeated_left_out_or_early_is_noticed(lines: list[str], count: int) -> None:
    """The judge of this file can find something."""
    assert len(faults_of(lines, {"a": 1, "b": 1})) == count
