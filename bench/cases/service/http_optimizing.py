"""`http_optimizing`: what durable POSTs wait while an optimisation runs beside the server.

Four clients post at a steady pace (open loop: a late answer delays nobody else's clock) to two
server processes whose Plan is overloaded, first alone, then while `/v1/optimizations` works on it
in its own process with both of the machine's cores in use; then what it found is applied: as a
whole, and where posts took places meanwhile, in part.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.cases.service.load.posting import message, read_answer, request_of
from bench.cases.service.load.processes import serving
from service.cli.client.server import Server

NAME = "http_optimizing"

WORKERS: Final = 2
THREADS: Final = 16
CLIENTS: Final = 4
PER_S: Final = 15.0

#: Cores of the cluster are few, so that a part of the first requests is refused.
CLUSTER: Final = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 40
resources = { cpu = 32, memory = "128 GiB" }
"""

_CLIENT: Final = """
import json, sys
from bench.cases.service.http_optimizing import post_at_pace
port, number, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
print(json.dumps(post_at_pace(port, number, seconds)))
"""


def run(small: bool) -> Mapping[str, object]:
    """Return percentiles with and without, and what the optimisation found."""
    seconds, filling = (3.0, 60) if small else (20.0, 300)
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        given: dict[str, Any] = {"workers": WORKERS, "threads": THREADS, "cluster_toml": CLUSTER}
        with serving("service", Path(name), **given) as port:
            figures: dict[str, Any] = {"accepted": _fill(port, filling), "asked": filling}
            _measured(port, 2.0)
            figures["alone"] = _measured(port, seconds)
            figures |= _beside(port, seconds)
    params = {
        "workers": WORKERS,
        "threads": THREADS,
        "clients": CLIENTS,
        "posts_per_s": CLIENTS * PER_S,
        "seconds": seconds,
        "database": "sqlite",
    }
    return {"params": params, "figures": figures}


def _measured(port: int, seconds: float) -> dict[str, float]:
    """Return rate and percentiles of clients, each a process of its own."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CLIENT, str(port), str(number), str(seconds)],
            stdout=subprocess.PIPE,
        )
        for number in range(CLIENTS)
    ]
    taken = sorted(one for process in processes for one in json.loads(process.communicate()[0]))
    return {
        "per_s": round(len(taken) / seconds, 1),
        "p50_ms": round(1000 * taken[len(taken) // 2], 2),
        "p99_ms": round(1000 * taken[int(0.99 * len(taken))], 2),
        "max_ms": round(1000 * taken[-1], 2),
    }


def _fill(port: int, count: int) -> int:
    """Ask for more than the cluster has room for; return how many were accepted."""
    generator = random.Random(1)
    server, accepted = Server(f"http://127.0.0.1:{port}"), 0
    for _ in range(count):
        start, height = generator.randrange(30, 20 * 60), generator.randint(60, 600)
        minutes = generator.randint(20, 90)
        rdl = (
            f"window(atom(<1 cpu, 2 GiB memory>, {height}, {height}, {minutes}m, "
            f"{height * minutes}m), +{start}m, +{start + 3 * minutes}m)"
        )
        reply = server.call("POST", "/v1/reservations", {"rdl": rdl, "tenant": "filling"})
        accepted += reply.status == 201
    return accepted


def _beside(port: int, seconds: float) -> dict[str, Any]:
    """Measure while an optimisation works, then stop it and apply what it has."""
    server = Server(f"http://127.0.0.1:{port}")
    asked = {"time_limit": 600, "admit_refused": True, "solver": "exact", "frozen_until": "+30m"}
    place = f"/v1/optimizations/{server.call('POST', '/v1/optimizations', asked).good()['id']}"
    while "value" not in server.call("GET", place).good()["progress"]:
        time.sleep(0.1)
    beside = _measured(port, seconds)
    state = server.call("GET", place).good()["state"]
    server.call("POST", f"{place}/stop").good()
    began = time.perf_counter()
    while server.call("GET", place).good()["state"] in ("running", "stopping"):
        time.sleep(0.05)
    stopped_s = time.perf_counter() - began
    result = server.call("GET", place).good()["result"]
    found_ids = _admitted(result)
    began = time.perf_counter()
    applied = server.call("POST", f"{place}/apply")
    whole_ms = 1000 * (time.perf_counter() - began)
    began = time.perf_counter()
    part = server.call("POST", f"{place}/apply?partial=true")
    part_ms = 1000 * (time.perf_counter() - began)
    found = ("value", "bound", "gap", "moved", "admitted", "trials")
    return {
        "beside": beside,
        "state_while_measured": state,
        "stop_s": round(stopped_s, 2),
        "found": {name: result[name] for name in found},
        "apply_ms": round(whole_ms, 1),
        "applied": applied.status,
        "merged": (applied.body or {}).get("merged"),
        "partial_ms": round(part_ms, 1),
        "partial": part.status,
        "changed": (part.body or {}).get("changed"),
        "left_out": len((part.body or {}).get("left_out", ())),
        "came_in": _came_in(server, found_ids),
    }


def _admitted(result: Mapping[str, Any]) -> list[str]:
    """Return who was to come in."""
    return [one["id"] for one in result["diff"]["requests"] if one["fate"] == "gained"]


def _came_in(server: Server, ids: list[str]) -> int:
    """Return how many of those who were to come in have."""
    states = [server.call("GET", f"/v1/reservations/{one}").good()["state"] for one in ids]
    return sum(state != "refused" for state in states)


def post_at_pace(port: int, number: int, seconds: float) -> list[float]:
    """Post `PER_S` requests a second; return the seconds from when each was due to its answer.

    Raises
    ------
    RuntimeError
        If anything but 201 or 409 is answered.
    """
    generator = random.Random(number)
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter() + generator.random() / PER_S
        for turn in range(int(seconds * PER_S)):
            due = began + turn / PER_S
            time.sleep(max(0.0, due - time.perf_counter()))
            body = json.dumps(request_of(generator, number)).encode()
            connection.sendall(message(body, "application/json"))
            status = read_answer(connection)[0]
            taken.append(time.perf_counter() - due)
            if status not in (201, 409):
                raise RuntimeError(f"answered {status}")
    return taken
