"""RequestBuffer: where a request ends, compared with gunicorn's parser at every cut."""

from __future__ import annotations

from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import get_parser
from hypothesis import given
from hypothesis import strategies as st

from service.connections.client_socket import MOST_HEAD, RequestBuffer
from tests.patience import stopwatch

MOST = 4096

PLAIN = b"POST /a HTTP/1.1\r\nHost: x\r\ncontent-LENGTH:  5 \r\n\r\nhello"
CHUNKED = (
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n3;name=value\r\nyou\r\n0\r\n\r\n"
)
TRAILED = CHUNKED[:-2] + b"X-Sum: 1\r\n\r\n"
WHOLE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    PLAIN,
    CHUNKED,
    TRAILED,
)


def parsed(buffer: RequestBuffer) -> tuple[Any, Any]:
    """Return the parser that reads from a buffer, and the request it found, its body read."""
    parser = get_parser(Config(), buffer, ("127.0.0.1", 1))
    request = next(parser)
    return parser, (request.method, request.path, request.body.read())


@given(request=st.sampled_from(WHOLE), pieces=st.lists(st.integers(1, 40), max_size=40))
def test_a_request_is_whole_with_its_last_byte(request: bytes, pieces: list[int]) -> None:
    """However it comes, it is whole when its last byte is there, and not before."""
    buffer = RequestBuffer(MOST)
    at = 0
    for piece in [*pieces, len(request)]:
        given_now = request[at : at + piece]
        assert not buffer.whole or not given_now
        buffer.feed(given_now)
        at += len(given_now)
        assert buffer.whole == (at == len(request))

    assert buffer.fault is None
    parsed(buffer)
    assert not buffer.short


@given(first=st.sampled_from(WHOLE), second=st.sampled_from(WHOLE), cut=st.integers(0, 200))
def test_what_follows_a_request_is_the_next(first: bytes, second: bytes, cut: int) -> None:
    """Bytes behind a body belong to the next request, none is lost and none is read twice."""
    both = first + second
    cut = max(len(first), min(cut, len(both)))
    buffer = RequestBuffer(MOST)
    buffer.feed(both[:cut])
    parser, one = parsed(buffer)
    buffer.go_on(parser.unreader.take_buffered())
    buffer.feed(both[cut:])

    assert buffer.whole
    alone = RequestBuffer(MOST)
    alone.feed(second)
    assert parsed(buffer)[1] == parsed(alone)[1]
    assert one[0] in ("GET", "POST")


@given(raw=st.binary(max_size=300), head=st.sampled_from((b"", PLAIN[:-5], CHUNKED[:60])))
def test_nothing_makes_it_fail(raw: bytes, head: bytes) -> None:
    """Any bytes at all are waited for, read, or refused."""
    buffer = RequestBuffer(MOST)
    for byte in head + raw:
        buffer.feed(bytes([byte]))

    assert buffer.fault is None or not buffer.whole


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Content-Length: +5",
        b"Content-Length: 0x5",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Host: x\nContent-Length: 5",
        b"Host: x\r\n Content-Length: 5",
        b"Content-Length : 5",
    ],
)
def test_no_plain_length_is_for_the_parser_to_refuse(head: bytes) -> None:
    """A head whose length two readers may see differently is not waited for; it is refused."""
    buffer = RequestBuffer(MOST)
    buffer.feed(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")

    assert buffer.whole
    with pytest.raises(Exception, match=r"(?i)header|length|folding|transfer"):
        parsed(buffer)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", "too_large"),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "too_large"),
        (CHUNKED[: CHUNKED.index(b"5\r\n")] + b"1000\r\n", "too_large"),
        (CHUNKED[: CHUNKED.index(b"5\r\n")] + b"1\r\na\r\n" * 900, "too_large"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MOST_HEAD // 6), "malformed"),
    ],
)
def test_what_is_too_long_is_refused_before_it_came(sent: bytes, code: str) -> None:
    """A body or a head past its limit is refused as soon as that is known."""
    buffer = RequestBuffer(MOST)
    buffer.feed(sent)

    assert not buffer.whole
    assert buffer.fault is not None
    assert buffer.fault.code == code


def test_a_client_that_waits_for_a_word_is_known() -> None:
    """Expect: 100-continue is seen with the head, in any case."""
    buffer = RequestBuffer(MOST)
    buffer.feed(PLAIN.replace(b"Host: x", b"EXPECT: 100-Continue")[:-5])

    assert buffer.awaited
    assert buffer.in_body


def test_a_body_cut_short_is_read_to_its_end() -> None:
    """Of a client that hangs up the parser sees what came, and that more was requested."""
    buffer = RequestBuffer(MOST)
    buffer.feed(PLAIN[:-2])
    buffer.end()

    assert parsed(buffer)[1] == ("POST", "/a", b"hel")
    assert buffer.short


def test_a_post_is_known_by_its_first_bytes() -> None:
    """Before the request is read."""
    buffer = RequestBuffer(MOST)
    assert not buffer.is_post
    buffer.feed(PLAIN)
    assert buffer.is_post
    buffer.clear()
    buffer.feed(WHOLE[0])
    assert not buffer.is_post


def chunked(count: int, size: int) -> bytes:
    """Return a request whose body has so many chunks of one size."""
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + chunk * count + b"0\r\n\r\n"


def test_many_small_chunks_are_refused() -> None:
    """A body is not read to its end where its chunks are many and short; long ones may be many."""
    tiny, long = RequestBuffer(2**25), RequestBuffer(2**25)
    tiny.feed(chunked(20_000, 1))
    long.feed(chunked(20_000, 100))
    assert tiny.fault is not None
    assert tiny.fault.code == "malformed"
    assert not tiny.whole
    assert long.fault is None
    assert long.whole


def test_a_few_thousand_chunks_may_be_of_one_byte() -> None:
    """A client that sends its request byte by byte is served."""
    buffer = RequestBuffer(2**20)
    buffer.feed(chunked(9_000, 1))
    assert buffer.whole


@pytest.mark.parametrize("name", [b"Expect", b"Content-Length", b"Transfer-Encoding"])
def test_a_long_header_is_read_in_one_pass(name: bytes) -> None:
    """Blanks in the value of a header that says how long a request is cost no more than letters."""
    buffer = RequestBuffer(MOST)
    with stopwatch() as taken:
        buffer.feed(b"POST /a HTTP/1.1\r\n" + name + b": a" + b" " * 60_000 + b"b\r\n\r\n")
    assert taken.seconds < 2
    assert buffer.whole
