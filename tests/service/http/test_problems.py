"""One error shape for the whole API, and only the documented codes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from werkzeug.test import TestResponse

from planner.agents import agent_named
from planner.placement import Code
from service.app import create_app
from service.commits.replica import open_replica
from service.http.route import Route
from service.http.specification import codes_of
from service.problems import CODES, CONTENT_TYPE
from service.resources.table import ROUTES
from service.runtime import Runtime
from service.store.host_clock import HostClock
from tests.service.conftest import Open, Service
from tests.service.description import DESCRIPTION

DOCS = Path(__file__).parents[3] / "docs" / "api.md"
SCHEMA = {"$ref": "#/components/schemas/Problem", "components": DESCRIPTION["components"]}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ATOM = "atom(<1 cpu>,1,1,60,60)"


def assert_problem(answer: TestResponse) -> dict[str, Any]:
    """Check the one shape; return the body."""
    assert answer.content_type == "application/problem+json", answer.get_data(as_text=True)
    body = answer.get_json()
    VALIDATOR.validate(body)
    status, title = CODES[body["code"]]
    assert (answer.status_code, body["title"]) == (status, title)
    assert body["type"] == f"/docs#problem-{body['code']}"
    assert body["detail"]
    return body  # type: ignore[no-any-return]


def assert_own_form(answer: TestResponse, route: Route) -> None:
    """Check a failure of a route that has a form of its own for them."""
    assert route.failure is not None
    schema = {**route.failure.schema, "components": SCHEMA["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.get_json())
    described = DESCRIPTION["paths"][route.path][route.method.lower()]["responses"]
    assert str(answer.status_code) in described


def failures(service: Service, route: Route) -> Iterator[TestResponse]:
    """Call a route in every wrong way that its entry in the table allows."""
    client, path = service.client, route.path.replace("{id}", "no-such-id")
    method = route.method
    for wrong in {"GET", "POST", "PUT", "DELETE", "PATCH"} - methods_of(route.path):
        yield client.open(path, method=wrong)
    if route.query or not route.live:
        yield client.open(f"{path}?no_such_parameter=1", method=method, json=sample_of(route))
    for field in route.query:
        if field.schema.get("type") != "string" or "enum" in field.schema:
            yield client.open(f"{path}?{field.name}=%00", method=method, json=sample_of(route))
    if route.body is None:
        return
    headers = {"If-Match": '"1"'}
    for raw in (b"", b"{", b"[1", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000):
        yield client.open(
            path, method=method, data=raw, content_type="application/json", headers=headers
        )
    yield client.open(path, method=method, json={"no_such_field": 1}, headers=headers)
    yield client.open(path, method=method, data=b"x", content_type="text/plain", headers=headers)
    yield client.open(path, method=method, headers=headers)
    large = b'{"rdl": "' + b"x" * service.runtime.config.max_body + b'"}'
    yield client.open(
        path, method=method, data=large, content_type="application/json", headers=headers
    )


def methods_of(path: str) -> set[str]:
    """Return the methods of a path."""
    return {route.method for route in ROUTES if route.path == path}


def sample_of(route: Route) -> Any:
    """Return a body that the route reads, None if it reads none."""
    if route.body is None:
        return None
    return [{"rdl": ATOM}] if route.path.endswith(":batch") else {"rdl": ATOM}


def test_every_failure_has_the_one_shape(open_service: Open) -> None:
    """Whatever is wrong with a call, it answers a problem, with a code its description lists."""
    service = open_service(max_body=20_000)
    faults = {}
    for route in ROUTES:
        try:
            for answer in failures(service, route):
                assert_failure(answer, route)
        except AssertionError as error:
            faults[f"{route.method} {route.path}"] = str(error)
    assert faults == {}


def assert_failure(answer: TestResponse, route: Route) -> None:
    """Hold an answer against the form of problems, or that of the route."""
    if route.failure is not None and answer.content_type != CONTENT_TYPE:
        assert_own_form(answer, route)
        return
    body = assert_problem(answer)
    if answer.request.method == route.method:
        assert body["code"] in codes_of(route)


def test_a_body_without_a_length_is_taken_whole_or_not_at_all(open_service: Open) -> None:
    """A chunked batch longer than the limit is 413; none of its first lines is reserved."""
    service = open_service(max_body=1000)
    line = b'{"rdl": "atom(<1 cpu>, 1, 10, 60, 600)"}\n'
    for count, status in ((4, 200), (100, 413)):
        answer = service.client.post(
            "/v1/reservations:batch",
            input_stream=io.BytesIO(line * count),
            headers={"Content-Type": "application/x-ndjson"},
            environ_overrides={"wsgi.input_terminated": True},
        )
        assert answer.status_code == status
    assert_problem(answer)
    assert len(service.client.get("/v1/reservations").get_json()["reservations"]) == 4


def test_paths_that_are_not_there(service: Service) -> None:
    """Unknown paths are problems as well, however they are written."""
    for path in ("/v1", "/v1/", "/v1//plan", "/v1/reservations/", "/v2/plan", "/%00"):
        assert assert_problem(service.client.get(path))["code"] == "not_found"


def test_failures_of_the_server(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is 500 internal, and says nothing of what broke."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("service.resources.reservation_pages.one", broken)
    service.app.config["PROPAGATE_EXCEPTIONS"] = False

    answer = service.client.get("/v1/reservations/r1")

    assert assert_problem(answer)["code"] == "internal"
    assert "secret" not in answer.get_data(as_text=True)


def test_a_failing_agent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that breaks is 500 for those who asked, and the server continues."""

    class Broken:
        def plan(self, *_: object) -> None:
            raise ZeroDivisionError

    monkeypatch.setattr("service.commits.screening.agent_named", lambda _: Broken())
    assert assert_problem(service.ask("r1"))["code"] == "internal"
    monkeypatch.setattr("service.commits.screening.agent_named", agent_named)

    service.reserve("r1")


def test_not_ready(open_service: Open) -> None:
    """Before the Plan is replayed everything but liveness is 503 with Retry-After."""
    first = open_service(replay_wait_s=0.0)
    config, clock = first.runtime.config, first.clock
    runtime = Runtime(config, open_replica(config, clock), HostClock(clock))
    client = create_app(runtime.config, runtime).test_client()

    answers = {route: client.get(route) for route in ("/readyz", "/v1/plan", "/healthz")}
    runtime.start().wait_ready(120)
    ready = client.get("/readyz")
    runtime.close()

    assert assert_problem(answers["/readyz"])["code"] == "unavailable"
    assert assert_problem(answers["/v1/plan"])["code"] == "unavailable"
    assert answers["/v1/plan"].headers["Retry-After"] == "1"
    assert (answers["/healthz"].status_code, ready.status_code) == (200, 200)


def test_too_busy(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change whose turn does not come in time is 503."""
    service = open_service(plan_timeout_s=0.0)

    assert assert_problem(service.ask("r1"))["code"] == "unavailable"


def test_stopped(service: Service) -> None:
    """A change that comes while the server stops is 503."""
    service.runtime.close()

    with_plan = service.client.post("/v1/reservations", json={"rdl": ATOM})

    assert assert_problem(with_plan)["code"] == "unavailable"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("If-Match", "1"),
        ("If-Match", '"1", "2"'),
        ("If-Match", '""'),
        ("Idempotency-Key", ""),
        ("Idempotency-Key", "x" * 256),
        ("Idempotency-Key", "a b"),
    ],
)
def test_headers(service: Service, header: str, value: str) -> None:
    """A header that cannot be read is malformed, and named."""
    if header == "If-Match":
        answer = service.client.delete("/v1/reservations/r1", headers={header: value})
    else:
        answer = service.ask("r1", headers={header: value})

    body = assert_problem(answer)

    assert (body["code"], body["errors"][0]["pointer"]) == ("malformed", header)


def test_codes_of_planning_are_all_there() -> None:
    """Every code that planning can give has a status and a title."""
    assert {str(code) for code in Code} <= set(map(str, CODES))


def test_documentation_lists_exactly_the_codes() -> None:
    """docs/api.md has one row a code, with its status, and no other."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \|", DOCS.read_text(), re.MULTILINE)

    assert rows == [(str(code), str(status)) for code, (status, _) in CODES.items()]


def test_documentation_lists_exactly_the_calls() -> None:
    """docs/api.md has one row a call, and no other."""
    rows = re.findall(r"^\| `([A-Z]+) (/[^ `?]*)", DOCS.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted((route.method, route.path) for route in ROUTES)


def test_description_is_valid_json(service: Service) -> None:
    """/openapi.json is the description of the route table, and /docs names every call."""
    served = service.client.get("/openapi.json").get_json()
    answer = service.client.get("/docs")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = answer.get_data(as_text=True)

    assert served == json.loads(json.dumps(DESCRIPTION))
    assert served["openapi"].startswith("3.1")
    for route in ROUTES:
        assert f"{route.method} {route.path}" in page
        assert route.method.lower() in served["paths"][route.path]
    for schema in served["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
