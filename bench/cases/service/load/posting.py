"""Clients that post one reservation after the other, all of them in one process.

It loads nothing but the standard library, makes all bodies beforehand, and waits for answers with
one `select`: what the clients take of the cores they share with what they measure is reported, and
is little.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Bodies of each client; a client that has posted them all begins again.
_BODIES = 500


@dataclass(frozen=True, slots=True)
class Posted:
    """What some clients got.

    Attributes
    ----------
    taken
        Seconds from each request to its answer, sorted.
    seconds
        How long they posted.
    client_s
        Processor time of the clients, s.
    """

    taken: list[float]
    seconds: float
    client_s: float

    def to_json(self) -> dict[str, float]:
        """Return rate, percentiles in ms, and the processor time of the clients for each post."""
        return {
            "per_s": round(len(self.taken) / self.seconds, 1),
            "p50_ms": round(1000 * self.taken[len(self.taken) // 2], 2),
            "p99_ms": round(1000 * self.taken[int(0.99 * len(self.taken))], 2),
            "max_ms": round(1000 * self.taken[-1], 2),
            "client_ms_each": round(1000 * self.client_s / len(self.taken), 3),
        }


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


def message(body: bytes, media: str, path: str = "/v1/reservations", *, token: str = "") -> bytes:
    """Return a POST as it goes over the wire."""
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n{shown}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return status and body of one answer that carries its length.

    Raises
    ------
    RuntimeError
        If the connection ends before it.
    """
    received = b""
    while (length := _length(received)) is None:
        received += _more(connection)
    while len(received) < length:
        received += _more(connection)
    return _status(received), received.partition(b"\r\n\r\n")[2]


def posted(
    ports: Sequence[int], clients: int, seconds: float, tokens: Sequence[str] = ()
) -> Posted:
    """Post from a process of its own.

    Parameters
    ----------
    ports
        Of the servers: clients are shared out among them.
    tokens
        Of each client; none if no server asks for them.

    Raises
    ------
    RuntimeError
        If anything but 201 is answered.
    """
    source = "from bench.cases.service.load.posting import main; main()"
    asked = {"ports": list(ports), "clients": clients, "seconds": seconds, "tokens": list(tokens)}
    command = [sys.executable, "-c", source, json.dumps(asked)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError("the clients failed; what they say stands above")
    return Posted(**json.loads(done.stdout))


def main() -> None:
    """Post as the argument says, and print what came of it."""
    asked = json.loads(sys.argv[1])
    with selectors.DefaultSelector() as selector:
        clients = []
        for number in range(asked["clients"]):
            token = asked["tokens"][number] if asked["tokens"] else ""
            client = _Client(asked["ports"][number % len(asked["ports"])], number, token)
            selector.register(client.connection, selectors.EVENT_READ, client)
            clients.append(client)
        busy, until = time.process_time(), time.perf_counter() + asked["seconds"]
        for client in clients:
            client.post()
        taken: list[float] = []
        waiting = len(clients)
        while waiting:
            for key, _ in selector.select():
                seconds = key.data.take()
                if seconds is None:
                    continue
                taken.append(seconds)
                if time.perf_counter() < until:
                    key.data.post()
                else:
                    waiting -= 1
        busy = time.process_time() - busy
    print(json.dumps({"taken": sorted(taken), "seconds": asked["seconds"], "client_s": busy}))


class _Client:
    """One connection, with one request under way at a time."""

    def __init__(self, port: int, number: int, token: str) -> None:
        generator = random.Random(number)
        bodies = (json.dumps(request_of(generator, number)).encode() for _ in range(_BODIES))
        self._sent = [message(body, "application/json", token=token) for body in bodies]
        self._next: Iterator[bytes] = iter(())
        self._received = b""
        self._began = 0.0
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self) -> None:
        """Send the next request."""
        sent = next(self._next, None)
        if sent is None:
            self._next = iter(self._sent)
            sent = next(self._next)
        self._received = b""
        self._began = time.perf_counter()
        self.connection.sendall(sent)

    def take(self) -> float | None:
        """Read what has come; return the seconds of the request once its answer is whole."""
        self._received += _more(self.connection)
        length = _length(self._received)
        if length is None or len(self._received) < length:
            return None
        seconds = time.perf_counter() - self._began
        if _status(self._received) != 201:
            raise RuntimeError(f"answered {self._received[:300]!r}")
        return seconds


def _length(received: bytes) -> int | None:
    """Return how long an answer is, head and body; None as long as its head is not whole."""
    head, end, _ = received.partition(b"\r\n\r\n")
    if not end:
        return None
    lower = head.lower()
    at = lower.index(b"content-length:") + len(b"content-length:")
    return len(head) + len(end) + int(lower[at : lower.find(b"\r\n", at) % (len(lower) + 1)])


def _status(received: bytes) -> int:
    return int(received[9:12])


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 16)
    if not received:
        raise RuntimeError("the server closed the connection")
    return received
