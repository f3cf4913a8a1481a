"""Servers that `http_admit` measures: the service, asking for tokens or not, and the bare one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.cli.client.server_process import free_port, run_server

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
    """Run a server of a kind (``service``, ``guarded`` or ``bare``) and yield its port."""
    source = {"service": _SERVICE, "guarded": _GUARDED, "bare": _BARE}[kind]
    cluster = folder / "cluster.toml"
    cluster.write_text(cluster_toml)
    port = free_port()
    arguments = [f"sqlite:///{folder / kind}.db", str(cluster), str(port)]
    command = [sys.executable, "-c", source, *arguments, str(workers), str(threads)]
    with run_server(command, port, folder / f"{kind}.log", ready_s=ready_s) as server:
        try:
            yield port
        finally:
            server.stop()
