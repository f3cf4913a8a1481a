"""The worst inputs of every call: an answer lists 20 problems, and costs no more than reading."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.workloads.worst_inputs import bad_bodies
from rdl.limits import MOST_PROBLEMS
from service.http.call import NDJSON
from service.http.route import Route
from service.resources.table import ROUTES
from tests.service.access.walking import body_of
from tests.service.conftest import Open, Service

#: Bytes of a bad body, about.
SIZE = 4_000

#: Function calls that an answer may cost, and more for each byte of its request and for each
#: request in a list of them. A call takes some 0.05 µs, so a megabyte takes less than a second.
BASE, A_BYTE, AN_ENTRY = 30_000, 16, 150

#: Bytes of an answer, and more for each byte of the request: of a batch, which answers each entry.
ANSWER, ANSWER_A_BYTE = 60_000, 100


class Work:
    """What an answer took: functions called and nearest words searched for."""

    calls = searches = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Return the counts of the present answer."""
    counted, search = Work(), difflib.get_close_matches

    def searching(*given: Any, **options: Any) -> Any:
        counted.searches += 1
        return search(*given, **options)

    monkeypatch.setattr(difflib, "get_close_matches", searching)
    return counted


@contextmanager
def counting(work: Work) -> Iterator[None]:
    """Count the calls of functions inside, of Python's and of C's."""
    work.calls = work.searches = 0

    def count(_frame: Any, event: str, _given: Any) -> None:
        work.calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def good_body(service: Service, route: Route) -> Any:
    """Return a body that a route reads."""
    if route.path == "/v1/cluster":
        return service.client.get("/v1/cluster").get_json()
    return body_of(route)


def listed(value: Any) -> int:
    """Return the problems that an answer lists, also in its results."""
    if isinstance(value, dict):
        own = value.get("errors")
        inside = sum(listed(one) for key, one in value.items() if key != "errors")
        return inside + (len(own) if isinstance(own, list) else 0)
    return sum(map(listed, value)) if isinstance(value, list) else 0


def entries_of(route: Route, raw: bytes) -> int:
    """Return how many requests a body lists; at most 20,000 are read."""
    if route.name not in ("createReservations", "startComparison"):
        return 0
    try:
        body = json.loads(raw)
    except ValueError:  # lines
        return raw.count(b"\n") + 1
    lists = body.values() if isinstance(body, dict) else [body]
    return max((len(one) for one in lists if isinstance(one, list)), default=0)


def check(work: Work, service: Service, route: Route, what: str, **sent: Any) -> None:
    """Make a call, and judge what it took and what it answers."""
    path = route.path.replace("{id}", "no-such-id") + sent.pop("query", "")
    with counting(work):
        answer = service.client.open(path, method=route.method, **sent)
    size = len(sent.get("data", b"")) + len(path)
    where = f"{route.name}, {what}: {answer.status}"
    assert answer.status_code < 500, where
    assert work.searches <= MOST_PROBLEMS, where
    body = None if answer.mimetype == "text/event-stream" else answer.get_json(silent=True)
    most = BASE + A_BYTE * size + AN_ENTRY * entries_of(route, sent.get("data", b""))
    assert work.calls <= most, f"{where} {work.calls} calls for {size} bytes"
    assert listed(body) <= MOST_PROBLEMS, where
    if body is not None:
        assert len(answer.get_data()) <= ANSWER + ANSWER_A_BYTE * size, where
    answer.close()


def test_bad_bodies_of_every_call(open_service: Open, work: Work) -> None:
    """An answer lists 20 problems at most, and takes no longer than reading its request."""
    service = open_service(tick_s=0)
    for route in ROUTES:
        if route.body is None:
            continue
        query = "?user.name=ann" if any(one.name == "user.name" for one in route.query) else ""
        names = [field.name for field in route.body.fields or ()]
        for what, raw in bad_bodies(good_body(service, route), SIZE, names):
            media = route.body.media[0]
            check(work, service, route, what, data=raw, content_type=media, query=query)


def test_bad_lines_of_a_batch(open_service: Open, work: Work) -> None:
    """Lines of NDJSON share the 20 problems that an answer lists."""
    service = open_service(tick_s=0)
    route = next(one for one in ROUTES if one.name == "createReservations")
    line = json.dumps({f"k{index}": 1 for index in range(20)}).encode()
    check(work, service, route, "lines", data=b"\n".join([line] * 100), content_type=NDJSON)


def test_bad_queries_of_every_call(open_service: Open, work: Work) -> None:
    """Many parameters, parameters given often, and long headers cost no more than bodies."""
    service = open_service(tick_s=0)
    headers = {"If-Match": '"a",' * 1000, "If-None-Match": '"a",' * 1000, "Cookie": "a=b;" * 1000}
    for route in ROUTES:
        names = [field.name for field in route.query] or ["a"]
        queries = {
            "many": "&".join(f"k{index}=1" for index in range(400)),
            "often": "&".join(f"{names[0]}=1" for _ in range(400)),
            "twice": "&".join(f"k{index}=1&k{index}=2" for index in range(400)),
            "long": "&".join(f"{name}={'9' * 400}" for name in names),
        }
        for what, query in queries.items():
            check(work, service, route, what, query=f"?{query}", headers=headers)


def test_an_answer_says_how_many_problems_there_are(service: Service) -> None:
    """Of 300 unknown members 20 are listed, and all are counted."""
    body = {"rdl": "atom(<1 cpu>, 1, 1, 60, 60)", **{f"k{index}": 1 for index in range(300)}}
    answer = service.client.post("/v1/reservations", json=body).get_json()
    assert len(answer["errors"]) == MOST_PROBLEMS
    assert "(20 of 300 problems are listed)" in answer["detail"]


def test_results_of_a_batch_count_what_they_do_not_list(service: Service) -> None:
    """The first bad requests list their problems; the others say what is wrong first."""
    many = [{"a": 1, "b": 2}] * 30
    results = service.client.post("/v1/reservations:batch", json=many).get_json()["results"]
    counts = [len(one["body"]["errors"]) for one in results]
    assert counts == [3] * 6 + [2] + [0] * 23
    assert results[-1]["body"]["detail"].startswith("3 problems; the first: unknown field 'a'")
