"""gzip of answers: when, for whom, and the outcome of the ETag."""

from __future__ import annotations

import gzip

import pytest

from service.app import LEAST_BYTES, accepts_gzip, compress_response
from service.response import Response
from tests.service.conftest import Service

_LARGE = Response(200, b"x" * LEAST_BYTES, {"ETag": '"7"'})


def test_a_large_answer_is_compressed_for_who_takes_it() -> None:
    """Its bytes are the same after unpacking, its tag is weak, and caches are reported why."""
    sent = compress_response(_LARGE, "br, gzip;q=0.5")
    assert isinstance(sent.body, bytes)
    assert gzip.decompress(sent.body) == _LARGE.body
    assert sent.headers["Content-Encoding"] == "gzip"
    assert (sent.headers["ETag"], sent.headers["Vary"]) == ('W/"7"', "Accept-Encoding")


def test_others_get_it_as_it_is() -> None:
    """Who does not ask for gzip is sent the plain bytes, and caches still keep both apart."""
    sent = compress_response(_LARGE, "")
    assert sent.body == _LARGE.body
    assert (sent.headers["ETag"], sent.headers["Vary"]) == ('"7"', "Accept-Encoding")


def test_a_small_answer_stays_as_it_is() -> None:
    """Below the least size nothing is gained."""
    sent = compress_response(Response(200, b"x" * (LEAST_BYTES - 1)), "gzip")
    assert "Content-Encoding" not in sent.headers


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [("gzip", True), ("*", True), ("gzip;q=0, *", False), ("identity", False), ("GZIP; q=1", True),
     ("gzip;q=no", False), ("", False)],
)  # fmt: skip
def test_weights_are_obeyed(accepted: str, takes: bool) -> None:
    """gzip is taken by its name or by a star, unless its weight is 0."""
    assert accepts_gzip(accepted) is takes


def test_a_weak_tag_comes_back(service: Service) -> None:
    """The tag of a compressed answer is good for If-None-Match."""
    asks = [{"id": f"r{number}", "rdl": "atom(<1 cpu>, 1, 1, 60, 60)"} for number in range(40)]
    assert service.client.post("/v1/reservations:batch", json=asks).status_code == 200
    whole = "/v1/plan?reservations=true"
    answer = service.client.get(whole, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["ETag"].startswith("W/")
    again = {"If-None-Match": answer.headers["ETag"]}
    assert service.client.get(whole, headers=again).status_code == 304
