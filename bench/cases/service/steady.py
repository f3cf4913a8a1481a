"""`steady`: memory of a server process while reservations come and end, as over days.

Each round posts a batch, cancels some, reads lists, and moves the clock on by a quarter of an hour;
what ended half an hour ago leaves the Plan. A server without that would grow with each round.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from bench.cases.service.load.processes import CLUSTER
from service.app import create_app
from service.clock import ManualClock
from service.config import ServiceConfig
from service.runtime import Runtime, open_runtime

NAME = "steady"

_ROUND_S = 900
_RDL = "window(atom(<1 cpu, 2 GiB memory>, 1, 4, 2m, 8m), +0, +10m)"


def run(small: bool) -> dict[str, object]:
    """Return memory and table sizes at four points of equal distance."""
    rounds, batch = (12, 50) if small else (80, 500)
    points: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        folder = Path(name)
        (folder / "cluster.toml").write_text(CLUSTER)
        config = ServiceConfig(
            database=f"sqlite:///{folder / 'agenda.db'}",
            cluster=folder / "cluster.toml",
            ended_days=1800 / 86_400,
            tick_s=0,
            snapshot_every=100,
        )
        clock = ManualClock()
        runtime = open_runtime(config, clock)
        client = create_app(config, runtime).test_client()
        runtime.wait_ready(300)
        for number in range(rounds):
            _round(client, batch, number)
            clock.advance(_ROUND_S)
            if (number + 1) % (rounds // 4) == 0:
                points.append(_point(runtime, (number + 1) * batch))
        runtime.close()
    figures = {name: [one[name] for one in points] for name in points[0]}
    return {"params": {"rounds": rounds, "batch": batch}, "figures": figures}


def _round(client: FlaskClient, batch: int, number: int) -> None:
    asks = [{"id": f"r{number}-{n}", "rdl": _RDL, "tenant": f"t{n % 9}"} for n in range(batch)]
    answer: Any = client.post("/v1/reservations:batch", json=asks)
    if answer.status_code != 200:
        raise RuntimeError(f"answered {answer.status_code}: {answer.get_data(as_text=True)}")
    for one in range(0, batch, 10):
        client.delete(f"/v1/reservations/r{number}-{one}")
    for query in ("?tenant=t1", "?state=cancelled", "?state=completed"):
        json.loads(client.get(f"/v1/reservations{query}").get_data())


def _point(runtime: Runtime, posted: int) -> dict[str, float]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    with runtime.reading() as plan:
        held = len(plan.table)
    mebibytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return {"posted": posted, "in_plan": held, "memory_mib": round(mebibytes, 1)}
