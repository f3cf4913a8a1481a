"""`hosts`: durable POSTs to one server, and to two, on one PostgreSQL of this machine.

Each server has one worker, as a host with one core would; the same number of clients posts to one
server or is shared by two. PostgreSQL, servers and clients share the machine's cores, so that two
servers can gain only what one leaves idle: the load of the machine stands with the figures.
"""

from __future__ import annotations

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
        idle = _idle_s()
        taken = _posts([one.port for one in servers], seconds)
        idle = _idle_s() - idle
    return {
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


def _idle_s() -> float:
    """Return for how long the cores of this machine have been idle, s; 0 where it is not told."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    idle, waiting = path.read_text().split("\n", 1)[0].split()[4:6]
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")
