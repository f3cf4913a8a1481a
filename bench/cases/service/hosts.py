"""`hosts`: durable POSTs to one server, and to two, on one PostgreSQL of this machine.

Each server has one worker, as a host with one core would; the same number of clients posts to one
server or is shared by two. PostgreSQL, servers and clients share the machine's cores, so that two
servers can gain only what one leaves idle: the load of the machine stands with the figures.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.cases.service.behind import postgres
from bench.cases.service.processes import CLUSTER
from service.cli.client.server_process import free_port, run_server

NAME = "hosts"

CLIENTS = 16

_CLIENT = """
import json, sys
from bench.cases.service.http_admit import post_for
port, number, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
print(json.dumps(post_for(port, number, seconds)))
"""

_SERVER = "from service.cli.main import main; main()"


def run(small: bool) -> dict[str, object]:
    """Measure one server and two; nothing without AGENDA_POSTGRES."""
    seconds = 3.0 if small else 15.0
    server = os.environ.get("AGENDA_POSTGRES")
    figures: dict[str, Any] = {}
    if server:
        for count in (1, 2):
            with postgres(server, (f"bench_hosts{count}",)) as urls:
                figures[f"hosts_{count}"] = _measured(urls[0], count, seconds)
        ratio = figures["hosts_2"]["per_s"] / figures["hosts_1"]["per_s"]
        figures["ratio"] = round(ratio, 3)
    return {"params": {"clients": CLIENTS, "seconds": seconds}, "figures": figures}


def _measured(url: str, count: int, seconds: float) -> dict[str, float]:
    """Return the rate and percentiles of `count` servers, and the processor time of each post."""
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name, ExitStack() as stack:
        servers = []
        for number in range(count):
            cluster = Path(name) / f"host{number}.toml"
            cluster.write_text(CLUSTER)
            port = free_port()
            command = [sys.executable, "-c", _SERVER, "serve", "--database", url, "--workers", "1"]
            command += ["--cluster", str(cluster), "--port", str(port)]
            started = run_server(command, port, cluster.with_suffix(".log"))
            servers.append(stack.enter_context(started))
        groups = [one.process.pid for one in servers]
        idle, busy, asking = _idle_s(), _busy_s(groups), _children_s()
        taken = _posts([one.port for one in servers], seconds)
        idle, busy = _idle_s() - idle, _busy_s(groups) - busy
        asking = _children_s() - asking
    return {
        "server_ms_per_post": round(1000 * busy / len(taken), 2),
        "client_ms_per_post": round(1000 * asking / len(taken), 2),
        "per_s": round(len(taken) / seconds, 1),
        "p50_ms": round(1000 * taken[len(taken) // 2], 2),
        "p99_ms": round(1000 * taken[int(0.99 * len(taken))], 2),
        "idle_cores": round(idle / seconds, 2),
    }


def _posts(ports: Sequence[int], seconds: float) -> list[float]:
    """Return the seconds that each post took, sorted."""
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", _CLIENT, str(ports[n % len(ports)]), str(n), str(seconds)],
            stdout=subprocess.PIPE,
        )
        for n in range(CLIENTS)
    ]
    return sorted(one for client in clients for one in json.loads(client.communicate()[0]))


def _busy_s(groups: Sequence[int]) -> float:
    """Return the processor time of all processes of some process groups, s."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) in groups:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    """Return the processor time of the children that have ended, s."""
    times = os.times()
    return times.children_user + times.children_system


def _idle_s() -> float:
    """Return for how long the cores of this machine have been idle, s; 0 where it is not told."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    idle, waiting = path.read_text().split("\n", 1)[0].split()[4:6]
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")
