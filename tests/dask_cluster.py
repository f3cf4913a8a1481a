"""A Dask cluster of separate processes on loopback: a scheduler and two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.patience import eventually

ROOT = Path(__file__).parents[1]


@dataclass
class DaskCluster:
    """A running cluster.

    Attributes
    ----------
    address
        Of its scheduler.
    scheduler, workers
        Their processes.
    """

    address: str
    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker, which is there a little later."""
        command = ("dask_worker", self.address, "--no-nanny", "--no-dashboard", *options)
        name = f"worker-{len(self.workers)}"
        self.workers.append(_started(self.folder, name, *command))
        return self.workers[-1]


def _started(folder: Path, name: str, module: str, *options: str) -> subprocess.Popen[bytes]:
    """Start one of Dask's programs; its log is in the folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *options],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
        )


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """Inside, a cluster of one scheduler and two workers runs."""
    facts = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    scheduler = _started(
        folder, "scheduler", "dask_scheduler", *options, "--scheduler-file", str(facts)
    )
    cluster = DaskCluster("", folder, scheduler)
    try:
        written = eventually(lambda: facts.read_text() if facts.exists() else "", bool)
        cluster.address = json.loads(written)["address"]
        for _ in range(2):
            cluster.add_worker("--nthreads", "1")
        for index in range(2):
            log = folder / f"worker-{index}.log"
            eventually(log.read_text, lambda text: "Registered to" in text)
        yield cluster
    finally:
        for one in (*cluster.workers, scheduler):
            one.kill()
            one.wait()
