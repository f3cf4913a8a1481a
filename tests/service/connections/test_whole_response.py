"""WholeResponse: one way to the system for a small answer; the bytes are gunicorn's."""

from __future__ import annotations

from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import get_parser
from gunicorn.http.wsgi import Response

from service.connections.gunicorn_worker import WholeResponse

PEER = ("127.0.0.1", 9)


class Wire:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)

    def send(self, data: bytes) -> int:
        self.sent.append(bytes(data))
        return len(data)


def response_on(wire: Wire, kind: type[Response], asked: bytes) -> Any:
    settings = Config()
    return kind(next(get_parser(settings, iter([asked]), PEER)), wire, settings)


@pytest.mark.parametrize("asked", [b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "5")], [("ETag", '"1"')]])
@pytest.mark.parametrize("pieces", [(b"hello",), (b"he", b"llo"), (b"", b"hello")])
def test_bytes_are_those_of_gunicorn(
    asked: bytes, headers: list[tuple[str, str]], pieces: tuple[bytes, ...]
) -> None:
    """Whole, in pieces and chunked: nothing but the number of sends is another."""
    wires = Wire(), Wire()
    for wire, kind in zip(wires, (Response, WholeResponse), strict=True):
        response = response_on(wire, kind, asked)
        response.start_response("200 OK", headers)
        for piece in pieces:
            response.write(piece)
        response.close()
    plain, whole = (_without_date(b"".join(wire.sent)) for wire in wires)

    assert whole == plain
    assert whole.startswith(b"HTTP/1.")


def _without_date(sent: bytes) -> bytes:
    return b"\r\n".join(line for line in sent.split(b"\r\n") if not line.startswith(b"Date: "))


def test_a_small_answer_is_sent_at_once() -> None:
    """Head and body are one piece."""
    wire = Wire()
    response = response_on(wire, WholeResponse, b"GET / HTTP/1.1\r\n\r\n")
    response.start_response("200 OK", [("Content-Length", "2")])
    response.send_all(iter([b"ok"]))

    assert len(wire.sent) == 1
    assert wire.sent[0].endswith(b"\r\n\r\nok")


def test_an_answer_without_a_body_is_its_head() -> None:
    """It is sent when the answer ends."""
    wire = Wire()
    response = response_on(wire, WholeResponse, b"GET / HTTP/1.1\r\n\r\n")
    response.start_response("304 Not Modified", [])
    response.send_all(iter(()))

    assert len(wire.sent) == 1
    assert wire.sent[0].startswith(b"HTTP/1.1 304 Not Modified\r\n")


def test_it_has_begun_once_something_is_sent() -> None:
    """As long as the head waits, another answer may be sent instead."""
    wire = Wire()
    response = response_on(wire, WholeResponse, b"GET / HTTP/1.1\r\n\r\n")
    response.start_response("200 OK", [])
    response.send_headers()
    before = response.begun
    response.write(b"a")

    assert (before, response.begun) == (False, True)


def test_an_answer_that_is_taken_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes a byte every ten seconds has a minute for the whole answer."""
    now = [0.0]
    monkeypatch.setattr("service.connections.gunicorn_worker.time.monotonic", lambda: now[0])

    class SlowWire(Wire):
        def send(self, data: bytes) -> int:
            now[0] += 10
            return super().send(data[:1])

    wire = SlowWire()
    response = response_on(wire, WholeResponse, b"GET / HTTP/1.1\r\n\r\n")
    response.longest_s = 60.0
    response.start_response("200 OK", [("Content-Length", "1000")])
    with pytest.raises(BlockingIOError):
        response.write(b"x" * 1000)
    assert len(wire.sent) == 8
