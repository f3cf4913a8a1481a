"""`python -m bench.papers rayon-prediction`: jobs of a small trace, predicted from runs before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.papers.prediction import google_jobs
from service.cli.kit.errors import DONE, ERROR
from tests.papers.command_line import papers


def write_google(folder: Path, runs: int) -> None:
    """Write a job of six tasks that came this many times, and one that was there at time 0."""
    jobs = ["job_id,submit_s,user,logical_name,n_tasks\n0,0.0,u,old,6\n"]
    tasks = ["job_id,run_s,last_s\n0,10,50\n"]
    for run in range(runs):
        jobs.append(f"{run + 1},{1000.0 * run + 1},u,indexer,6\n")
        for task in range(6):
            end = 1000 * run + 200 + 40 * task + run % 3
            tasks.append(f"{run + 1},{end - 1000 * run},{end}\n")
    folder.mkdir(parents=True)
    for name, lines in (("jobs", jobs), ("tasks", tasks)):
        with gzip.open(folder / f"{name}_0_70756s.csv.gz", "wt", encoding="utf-8") as file:
            file.writelines(lines)


def test_tasks_become_runs_of_jobs_by_name(tmp_path: Path) -> None:
    """Eight runs of six tasks that end one by one; what was there before is left out."""
    write_google(tmp_path / "google2011", 8)
    jobs = google_jobs(tmp_path / "google2011", 10)
    assert {job: len(runs) for job, runs in jobs.items()} == {"u/indexer": 8}
    assert [one.width for one in jobs["u/indexer"][0].stretches] == [6, 5, 4, 3, 2, 1]


def test_the_claims_are_reported_with_what_they_come_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each rule, the paper's two figures, and the picture over normalised time."""
    write_google(tmp_path / "google2011", 20)
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    picture = tmp_path / "figure-13.svg"
    done = papers("rayon-prediction", "--small", "-o", "json", "--picture", picture)
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert [(row["rule"], row["jobs"], row["runs"]) for row in document["rows"]] == [
        ("prediction", 1, 6), ("maximum", 1, 6), ("mean", 1, 6), ("peak", 1, 6),
    ]  # fmt: skip
    claims = {row["over-estimation %"]: (row["claimed"], row["it"]) for row in document["claims"]}
    assert claims == {"prediction": (8.25, "holds"), "peak": (1470.0, "does not hold")}
    assert "normalized time" in picture.read_text()


def test_without_traces_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable, and the folder below it."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    done = papers("rayon-prediction")
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "rayon-prediction runs on Google's 2011 trace: set AGENDA_TRACES" in done.stderr
