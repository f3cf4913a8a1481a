"""Durable POSTs over HTTP: two server processes, sixteen clients, all on this machine's cores.

Beside the service runs a bare Flask application that inserts one durable row a request, on the
same kind of server with as many processes and threads: what making an answer durable costs at all
without group commit. The target is 70 % of its rate with tokens checked (`guarded`), at a 99th
percentile of 50 ms, and 20,000 requests a second in batches.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cases.service.processes import serving
from service.access.user import Role, User
from service.clock import SystemClock
from service.store import Store

NAME = "http_admit"

WORKERS = 2
THREADS = 16
CLIENTS = 16

#: A client process: raw sockets, so that the clients take little of the cores they share.
_CLIENT = """
import json, sys
from bench.cases.service.http_admit import post_for
port, number, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
print(json.dumps(post_for(port, number, seconds, *sys.argv[4:])))
"""


def run(small: bool) -> Mapping[str, object]:
    """Return rates, percentiles and the ratio of the two servers, measured one after the other."""
    seconds = 2.0 if small else 10.0
    batch = 500 if small else 10_000
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        folder = Path(name)
        with serving("bare", folder, workers=WORKERS, threads=THREADS) as port:
            figures["bare"] = measured(_CLIENT, CLIENTS, port, seconds)
        with serving("service", folder, workers=WORKERS, threads=THREADS) as port:
            figures["service"] = measured(_CLIENT, CLIENTS, port, seconds)
            figures["batch_per_s"] = _batch_rate(port, batch)
        tokens = _tokens(folder)
        with serving("guarded", folder, workers=WORKERS, threads=THREADS) as port:
            figures["guarded"] = measured(_CLIENT, CLIENTS, port, seconds, tokens)
    bare = figures["bare"]["per_s"]
    figures["ratio"] = round(figures["service"]["per_s"] / bare, 3)
    figures["ratio_guarded"] = round(figures["guarded"]["per_s"] / bare, 3)
    params = {
        "workers": WORKERS,
        "threads": THREADS,
        "clients": CLIENTS,
        "seconds": seconds,
        "batch": batch,
        "database": "sqlite",
    }
    return {"params": params, "figures": figures}


def request_of(generator: random.Random, tenant: int) -> dict[str, object]:
    """Return a request of one stage with up to eight bundles, somewhere in the next 22 hours."""
    start = generator.randrange(0, 20 * 60)
    height = generator.randint(1, 8)
    minutes = generator.randint(5, 40)
    rdl = (
        f"window(atom(<1 cpu, 2 GiB memory>, 1, {height}, {minutes}m, {height * minutes}m), "
        f"+{start}m, +{start + 3 * minutes}m)"
    )
    return {"tenant": f"t{tenant}", "rdl": rdl}


def _tokens(folder: Path) -> list[str]:
    """Create a token for each client, of its own tenant, and one of an admin."""
    store, now_ms = Store(f"sqlite:///{folder / 'guarded.db'}"), SystemClock().now_ms()
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


def post_for(port: int, number: int, seconds: float, token: str = "") -> list[float]:
    """Post one request after the other on one connection; return the seconds each took.

    Raises
    ------
    RuntimeError
        If anything but 201 is answered.
    """
    generator = random.Random(number)
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            body = json.dumps(request_of(generator, number)).encode()
            sent = message(body, "application/json", token=token)
            began = time.perf_counter()
            connection.sendall(sent)
            status = read_answer(connection)[0]
            taken.append(time.perf_counter() - began)
            if status != 201:
                raise RuntimeError(f"answered {status}")
    return taken


def measured(
    source: str, clients: int, port: int, seconds: float, tokens: Sequence[str] = ()
) -> dict[str, float]:
    """Return rate and percentiles of clients, each a process of its own.

    Parameters
    ----------
    source
        Program of a client: its arguments are port, number, seconds and its token, if any, and it
        prints the seconds that each of its requests took.
    """
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                source,
                str(port),
                str(number),
                str(seconds),
                *tokens[number : number + 1],
            ],
            stdout=subprocess.PIPE,
        )
        for number in range(clients)
    ]
    taken = sorted(one for process in processes for one in json.loads(process.communicate()[0]))
    return {
        "per_s": round(len(taken) / seconds, 1),
        "p50_ms": round(1000 * taken[len(taken) // 2], 2),
        "p99_ms": round(1000 * taken[int(0.99 * len(taken))], 2),
        "max_ms": round(1000 * taken[-1], 2),
    }


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


def message(body: bytes, media: str, path: str = "/v1/reservations", *, token: str = "") -> bytes:
    """Return a POST as it goes over the wire."""
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n{shown}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return status and body of one answer that carries its length."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("ascii").lower().split("\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
    parts = [body]
    missing = length - len(body)
    while missing > 0:
        parts.append(_more(connection))
        missing -= len(parts[-1])
    return int(lines[0].split()[1]), b"".join(parts)


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 16)
    if not received:
        raise RuntimeError("the server closed the connection")
    return received
