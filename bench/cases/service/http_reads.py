"""`http_reads`: what reads take over HTTP while 10,000 reservations stand and others are posted.

Four clients post 25 requests a second each; alongside them one reads a reservation, a page of a
hundred, one of a tenant, and the totals of the Plan, 40 calls a second in turn; then another reads
10,000 bars, compressed, four times a second. Each page was read before, as where a page of the
service stands open. A call is counted from when it was due. Targets: reads within 10 ms and bars
within 30 ms and 250 KB at the 99th percentile.
"""

from __future__ import annotations

import json
import random
import socket
import tempfile
from pathlib import Path
from typing import Any

from bench.cases.service.load.pacing import get, start, taken_by
from bench.cases.service.load.posting import message, read_answer, request_of
from bench.cases.service.load.processes import CLUSTER, busy_s, served

NAME = "http_reads"

_POSTERS = 4
_POSTS_PER_S = 25.0
_READS_PER_S = 40.0
_BARS_PER_S = 4.0

#: Clients that read every tenant's page beforehand: a process writes a reservation once.
_CLIENTS_BEFORE = 6


def run(small: bool) -> dict[str, Any]:
    """Return percentiles of posts and of each kind of read."""
    standing, seconds = (1_000, 3.0) if small else (10_000, 30.0)
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        cluster = Path(name) / "cluster.toml"
        cluster.write_text(CLUSTER)
        database = f"sqlite:///{cluster.with_name('reads')}.db"
        with served("service", database, cluster, workers=2, threads=16) as server:
            ids = _fill(server.port, standing)
            reads = {
                "one": [get(f"/v1/reservations/{id_}") for id_ in ids[:25]],
                "page": [get("/v1/reservations?limit=100")],
                "tenant": [get(f"/v1/reservations?tenant=t{n}&limit=100") for n in range(25)],
                "totals": [get("/v1/plan")],
            }
            bars = {"bars": [get(f"/v1/plan/bars?rows=true&most={standing}", gzip=True)]}
            taken_by([start(server.port, {**reads, **bars}, _READS_PER_S, 2.0)])
            for _ in range(0 if small else _CLIENTS_BEFORE):  # each meets one of the processes
                taken_by([start(server.port, {"tenant": reads["tenant"]}, _READS_PER_S, 1.0)])
            figures: dict[str, Any] = {}
            for told, calls, per_s in (("reads", reads, _READS_PER_S), ("bars", bars, _BARS_PER_S)):
                busy = busy_s({server.process.pid})
                clients = [start(server.port, calls, per_s, seconds)]
                clients += [_poster(server.port, number, seconds) for number in range(_POSTERS)]
                figures[f"beside_{told}"] = taken_by(clients)
                busy = busy_s({server.process.pid}) - busy
                figures[f"beside_{told}"]["server_cores"] = round(busy / seconds, 2)
    params = {
        "standing": standing,
        "seconds": seconds,
        "posts_per_s": _POSTERS * _POSTS_PER_S,
        "reads_per_s": _READS_PER_S,
        "bars_per_s": _BARS_PER_S,
    }
    return {"params": params, "figures": figures}


def _poster(port: int, number: int, seconds: float) -> Any:
    generator = random.Random(number)
    bodies = (json.dumps(request_of(generator, number)).encode() for _ in range(500))
    calls = {"post": [message(body, "application/json") for body in bodies]}
    return start(port, calls, _POSTS_PER_S, seconds)


def _fill(port: int, count: int) -> list[str]:
    """Reserve this many in one batch, of 25 tenants; return their ids."""
    generator = random.Random(0)
    lines = "\n".join(json.dumps(request_of(generator, n % 25)) for n in range(count))
    sent = message(lines.encode(), "application/x-ndjson", "/v1/reservations:batch")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        results = json.loads(read_answer(connection)[1])["results"]
    ids = [one["body"]["id"] for one in results if one["status"] == 201]
    if len(ids) < count:
        raise RuntimeError(f"granted {len(ids)} of {count}")
    return ids
