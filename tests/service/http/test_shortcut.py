"""The two ways to an answer: straight for plain calls, through Flask for the others."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.answering import Headers
from service.http.fields import parse_json
from service.problems import ApiProblemError
from service.resources import reservations
from tests.service.conftest import Open, Service

RDL = "atom(<1 cpu>, 1, 10, 60, 600)"
TOO_MUCH = "atom(<1 cpu>, 1000, 1000, 60, 600)"

#: An unknown query field is a problem of its own, so a harmless one sends a call to Flask.
BY_FLASK = "?dry_run=false"

#: Bodies, media type and what else is sent.
CALLS: dict[str, tuple[bytes, str]] = {
    "granted": (b'{"id": "a", "rdl": "%s"}' % RDL.encode(), "application/json"),
    "refused": (b'{"id": "a", "rdl": "%s"}' % TOO_MUCH.encode(), "application/json"),
    "with parameters": (
        b'{"id": "a", "rdl": "%s"}' % RDL.encode(),
        "Application/JSON; charset=utf-8",
    ),
    "not JSON": (b"{", "application/json"),
    "empty": (b"", "application/json"),
    "an unknown field": (b'{"rdl": "x", "tenent": "a"}', "application/json"),
    "another media type": (b"rdl", "text/plain"),
    "no media type": (b"{}", ""),
}


def answer_of(service: Service, query: str, body: bytes, media: str) -> tuple[Any, ...]:
    """Return status, headers and body of a post."""
    headers = {"X-Request-Id": "same"}
    url = f"/v1/reservations{query}"
    answer = service.client.post(url, data=body, content_type=media, headers=headers)
    return answer.status_code, sorted(answer.headers.items()), answer.get_data()


@pytest.mark.parametrize("name", CALLS)
def test_both_ways_answer_alike(open_service: Open, tmp_path: Any, name: str) -> None:
    """Status, headers and body do not show which way a call took."""
    body, media = CALLS[name]
    plain = open_service(database=f"sqlite:///{tmp_path}/plain.db")
    other = open_service(database=f"sqlite:///{tmp_path}/other.db")

    assert answer_of(plain, "", body, media) == answer_of(other, BY_FLASK, body, media)


def test_a_body_cut_short_changes_nothing(service: Service) -> None:
    """A client that hangs up within its body has asked for nothing."""
    body = b'{"id": "a", "rdl": "%s"}' % RDL.encode()
    answer = service.client.post(
        "/v1/reservations",
        data=body,
        content_type="application/json",
        environ_overrides={"CONTENT_LENGTH": str(len(body) + 1)},
    )

    assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")
    assert service.client.get("/v1/reservations/a").status_code == 404


@pytest.mark.parametrize(
    ("length", "status", "code"),
    [
        ("9" * 30, 413, "too_large"),
        ("-1", 400, "malformed"),
        ("1_0", 400, "malformed"),
        ("\u0661", 400, "malformed"),
    ],
)
def test_strange_lengths_are_left_to_flask(
    service: Service, length: str, status: int, code: str
) -> None:
    """A length that is no plain number is refused, and is no fault of the server."""
    answer = service.client.post(
        "/v1/reservations",
        environ_overrides={"CONTENT_LENGTH": length},
        data=b"{}",
        content_type="application/json",
    )

    assert (answer.status_code, answer.get_json()["code"]) == (status, code)


@pytest.mark.parametrize("query", ["", BY_FLASK])
def test_a_fault_is_a_problem(
    service: Service, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A fault in a view is answered 500 in the API's one shape, either way."""
    service.app.config["PROPAGATE_EXCEPTIONS"] = False

    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(reservations, "read_ask", fail)
    answer = service.client.post(f"/v1/reservations{query}", json={"rdl": RDL})

    assert (answer.status_code, answer.get_json()["code"]) == (500, "internal")
    assert answer.mimetype == "application/problem+json"


def test_headers_are_found_by_name() -> None:
    """A header is found by its lower-case name, and listed under it."""
    environ = {"HTTP_IF_MATCH": '"1"', "CONTENT_TYPE": "a/b", "PATH_INFO": "/"}
    headers = Headers(environ)

    assert headers.get("if-match") == '"1"'
    assert headers.get("if-none-match") is None
    assert dict(headers) == {"if-match": '"1"', "content-type": "a/b"}
    assert len(headers) == 2


@pytest.mark.parametrize("query", ["", BY_FLASK])
def test_pages_from_elsewhere_change_nothing(service: Service, query: str) -> None:
    """A browser names the page that asks; only this server's may change the Plan, any may read."""
    origins = {
        None: 201,
        "http://127.0.0.1:8080": 201,
        "http://localhost:8080": 201,
        "http://[::1]:8080": 201,
        "http://localhost:3000": 403,
        "http://127.0.0.1": 403,
        "http://localhost:x": 403,
        "https://example.org": 403,
        "http://127.0.0.1.example.org": 403,
        "null": 403,
        "http://[": 403,
    }
    for number, (origin, status) in enumerate(origins.items()):
        headers = {"Host": "localhost:8080"} | ({} if origin is None else {"Origin": origin})
        id_ = f"r{number}"

        asked = service.ask(id_, RDL, headers, query)

        assert asked.status_code == status, origin
        closed = service.client.post(f"/v1/reservations/{id_}/close", headers=headers)
        code = closed.get_json().get("code")
        assert code == ("foreign_origin" if status == 403 else None), origin
        assert service.client.get("/v1/reservations", headers=headers).status_code == 200, origin


@pytest.mark.parametrize("path", ["/v1/rdl/check", "/v1/plan", "/no/such/path"])
def test_only_names_of_this_machine_are_answered(open_service: Open, path: str) -> None:
    """A foreign Host is 421 on both ways, for reads too: a page may let its own name point here."""
    hosts = {
        "127.0.0.1:8080": 200,
        "localhost": 200,
        "LOCALHOST:1": 200,
        "[::1]:8080": 200,
        "agenda.test:8080": 200,
        "example.org": 421,
        "127.0.0.1.example.org": 421,
        "localhost.example.org:8080": 421,
        "[::1": 421,
    }
    service = open_service(names=("agenda.test",))
    method = "POST" if path == "/v1/rdl/check" else "GET"
    body = {"json": {"rdl": RDL}} if method == "POST" else {}
    own = 404 if path == "/no/such/path" else 200
    for host, status in hosts.items():
        answer = service.client.open(path, method=method, headers={"Host": host}, **body)

        assert answer.status_code == (own if status == 200 else 421), host
        if status == 421:
            assert answer.content_type == "application/problem+json"
            assert answer.get_json()["code"] == "foreign_host"
            assert host in answer.get_json()["detail"]


JOB = '{"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 60, "work": 60}}'
JOBS_TWICE = f'{{"graph": {{"jobs": {{"a": {JOB}, "b": {JOB}, "a": {JOB}}}, "edges": []}}}}'


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("reservations", f'{{"id": "r", "rdl": {JOBS_TWICE}}}', "a"),
        ("reservations", f'{{"id": "r", "rdl": "{RDL}", "id": "s"}}', "id"),
        ("reservations:batch", f'[{{"id": "r", "rdl": {JOBS_TWICE}}}]', "a"),
        ("reservations:batch", f'[{{"id": "r", "rdl": "{RDL}", "id": "s"}}]', "id"),
        ("rdl/check", f'{{"rdl": {JOBS_TWICE}}}', "a"),
        ("offers", f'{{"rdl": {JOBS_TWICE}}}', "a"),
        ("applications", '{"application": {"name": "a", "components": [], "name": "b"}}', "name"),
    ],
)
def test_a_key_given_twice_is_refused(service: Service, path: str, body: str, key: str) -> None:
    """Whoever names a job, a field or a component's key twice is notified, and nothing is kept."""
    answer = service.client.post(f"/v1/{path}", data=body, content_type="application/json")

    assert answer.status_code == 400, answer.get_json()
    assert f"{key!r} is given twice" in answer.get_json()["detail"]
    assert service.client.get("/v1/reservations").get_json()["reservations"] == []


def test_a_line_of_a_batch_that_gives_a_key_twice(service: Service) -> None:
    """It is refused alone, and its place is reported; other lines are granted."""
    lines = f'{{"id": "r", "rdl": "{RDL}"}}\n{{"id": "s", "rdl": {JOBS_TWICE}}}'

    answer = service.client.post(
        "/v1/reservations:batch", data=lines, content_type="application/x-ndjson"
    )

    good, bad = answer.get_json()["results"]
    assert [good["status"], bad["status"]] == [201, 400]
    assert bad["body"]["errors"][0]["pointer"] == "/1"


_MEMBERS = st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\:{,é', max_size=4)
_PAIRS = st.lists(st.tuples(st.text('ab"', max_size=2), _MEMBERS), max_size=5)


@given(_PAIRS, st.booleans())
def test_flat_objects_are_refused_just_where_a_key_stands_twice(
    pairs: list[tuple[str, Any]], ascii_only: bool
) -> None:
    """Whatever quotes and colons its texts have, counting quotes misses no key and invents none."""
    write = partial(json.dumps, ensure_ascii=ascii_only)
    raw = "{" + ", ".join(f"{write(name)}: {write(member)}" for name, member in pairs) + "}"
    once = len(dict(pairs)) == len(pairs)

    try:
        assert parse_json(raw.encode(), "") == dict(pairs)
        assert once
    except ApiProblemError:
        assert not once
