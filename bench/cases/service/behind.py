"""`behind`: how long a server takes to start whose log has a million versions.

The database is made as a server leaves it: a snapshot, the log pruned behind it, almost 10,000
records that came after it, one reservation each, and an archive. Measured is a whole start of
`agenda serve` with one worker until /readyz is 200, and that of an empty database alongside it; and
alone, in a process that has loaded everything, the processor time of reading the snapshot and the
records.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from bench.cases.service.load.processes import busy_s
from planner.files import cluster_from_json, cluster_to_json, read_cluster
from planner.plan.checkpoint import take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.commit_records import Advanced, CommitRecord
from planner.plan.records.reservation_records import Admitted
from planner.reservations.reservation import AtomAllocation, Holding, RequestDetails
from rdl.resources import Resources
from service.cli.server_process import free_port, run_server
from service.clock import SystemClock
from service.commits.replica import open_replica
from service.config import ServiceConfig
from service.store import LogEntry, Snapshot, Store
from service.store.schema import HEAD

NAME = "behind"

_VERSIONS = 1_000_000
_BUNDLE = Resources.of({"cpu": 1000, "memory": 2048})

_CLUSTER = """
step = "60s"
horizon = "7d"

[[machines]]
name = "plain"
count = 4000
resources = { cpu = 32, memory = "128 GiB" }
"""


def run(small: bool) -> dict[str, object]:
    """Measure starts on SQLite, and on PostgreSQL where AGENDA_POSTGRES names one."""
    standing, behind = (1_000, 500) if small else (10_000, 9_999)
    rounds = 1 if small else 3
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        folder = Path(name)
        (folder / "cluster.toml").write_text(_CLUSTER)
        for kind, urls in _databases(folder):
            _fill(urls[0], folder / "cluster.toml", standing, behind)
            full = [_start(urls[0], folder) for _ in range(rounds)]
            empty = [_start(urls[1], folder) for _ in range(rounds)]
            figures[kind] = {
                "start_s": min(one for one, _ in full),
                "start_cpu_s": min(one for _, one in full),
                "empty_start_s": min(one for one, _ in empty),
                "empty_start_cpu_s": min(one for _, one in empty),
                "replay_cpu_s": min(_replay(urls[0]) for _ in range(rounds)),
            }
    params = {"versions": _VERSIONS, "standing": standing, "behind": behind, "rounds": rounds}
    return {"params": params, "figures": figures}


def _databases(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each kind with the URLs of two empty databases."""
    yield "sqlite", (f"sqlite:///{folder / 'full.db'}", f"sqlite:///{folder / 'empty.db'}")
    server = os.environ.get("AGENDA_POSTGRES")
    if server:
        with postgres(server, ("bench_full", "bench_empty")) as urls:
            yield "postgresql", (urls[0], urls[1])


@contextmanager
def postgres(server: str, names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the URLs of empty databases of these names, which are gone afterwards."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in names:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        made = sa.make_url(server)
        yield [made.set(database=one).render_as_string(hide_password=False) for one in names]
        for name in names:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


def _fill(url: str, cluster: Path, standing: int, behind: int) -> None:
    """Make a database whose log has a million versions, with a snapshot and records behind it."""
    now = datetime.now(UTC).replace(microsecond=0)
    described = replace(read_cluster(cluster), origin=now.replace(second=0))
    described = cluster_from_json(cluster_to_json(described), "bench")
    plan = Plan(described, described.grid())
    plan.apply(CommitRecord(1, 0, (Advanced(1, plan.grid.horizon + 1),)))
    rng = np.random.default_rng(standing)
    for first in range(0, standing, 1000):
        many = tuple(_admitted(first + n, int(rng.integers(2, 10_000))) for n in range(1000))
        plan.apply(CommitRecord(plan.version + 1, 0, many))
    plan.version = _VERSIONS - behind
    store = Store(url)
    store.setting("cluster", msgspec.json.encode(cluster_to_json(described)).decode())
    with store._engine.begin() as connection:  # noqa: SLF001 - as if a million had been appended
        statement = sa.text("UPDATE head SET version = :version WHERE name = :name")
        connection.execute(statement, {"version": plan.version, "name": HEAD})
    store.save_snapshot(Snapshot(plan.version, 0, take_checkpoint(plan).encode()), 0)
    entries = []
    for number in range(behind):
        one = _admitted(standing + number, int(rng.integers(2, 10_000)))
        record = CommitRecord(plan.version + 1 + number, 0, (one,))
        entries.append(LogEntry(record.version, 0, msgspec.json.encode(record.to_json())))
    store.append(entries)
    store.close()


def _admitted(number: int, start: int) -> Admitted:
    rows = np.array([[start, start + 30, 1 + number % 3], [start + 30, start + 45, 1]], np.int64)
    holding = Holding((AtomAllocation("0", _BUNDLE, None, rows),), start, start + 45)
    text = f"window(atom(<1 cpu, 2 GiB memory>, 1, 3, 15m, 1h45m), {start}m, {start + 60}m)"
    return Admitted(
        f"job-{number:07d}", f"t{number % 20}", "default", 0, 1.0, 0, "gree-l",
        RequestDetails(text), holding,
    )  # fmt: skip


def _start(url: str, folder: Path) -> tuple[float, float]:
    """Return seconds, and those of the processor, until a server is ready; it is killed then."""
    port = free_port()
    command = [sys.executable, "-c", "from service.cli.main import main; main()", "serve"]
    command += ["--database", url, "--cluster", str(folder / "cluster.toml"), "--workers", "1"]
    began = time.perf_counter()
    with run_server([*command, "--port", str(port)], port, folder / "server.log") as server:
        taken = round(time.perf_counter() - began, 2)
        return taken, round(busy_s({server.process.pid}), 2)


def _replay(url: str) -> float:
    """Return the processor time that the snapshot and the records take in a warm process, s."""
    replica = open_replica(ServiceConfig(database=url), SystemClock())
    began = time.process_time()
    replica.replay()
    taken = round(time.process_time() - began, 3)
    replica.store.close()
    return taken
