"""Clients that call at a pace, each a process with one connection; standard library only."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.cases.service.load.posting import read_answer

#: Calls by name, as they go over the wire.
Calls = Mapping[str, Sequence[bytes]]


def get(path: str, *, gzip: bool = False) -> bytes:
    """Return a GET as it goes over the wire."""
    encoding = "gzip" if gzip else "identity"
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: {encoding}\r\n\r\n".encode()


def start(port: int, calls: Calls, per_s: float, seconds: float) -> subprocess.Popen[bytes]:
    """Start a client that makes its calls in turn, this many a second."""
    sent = {name: [base64.b64encode(one).decode() for one in each] for name, each in calls.items()}
    asked = {"port": port, "calls": sent, "per_s": per_s, "seconds": seconds}
    command = [sys.executable, "-c", "from bench.cases.service.load.pacing import main; main()"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None
    client.stdin.write(json.dumps(asked).encode())
    client.stdin.close()
    return client


def taken_by(clients: Sequence[subprocess.Popen[bytes]]) -> dict[str, dict[str, float]]:
    """Return percentiles in ms and the bytes of the last answer, by name, once clients are done.

    Raises
    ------
    RuntimeError
        If one of them failed.
    """
    taken: dict[str, list[float]] = {}
    last: dict[str, int] = {}
    for client in clients:
        assert client.stdout is not None
        answers = client.stdout.read()
        if client.wait():
            raise RuntimeError("a client failed; what it says stands above")
        for name, (times, size) in json.loads(answers).items():
            taken.setdefault(name, []).extend(times)
            last[name] = size
    return {name: _percentiles(sorted(times), last[name]) for name, times in taken.items()}


def _percentiles(times: Sequence[float], size: int) -> dict[str, float]:
    return {
        "count": len(times),
        "p50_ms": round(times[len(times) // 2], 2),
        "p99_ms": round(times[int(0.99 * len(times))], 2),
        "max_ms": round(times[-1], 2),
        "kb": round(size / 1000, 1),
    }


def main() -> None:
    """Call as the input says; print the ms of each call and the bytes of the last, by name."""
    asked = json.loads(sys.stdin.read())
    calls = [
        (name, [base64.b64decode(one) for one in each]) for name, each in asked["calls"].items()
    ]
    taken: dict[str, list[float]] = {name: [] for name in asked["calls"]}
    sizes = dict.fromkeys(taken, 0)
    with socket.create_connection(("127.0.0.1", asked["port"])) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        for number in range(round(asked["per_s"] * asked["seconds"])):
            # A late answer delays the next call, and is counted from when that was due.
            due = began + number / asked["per_s"]
            time.sleep(max(0.0, due - time.perf_counter()))
            name, each = calls[number % len(calls)]
            connection.sendall(each[number // len(calls) % len(each)])
            status, body = read_answer(connection)
            taken[name].append(1000 * (time.perf_counter() - due))
            sizes[name] = len(body)
            if status not in (200, 201):
                raise RuntimeError(f"{name} is answered {status}: {body[:200]!r}")
    print(json.dumps({name: (times, sizes[name]) for name, times in taken.items()}))
