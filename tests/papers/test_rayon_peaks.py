"""Rayon's figure 3: peaks of workflows over their means, by hand and from a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.papers.rayon_peaks import peak_of, profile_of, read_workflows
from service.cli.kit.errors import DONE, ERROR
from tests.papers.command_line import papers

_HEADER = "job,task,instances,start_s,end_s,mean_inst_s,plan_cpu_pct\n"


def _trace(folder: Path, rows: str) -> Path:
    file = folder / "alibaba" / "v2018_dags_medium.csv.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress((_HEADER + rows).encode()))
    return file


def test_a_peak_is_held_against_the_mean() -> None:
    """Ten cores for 10 s, then one for 90 s: 190 core-seconds in 100 s, so 10 over 1.9."""
    found = peak_of("w", [(0.0, 10.0, 10.0), (10.0, 100.0, 1.0)])
    assert (found.tasks, found.work_s, found.length_s) == (2, 190.0, 100.0)
    assert found.ratio == pytest.approx(10 / 1.9)


def test_tasks_side_by_side_add_up() -> None:
    """Two tasks that overlap hold both their cores where they do."""
    at, cores = profile_of([(0.0, 20.0, 3.0), (10.0, 30.0, 2.0)])
    assert at.tolist() == [0, 10, 20, 30]
    assert cores.tolist() == [3, 5, 2, 0]


def test_a_recorded_task_holds_its_work_evenly(tmp_path: Path) -> None:
    """4 instances of 30 s at half a core between 100 and 160 s hold one core; no end, no task."""
    file = _trace(tmp_path, "j,M1,4,100,160,30,50\nj,R2,1,160,,10,100\n")
    assert read_workflows(file) == {"j": [(100.0, 160.0, 1.0)]}


def test_the_recorded_workflows_are_judged_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the trace and of drawn workflows; one that is flat has its peak as its mean."""
    _trace(tmp_path, "j,M1,4,100,160,30,50\n")
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    picture = tmp_path / "peaks.svg"
    done = papers("rayon-peaks", "--small", "-o", "json", "--picture", picture)
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert document.keys() == {"experiment", "rows", "claimed", "claims"}
    assert [row["workflows"] for row in document["rows"]] == ["alibaba 2018", "workload C, drawn"]
    assert document["rows"][0]["most"] == 1.0
    assert "peak 1.0 times its mean" in picture.read_text()


def test_a_trace_that_is_broken_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file, the line and the column."""
    _trace(tmp_path, "j,M1,four,100,160,30,50\n")
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    done = papers("rayon-peaks", "--small")
    assert done.exit_code == ERROR
    assert "line 2: instances is a number, not 'four'" in done.stderr
