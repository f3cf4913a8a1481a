"""Clients that send or read slowly hold no thread of a real server, and no other client up."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from gunicorn.workers.gthread import TConn, ThreadWorker

from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import serving
from tests.patience import eventually

CLUSTER = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 4
resources = { cpu = 4 }
"""

BODY = b'{"rdl": "atom(<1 cpu>, 1, 1, 60, 60)"}'
HEAD = (
    b"POST /v1/reservations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n"
)
POST = HEAD % len(BODY) + b"\r\n" + BODY
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

#: Starts a server with some settings.
Start = Callable[..., ServerProcess]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a function that starts servers; those with the same settings are one."""
    started: dict[str, ServerProcess] = {}
    with ExitStack() as stack:

        def start_one(**settings: float) -> ServerProcess:
            key = json.dumps(settings, sort_keys=True)
            if key not in started:
                folder = tmp_path_factory.mktemp("slow")
                cluster = folder / "cluster.toml"
                cluster.write_text(CLUSTER)
                entered = serving(folder / "agenda.db", cluster, **{"workers": 1, **settings})
                started[key] = stack.enter_context(entered)
            return started[key]

        yield start_one


@contextmanager
def connected(server: ServerProcess, count: int = 1) -> Iterator[list[socket.socket]]:
    """Open connections; all are closed at the end."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            for _ in range(count)
        ]


def answer_of(connection: socket.socket) -> tuple[int, bytes, bytes]:
    """Return status, head and body of the next answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1)  # byte by byte: what follows is the next answer's
        assert piece, f"the server hung up after {received!r}"
        received += piece
    lines = received.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(received.split()[1]), received, body


def code_of(connection: socket.socket) -> tuple[int, str]:
    """Return status and code of a problem, after which the server hangs up."""
    status, head, body = answer_of(connection)
    assert b"application/problem+json" in head
    assert connection.recv(1) == b""
    return status, json.loads(body)["code"]


def entered(server: ServerProcess) -> socket.socket:
    """Return a connection that is served: the server sees the end of others in its own time."""
    while True:
        connection = socket.create_connection(("127.0.0.1", server.port), 60)
        connection.sendall(HEALTH)
        if answer_of(connection)[0] == 200:
            return connection
        connection.close()


@pytest.mark.parametrize(
    "half",
    [POST[:-5], POST[:40], b"", HEAD[: HEAD.index(b"Content-Length")] % ()
     + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"],
    ids=["half a body", "half a head", "nothing", "half a chunk"],
)  # fmt: skip
def test_a_hundred_half_requests_hold_nobody_up(start: Start, half: bytes) -> None:
    """With eight threads and a hundred requests that stop half way, others are answered."""
    server = start()
    with connected(server, 100) as slow, connected(server) as (other,):
        for connection in slow:
            connection.sendall(half)
        for message, expected in [(HEALTH, 200), (POST, 201)] * 5:
            other.sendall(message)
            assert answer_of(other)[0] == expected


def test_a_slow_request_that_ends_in_time_is_served(start: Start) -> None:
    """Each byte in a packet of its own, with others served in between, is a request like any."""
    server = start()
    with connected(server, 2) as (slow, other):
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(POST)):
            slow.sendall(POST[at : at + 1])
            if at % 50 == 0:
                other.sendall(HEALTH)
                assert answer_of(other)[0] == 200

        assert answer_of(slow)[0] == 201


@pytest.mark.parametrize(("half", "what"), [(POST[:40], b"head"), (POST[:-5], b"body")])
def test_what_does_not_come_in_time_is_told(start: Start, half: bytes, what: bytes) -> None:
    """Past its deadline a request is answered 408, which says what is missing."""
    server = start(head_s=0.2, body_s=0.2)
    with connected(server) as (slow,):
        slow.sendall(half)
        status, head, body = answer_of(slow)

        assert (status, json.loads(body)["code"]) == (408, "request_timeout")
        assert what in body
        assert b"connection: close" in head.lower()
        assert slow.recv(1) == b""


def test_a_client_that_says_nothing_is_left(start: Start) -> None:
    """Without a byte there is no one to answer: the connection is closed."""
    server = start(head_s=0.2, body_s=0.2)
    with connected(server) as (silent,):
        assert silent.recv(1) == b""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"per_address": 3}, (429, "too_many")),
        ({"connections": 3}, (503, "unavailable")),
    ],
)
def test_one_connection_too_many_is_refused(
    start: Start, settings: dict[str, float], expected: tuple[int, str]
) -> None:
    """The client after the last one that may connect is notified, and served when one has left."""
    server = start(**settings)
    with ExitStack() as stack:
        first = [stack.enter_context(entered(server)) for _ in range(3)]
        with connected(server) as (late,):
            late.sendall(POST)
            assert code_of(late) == expected
        first[0].close()
        with entered(server) as again:
            again.sendall(POST)
            assert answer_of(again)[0] == 201


def test_bytes_behind_a_body_are_the_next_request(start: Start) -> None:
    """Requests sent at once are answered one by one in order, whole or cut anywhere."""
    server = start()
    chunked = POST.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
    chunked = chunked.replace(BODY, b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
    with connected(server) as (connection,):
        connection.sendall(POST + HEALTH + chunked + HEALTH[:10])
        assert [answer_of(connection)[0] for _ in range(3)] == [201, 200, 201]
        connection.sendall(HEALTH[10:])
        assert answer_of(connection)[0] == 200


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\nContent-Length: 44\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
)
def test_two_lengths_are_refused_and_what_follows_is_not_read(start: Start, framing: bytes) -> None:
    """A request whose end two readers may see differently ends the connection."""
    head = HEAD[: HEAD.index(b"Content-Length")] + framing + b"\r\n"
    with connected(start()) as (connection,):
        connection.sendall(head + b"0\r\n\r\n" + HEALTH)

        assert code_of(connection) == (400, "malformed")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"/v1/rdl/check", (400, "malformed")),
        (b"/v1/reservations", (400, "malformed")),
        (b"/v1/nothing", (404, "not_found")),
    ],
)
@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n",
        b"\r\n",
        b"2;a\nb\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}xx0\r\n\r\n",
        b"2\r\n{}\r\n0\r\nHost: evil\r\nno header\r\n\r\n",
        b"2\r\n{}\r\n0\r\nBad Name: x\r\n\r\n",
    ],
)
def test_malformed_chunks_and_trailers_are_400(
    start: Start, path: bytes, code: tuple[int, str], chunks: bytes
) -> None:
    """Where a call reads them; there is one answer, and what follows is no request."""
    head = HEAD[: HEAD.index(b"Content-Length")].replace(b"/v1/reservations", path)
    with connected(start()) as (connection,):
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + HEALTH)

        assert code_of(connection) == code


def test_a_body_that_no_call_reads_is_not_the_next_request(start: Start) -> None:
    """The body of a GET is ignored."""
    with connected(start()) as (connection,):
        inner = b"GET /v1/plan HTTP/1.1\r\nHost: x\r\n\r\n"
        counted = b"\r\nContent-Length: %d\r\n\r\n" % len(inner)
        connection.sendall(HEALTH.replace(b"\r\n\r\n", counted) + inner + HEALTH)
        answers = [answer_of(connection) for _ in range(2)]

        assert [json.loads(body)["status"] for _, _, body in answers] == ["alive", "alive"]


def test_too_long_a_body_is_refused_before_it_is_sent(start: Start) -> None:
    """413 comes with the head, and the client that has sent all of it can still read that."""
    server = start(threads=1, answer_s=0.5, max_body=10_000)
    with connected(server) as (connection,):
        connection.sendall(HEAD % 1_000_000 + b"\r\n" + b"x" * 1_000_000)

        assert code_of(connection) == (413, "too_large")


def test_a_refused_body_leaves_room_for_others(start: Start) -> None:
    """What a refused client sent does not count while that client stays connected."""
    server = start(threads=1, answer_s=0.5, max_body=10_000)
    with connected(server, 2) as (refused, other):
        refused.sendall(HEAD % 1_000_000 + b"\r\n" + b"x" * 1_000_000)
        assert answer_of(refused)[0] == 413
        other.sendall(POST[:-5])
        assert select.select([other], [], [], 0.2)[0] == []
        other.sendall(POST[-5:])
        assert answer_of(other)[0] == 201


def test_bodies_that_arrive_at_once_are_bounded(start: Start) -> None:
    """Of nine bodies of which eight may be held, the one that comes last is 503."""
    server = start(threads=1, answer_s=0.5, max_body=10_000)
    with connected(server, 9) as slow:
        for connection in slow:
            connection.sendall(HEAD % 10_000 + b"\r\n" + b"x" * 9_000)
        answered = select.select(slow, [], [], 60)[0]

        assert [code_of(connection) for connection in answered] == [(503, "unavailable")]


def test_a_client_that_waits_for_a_word_is_told_once(start: Start) -> None:
    """100 Continue comes when the head is there, and the answer after the body."""
    head, _, body = POST.partition(b"\r\n\r\n")
    with connected(start()) as (connection,):
        connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert answer_of(connection)[0] == 100
        connection.sendall(body)
        assert answer_of(connection)[0] == 201


def test_a_client_that_reads_nothing_is_left(start: Start) -> None:
    """Who asks and never reads holds no thread: with one thread, others are answered."""
    server = start(threads=1, answer_s=0.5, max_body=10_000)
    with connected(server, 2) as (deaf, other):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300)
        for _ in range(400):  # in turn with the answers that no one reads
            other.sendall(HEALTH)
            assert answer_of(other)[0] == 200


def test_gunicorn_has_what_the_worker_changes() -> None:
    """Names of gunicorn's that are no promise of its, and that this worker takes over."""
    taken = (
        "accept", "on_client_socket_readable", "murder_pending", "finish_request", "handle",
        "handle_request", "handle_error", "enqueue_req",
    )  # fmt: skip
    assert all(callable(getattr(ThreadWorker, name)) for name in taken)
    assert callable(TConn.close)
    used = ("nr_conns", "keepalived_conns", "poller", "worker_connections", "max_keepalived")
    names = {*ThreadWorker.__init__.__code__.co_names, *TConn.__init__.__code__.co_names}
    assert {*used, "data_ready", "parser"} <= names


#: Holds every change: its call notes that it has begun, and waits for a file.
_HOLD = """
import pathlib, time
from service.commits.planner import Planner
def held(*_given, **_options):
    with open({folder!r} + "/held", "a") as begun:
        begun.write("x")
    while not pathlib.Path({folder!r}, "go").exists():
        time.sleep(0.01)
    raise OSError("held for a test")
Planner._carry_out = held
"""


def test_a_server_is_watched_while_all_threads_are_taken(tmp_path: Path) -> None:
    """Calls that never end take every thread; health, readiness and metrics answer nevertheless."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    prepared = _HOLD.format(folder=str(tmp_path))
    with (
        serving(tmp_path / "agenda.db", cluster, prepared=prepared, threads=2) as server,
        connected(server, 6) as posting,
        connected(server) as (watching,),
    ):
        for connection in posting:
            connection.sendall(POST)
        held = tmp_path / "held"
        assert eventually(lambda: held.exists() and len(held.read_text()) == 2)
        try:
            for path in (b"/healthz", b"/readyz", b"/metrics", b"/healthz?a=1"):
                watching.sendall(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)
                assert answer_of(watching)[0] == (400 if b"?" in path else 200)
        finally:
            (tmp_path / "go").touch()
        for connection in posting:
            assert answer_of(connection)[0] == 500
