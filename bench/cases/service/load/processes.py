"""Servers that `http_admit` measures: the service, asking for tokens or not, and the bare one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from service.cli.server_process import ServerProcess, free_port, run_server

CLUSTER = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 4000
resources = { cpu = 32, memory = "128 GiB" }
"""

_SERVICE = """
import sys
from pathlib import Path
from service.config import ServiceConfig
from service.server import run

database, cluster, port, workers, threads = sys.argv[1:]
run(ServiceConfig(database=database, cluster=Path(cluster), port=int(port), workers=int(workers),
    threads=int(threads)))
"""

#: The same, where each call must show a token.
_GUARDED = _SERVICE.replace("threads=int(threads)", "threads=int(threads), auth='token'")

#: What any Flask service pays that makes each request durable by itself: parse, insert, answer.
_BARE = """
import sqlite3, sys, threading
from flask import Flask, request
from gunicorn.app.base import BaseApplication

database, cluster, port, workers, threads = sys.argv[1:]
path = database.removeprefix("sqlite:///")

def connect():
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection

connect().execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, body TEXT)")
app = Flask("bare")
mine = threading.local()

@app.get("/readyz")
def ready():
    return {"status": "ready"}

@app.post("/v1/reservations")
def insert():
    if not hasattr(mine, "connection"):
        mine.connection = connect()
    cursor = mine.connection.execute("INSERT INTO kept (body) VALUES (?)", (str(request.json),))
    return {"id": cursor.lastrowid}, 201

class Application(BaseApplication):
    def load_config(self):
        for name, value in {"bind": f"127.0.0.1:{port}", "workers": int(workers),
                "threads": int(threads), "worker_class": "gthread", "keepalive": 75,
                "control_socket_disable": True}.items():
            self.cfg.set(name, value)

    def load(self):
        return app

Application().run()
"""

#: The same on PostgreSQL.
_BARE_POSTGRES = (
    _BARE.replace("import sqlite3, sys", "import psycopg, sys")
    .replace('database.removeprefix("sqlite:///")', 'database.replace("+psycopg", "")')
    .replace(
        """connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection""",
        "return psycopg.connect(path, autocommit=True)",
    )
    .replace("id INTEGER PRIMARY KEY", "id bigserial PRIMARY KEY")
    .replace("VALUES (?)", "VALUES (%s) RETURNING id")
    .replace("cursor.lastrowid", "cursor.fetchone()[0]")
)


@contextmanager
def serving(
    kind: str,
    folder: Path,
    *,
    workers: int,
    threads: int,
    cluster_toml: str = CLUSTER,
    ready_s: float = 300.0,
) -> Iterator[int]:
    """Run a server of a kind on SQLite and yield its port."""
    cluster = folder / "cluster.toml"
    cluster.write_text(cluster_toml)
    given: dict[str, Any] = {"workers": workers, "threads": threads, "ready_s": ready_s}
    with served(kind, f"sqlite:///{folder / kind}.db", cluster, **given) as server:
        yield server.port


@contextmanager
def served(
    kind: str,
    database: str,
    cluster: Path,
    *,
    workers: int,
    threads: int,
    ready_s: float = 300.0,
) -> Iterator[ServerProcess]:
    """Run a server of a kind (``service``, ``guarded`` or ``bare``) on a database, by its URL."""
    source = {"service": _SERVICE, "guarded": _GUARDED, "bare": _BARE}[kind]
    if kind == "bare" and not database.startswith("sqlite"):
        source = _BARE_POSTGRES
    port = free_port()
    command = [sys.executable, "-c", source, database, str(cluster), str(port)]
    command += [str(workers), str(threads)]
    log = cluster.with_name(f"{kind}-{port}.log")
    with run_server(command, port, log, ready_s=ready_s) as server:
        try:
            yield server
        finally:
            server.stop()


def busy_s(groups: Collection[int]) -> float:
    """Return the processor time of all processes of some process groups, s."""
    return sum(_ticks(path, 11, 13) for path, fields in _stats() if int(fields[2]) in groups) / _HZ


def busy_below_s(parent: int) -> float:
    """Return the processor time of a process and all its children, those that ended too, s."""
    own = _ticks(Path(f"/proc/{parent}/stat"), 11, 15)
    below = sum(_ticks(path, 11, 15) for path, fields in _stats() if int(fields[1]) == parent)
    return (own + below) / _HZ


def idle_s() -> float:
    """Return for how long the cores of this machine have been idle, s; 0 if it is not told."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    idle, waiting = path.read_text().split("\n", 1)[0].split()[4:6]
    return (int(idle) + int(waiting)) / _HZ


_HZ: Final = os.sysconf("SC_CLK_TCK")


def _stats() -> Iterator[tuple[Path, list[str]]]:
    """Yield the file of each process with its fields, from the state on."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield path, path.read_text().rpartition(")")[2].split()


def _ticks(path: Path, first: int, end: int) -> int:
    """Return the sum of some fields of a process; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return sum(map(int, path.read_text().rpartition(")")[2].split()[first:end]))
    return 0
