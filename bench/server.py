"""Servers that `http_admit` measures: the service, and the bare reference beside it."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Run a server of a kind (``service`` or ``bare``) and yield its port."""
    source = {"service": _SERVICE, "bare": _BARE}[kind]
    cluster = folder / "cluster.toml"
    cluster.write_text(cluster_toml)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    arguments = [f"sqlite:///{folder / kind}.db", str(cluster), str(port)]
    log = (folder / f"{kind}.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments, str(workers), str(threads)],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        _wait_until_ready(process, port, ready_s, Path(log.name))
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _wait_until_ready(
    process: subprocess.Popen[bytes], port: int, limit_s: float, log: Path
) -> None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server is not ready:\n{log.read_text()}")
