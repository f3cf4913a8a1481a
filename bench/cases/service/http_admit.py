"""Durable POSTs over HTTP: two server processes, sixteen clients, all on this machine's cores.

Alongside the service runs a bare Flask application that inserts one durable row a request, on the
same kind of server with as many processes and threads: what making an answer durable costs at all
without group commit. The target is 70 % of its rate with tokens checked (`guarded`), at a 99th
percentile of 50 ms, on SQLite and on PostgreSQL (where AGENDA_POSTGRES names one), and 20,000
requests a second in batches. Alongside rates stands the processor time of each post, which tells
more on a machine that does other work: of the server, the database and the clients.
"""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.cases.service.behind import postgres
from bench.cases.service.load.posting import message, posted, read_answer, request_of
from bench.cases.service.load.processes import CLUSTER, busy_below_s, busy_s, served
from service.access.user import Role, User
from service.clock import SystemClock
from service.store import Store

NAME = "http_admit"

WORKERS = 2
THREADS = 16
CLIENTS = 16

_KINDS = ("bare", "service", "guarded")


def run(small: bool) -> Mapping[str, object]:
    """Return rates, percentiles and ratios of the servers, measured one after the other."""
    seconds, batch = (2.0, 500) if small else (10.0, 10_000)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        cluster = Path(name) / "cluster.toml"
        cluster.write_text(CLUSTER)
        urls = {kind: f"sqlite:///{cluster.with_name(kind)}.db" for kind in _KINDS}
        figures["sqlite"] = _compared(urls, cluster, seconds)
        with served(
            "service", f"sqlite:///{cluster.with_name('batch')}.db", cluster,
            workers=WORKERS, threads=THREADS,
        ) as server:  # fmt: skip
            _batch_rate(server.port, batch // 10)
            figures["batch_per_s"] = _batch_rate(server.port, batch)
        address = os.environ.get("AGENDA_POSTGRES")
        if address:
            names = [f"bench_{kind}" for kind in _KINDS]
            with postgres(address, names) as made, postmaster_of(address) as postmaster:
                found = dict(zip(_KINDS, made, strict=True))
                figures["postgresql"] = _compared(found, cluster, seconds, postmaster)
    params = {
        "workers": WORKERS,
        "threads": THREADS,
        "clients": CLIENTS,
        "seconds": seconds,
        "batch": batch,
    }
    return {"params": params, "figures": figures}


def _compared(
    urls: Mapping[str, str], cluster: Path, seconds: float, postmaster: int | None = None
) -> dict[str, Any]:
    """Return the figures of each kind of server on its database, and those of bare as ratios."""
    figures: dict[str, Any] = {}
    for kind, url in urls.items():
        tokens = _tokens(url) if kind == "guarded" else ()
        with served(kind, url, cluster, workers=WORKERS, threads=THREADS) as server:
            posted([server.port], CLIENTS, seconds / 5, tokens)
            group, base = (
                {server.process.pid},
                0.0 if postmaster is None else busy_below_s(postmaster),
            )
            busy = busy_s(group)
            done = posted([server.port], CLIENTS, seconds, tokens)
            figures[kind] = {
                **done.to_json(),
                "server_ms_each": round(1000 * (busy_s(group) - busy) / len(done.taken), 3),
            }
            if postmaster is not None:
                more = busy_below_s(postmaster) - base
                figures[kind]["database_ms_each"] = round(1000 * more / len(done.taken), 3)
    bare = figures["bare"]["per_s"]
    figures["ratio"] = round(figures["service"]["per_s"] / bare, 3)
    figures["ratio_guarded"] = round(figures["guarded"]["per_s"] / bare, 3)
    return figures


@contextmanager
def postmaster_of(address: str) -> Iterator[int | None]:
    """Yield the process id of a PostgreSQL on this machine, else None."""
    engine = sa.create_engine(address)
    with engine.connect() as connection:
        own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        path = Path(f"/proc/{own}/stat")
        known = path.exists() and "postgres" in path.read_text()
        yield int(path.read_text().rpartition(")")[2].split()[1]) if known else None
    engine.dispose()


def _tokens(url: str) -> list[str]:
    """Create a token for each client, of its own tenant, and one of an admin."""
    store, now_ms = Store(url), SystemClock().now_ms()
    try:
        store.tokens.create(User("admin", Role.ADMIN), None, now_ms)
        return [
            store.tokens.create(
                User(f"u{number}", Role.USER, frozenset({f"t{number}"})), None, now_ms
            )[1]
            for number in range(CLIENTS)
        ]
    finally:
        store.close()


def _batch_rate(port: int, count: int) -> float:
    """Return requests a second of one batch in NDJSON."""
    generator = random.Random(0)
    lines = "\n".join(json.dumps(request_of(generator, 99)) for _ in range(count))
    sent = message(lines.encode(), "application/x-ndjson", "/v1/reservations:batch")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        began = time.perf_counter()
        connection.sendall(sent)
        status, body = read_answer(connection)
        seconds = time.perf_counter() - began
    granted = sum(result["status"] == 201 for result in json.loads(body)["results"])
    if status != 200 or granted != count:
        raise RuntimeError(f"answered {status}, granted {granted} of {count}")
    return round(count / seconds, 1)
