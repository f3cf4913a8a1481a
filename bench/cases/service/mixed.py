"""`mixed`: memory of a server's processes under ten minutes of mixed load over HTTP.

Six clients, each with a pace, post short requests, cancel every tenth, read one, a page of a list,
the bars and the skyline. What ended a minute ago leaves the Plan, so that after some five minutes
as much leaves as comes. Told is the memory that the worker processes hold alone or share (RSS, the
sum) at the end of each minute, how much the Plan holds then, and by how much the second half of the
time grew.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.cases.service.load.posting import message, read_answer
from bench.cases.service.load.processes import CLUSTER
from service.cli.server_process import free_port, run_server

NAME = "mixed"

_CLIENTS: Final = 6
_PAUSE_S: Final = 0.1

_RDL: Final = "window(atom(<1 cpu, 2 GiB memory>, 1, 4, 1m, 4m), +0, +3m)"

_SERVER: Final = "from service.cli.main import main; main()"

_CLIENT: Final = """
import json, sys
from bench.cases.service.mixed import calls_for
print(json.dumps(calls_for(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
"""

_READS: Final = (
    "/v1/reservations?limit=100",
    "/v1/reservations?state=completed&limit=100",
    "/v1/plan/bars?rows=true",
    "/v1/plan/skyline?resource=cpu",
    "/v1/tenants",
)


def run(small: bool) -> dict[str, object]:
    """Return what the clients got, and memory at the end of each minute (small: of 5 s)."""
    return _measured(5.0, 4) if small else _measured(60.0, 10)


def _measured(each_s: float, points: int) -> dict[str, object]:
    """Return what the clients got, and memory at this many points, this many seconds apart."""
    seconds = each_s * points
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        folder = Path(name)
        cluster, port = folder / "cluster.toml", free_port()
        cluster.write_text(CLUSTER)
        command = [sys.executable, "-c", _SERVER, "serve", "--workers", "2", "--cluster"]
        command += [str(cluster), "--database", f"sqlite:///{folder / 'mixed.db'}"]
        command += ["--port", str(port), "--ended-days", str(60 / 86_400)]
        with run_server(command, port, folder / "server.log") as server:
            clients = [_client(port, number, seconds) for number in range(_CLIENTS)]
            while not _held(port):
                time.sleep(0.1)
            began, seen = time.monotonic(), []
            for point in range(points):
                time.sleep(max(0.0, began + each_s * (point + 1) - 1 - time.monotonic()))
                seen.append((_memory_mib(server.process.pid), _held(port)))
            done = [json.loads(client.communicate()[0]) for client in clients]
    return {
        "params": {"clients": _CLIENTS, "seconds": seconds, "workers": 2, "database": "sqlite"},
        "figures": {**_told(done), **_grown(seen)},
    }


def calls_for(port: int, number: int, seconds: float) -> dict[str, list[float]]:
    """Call for some time, at a pace; return the ms that each call took, by kind.

    Raises
    ------
    RuntimeError
        If anything is answered that should not be.
    """
    generator, until = random.Random(number), time.monotonic() + seconds
    taken: dict[str, list[float]] = {"post": [], "cancel": [], "read": []}
    count = 0
    while time.monotonic() < until:
        count += 1
        body = json.dumps({"tenant": f"t{number}", "rdl": _RDL}).encode()
        made = _called("post", message(body, "application/json"), port, taken)
        path = f"/v1/reservations/{json.loads(made)['id']}"
        _called("read", _bare("GET", path), port, taken)
        if count % 10 == 0:
            _called("cancel", _bare("DELETE", path), port, taken)
            _called("read", _bare("GET", generator.choice(_READS)), port, taken)
        time.sleep(_PAUSE_S)
    return taken


def _called(kind: str, sent: bytes, port: int, taken: dict[str, list[float]]) -> bytes:
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        status, body = read_answer(connection)
    taken[kind].append(round(1000 * (time.perf_counter() - began), 2))
    if status not in (200, 201):
        raise RuntimeError(f"{kind} is answered {status}: {body[:200]!r}")
    return body


def _bare(method: str, path: str) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    return f"{head}Accept-Encoding: identity\r\n\r\n".encode()


def _client(port: int, number: int, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _CLIENT, str(port), str(number), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _memory_mib(group: int) -> float:
    """Return the memory that the processes of a group hold, MiB."""
    pages = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = path.read_text().rpartition(")")[2].split()
        pages += int(fields[21]) if int(fields[2]) == group else 0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _held(port: int) -> int:
    """Return how many reservations the Plan holds."""
    taken: dict[str, list[float]] = {"read": []}
    bars = json.loads(_called("read", _bare("GET", "/v1/plan/bars"), port, taken))
    return len(bars["id"])


def _told(done: Sequence[dict[str, list[float]]]) -> dict[str, Any]:
    """Return how many calls of each kind there were, and their percentiles."""
    told: dict[str, Any] = {}
    for kind in done[0]:
        every = sorted(one for client in done for one in client[kind])
        middle, late = every[len(every) // 2], every[int(0.99 * len(every))]
        told[kind] = {"count": len(every), "p50_ms": middle, "p99_ms": late}
    return told


def _grown(seen: Sequence[tuple[float, int]]) -> dict[str, Any]:
    memory = [one for one, _ in seen]
    half = memory[len(memory) // 2 - 1]
    return {
        "memory_mib": memory,
        "in_plan": [held for _, held in seen],
        "grown_in_second_half": round(memory[-1] / half - 1, 4),
    }
