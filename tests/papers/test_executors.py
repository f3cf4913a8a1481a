"""Points in worker processes and on a Dask cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.jobs import dask_workers
from tests.dask_cluster import dask_cluster
from tests.papers.command_line import papers


def test_a_sweep_has_the_same_figures_and_jobs_wherever_it_runs(tmp_path: Path) -> None:
    """zoe-cluster, two seeds: this process, two others and a cluster write the same bytes."""
    said, jobs = set(), set()
    with dask_cluster(tmp_path) as cluster:
        for number, where in enumerate(([], ["--workers", 2], ["--dask", cluster.address])):
            file = tmp_path / f"{number}.csv"
            done = papers("zoe-cluster", "--seeds", 2, "--jobs", file, "-o", "json", *where)
            assert done.exit_code == 0, done.output
            said.add(done.stdout)
            jobs.add(file.read_bytes())
    assert (len(said), len(jobs)) == (1, 1)


def test_a_missing_scheduler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, one line, and no file of points is left behind."""
    monkeypatch.setattr(dask_workers, "CONNECT_S", 0.5)
    kept = tmp_path / "points.jsonl"
    done = papers("omega", "--small", "--dask", "tcp://127.0.0.1:1", "--resume", kept)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no Dask scheduler answers at tcp://127.0.0.1:1 within 0.5 s" in done.stderr
    assert not kept.exists()
