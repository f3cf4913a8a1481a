"""What slurmrestd answers is read, and what is no whole answer is none."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dispatch.backends.slurm.control.errors import RestAwayError, SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.rest import SlurmRest

#: Makes a slurmrestd that answers one question with some bytes.
RestOf = Callable[[bytes], SlurmRest]


@pytest.fixture
def rest_of(tmp_path: Path) -> Iterator[RestOf]:
    """Return what makes one."""
    token = tmp_path / "token"
    token.write_text("t")
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def answer(said: bytes) -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65_536)
                peer.sendall(said)

        def rest(said: bytes) -> SlurmRest:
            pool.submit(answer, said)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            return SlurmRest(url, "v0.0.38", "me", str(token))

        yield rest


def _answer(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        _answer(b'{"jobs": [', length=1_000),
        _answer(b'{"errors": [', "500 Oops", length=1_000),
        _answer(b'{"errors": [{"error": "Zero Bytes"}]}', "500 Oops"),
    ],
)
def test_a_slurmrestd_that_ends_in_its_answer_is_away(said: bytes, rest_of: RestOf) -> None:
    """Before, in, and after the head of it; or it says that slurmctld is."""
    with pytest.raises(SlurmAwayError):
        rest_of(said).jobs()


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Away", "504 Late"])
def test_a_proxy_in_the_place_of_slurmrestd_is_told_from_it(status: str, rest_of: RestOf) -> None:
    """A page is a slurmrestd that is away; JSON is its own word, of a slurmctld that is."""
    with pytest.raises(RestAwayError):
        rest_of(_answer(b"<html>", status)).jobs()
    with pytest.raises(SlurmAwayError, match="Zero Bytes") as caught:
        rest_of(_answer(b'{"errors": [{"error": "Zero Bytes"}]}', status)).jobs()
    assert not isinstance(caught.value, RestAwayError)


def test_a_token_that_is_refused_is_told(rest_of: RestOf) -> None:
    """That is no silence."""
    with pytest.raises(SlurmError, match="401 Who") as caught:
        rest_of(_answer(b"", "401 Who")).jobs()
    assert not isinstance(caught.value, SlurmAwayError)


def test_a_job_whose_name_is_no_utf8_hides_no_other(rest_of: RestOf) -> None:
    """Anybody may name a job so."""
    said = b'{"jobs": [{"job_id": 1, "name": "caf\xe9", "job_state": "RUNNING"}]}'
    assert [job.id for job in rest_of(_answer(said)).jobs()] == [1]
