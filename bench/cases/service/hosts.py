"""`hosts`: durable POSTs to one server, and to two, on one PostgreSQL of this machine.

Each server has one worker, as a host with one core would. PostgreSQL, servers and clients share the
machine's cores, so that two servers can gain only what one leaves idle. What the machine's cores do
not decide is the processor time of a post: in the server that answers it (`own_ms`), and in another
server that only follows the log (`follows_ms`; a third run posts to one of two servers to
distinguishes them). Of servers with a core each, on a database that is not the limit, two serve
`bound` times the posts of one: 2 own / (own + follows).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.cases.service.behind import postgres
from bench.cases.service.http_admit import postmaster_of
from bench.cases.service.load.posting import posted
from bench.cases.service.load.processes import CLUSTER, busy_below_s, busy_s, idle_s
from service.cli.server_process import ServerProcess, free_port, run_server

NAME = "hosts"

CLIENTS = 32

_SERVER = "from service.cli.main import main; main()"


def run(small: bool) -> dict[str, object]:
    """Measure one server and two; nothing without AGENDA_POSTGRES."""
    seconds = 3.0 if small else 15.0
    server = os.environ.get("AGENDA_POSTGRES")
    figures: dict[str, Any] = {}
    if server:
        for name, count, asked in (("one", 1, 1), ("followed", 2, 1), ("two", 2, 2)):
            with postgres(server, (f"bench_hosts_{name}",)) as urls:
                figures[name] = _measured(server, urls[0], count, asked, seconds)
        figures["ratio"] = round(figures["two"]["per_s"] / figures["one"]["per_s"], 3)
        own, follows = map(float, figures["followed"]["servers_ms_each"].split(" + "))
        figures |= {"own_ms": own, "follows_ms": follows}
        figures["bound"] = round(2 * own / (own + follows), 2)
    return {"params": {"clients": CLIENTS, "seconds": seconds}, "figures": figures}


def _measured(server: str, url: str, count: int, asked: int, seconds: float) -> dict[str, Any]:
    """Return the figures of `count` servers, of which the first `asked` are asked."""
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name, ExitStack() as stack:
        cluster = Path(name) / "cluster.toml"
        cluster.write_text(CLUSTER)
        servers = [stack.enter_context(_serving(url, cluster)) for _ in range(count)]
        postmaster = stack.enter_context(postmaster_of(server))
        ports = [one.port for one in servers[:asked]]
        posted(ports, CLIENTS, seconds / 5)
        before, version = _busy(servers, postmaster), _version(url)
        idle = idle_s()
        done = posted(ports, CLIENTS, seconds)
        idle = idle_s() - idle
        taken = [b - a for a, b in zip(before, _busy(servers, postmaster), strict=True)]
        commits = _version(url) - version
    each = [round(1000 * one / len(done.taken), 3) for one in taken]
    return {
        **done.to_json(),
        "servers_ms_each": " + ".join(map(str, each[:-1])),
        "database_ms_each": each[-1],
        "posts_in_commit": round(len(done.taken) / commits, 1),
        "idle_cores": round(idle / seconds, 2),
    }


def _serving(url: str, cluster: Path) -> Any:
    port = free_port()
    command = [sys.executable, "-c", _SERVER, "serve", "--database", url, "--workers", "1"]
    command += ["--cluster", str(cluster), "--port", str(port)]
    return run_server(command, port, cluster.with_name(f"{port}.log"))


def _busy(servers: Sequence[ServerProcess], postmaster: int | None) -> list[float]:
    """Return the processor time of each server, and of the database; 0 if it is elsewhere."""
    database = 0.0 if postmaster is None else busy_below_s(postmaster)
    return [*(busy_s({one.process.pid}) for one in servers), database]


def _version(url: str) -> int:
    """Return how many commits there are."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SELECT version FROM head").scalar_one()
    engine.dispose()
    return int(version)
