"""What /openapi.json says is what the routes take: patterns, links, examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from service.http.call import HEADERS
from tests.service.conftest import Open, Service
from tests.service.description import DESCRIPTION

RDL = "atom(<1 cpu>, 1, 10, 60, 600)"
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
}


def examples() -> Iterator[tuple[str, str, Any]]:
    """Yield the call, the name and the value of every example of a body."""
    for name, (_, _, operation) in OPERATIONS.items():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            for title, example in media.get("examples", {}).items():
                yield name, title, example["value"]


@pytest.mark.parametrize(("call", "title", "body"), list(examples()))
def test_examples_are_taken(open_service: Open, call: str, title: str, body: Any) -> None:
    """Every example fits its schema, and the server takes it as it is."""
    service = open_service(executors=True)
    method, path, operation = OPERATIONS[call]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate(body, {**schema, "components": DESCRIPTION["components"]})
    service.reserve("a")
    quota = {"type": "quota", "limit": {"cpu": 9}}
    assert service.client.put("/v1/policies/a", json=quota).status_code == 201

    answer = service.client.open(
        path.format(id="a", name="a"), method=method, json=body, headers={"If-Match": "*"}
    )

    assert answer.status_code // 100 == 2, answer.get_data(as_text=True)


def test_links_lead_to_calls() -> None:
    """A link names a call of this API and gives each part of its path, found in the answer."""
    links = [
        (link, answer)
        for _, _, operation in OPERATIONS.values()
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    for link, answer in links:
        _, path, _ = OPERATIONS[link["operationId"]]
        assert set(re.findall(r"\{(\w+)\}", path)) <= set(link["parameters"])
        assert "content" in answer
    linked = {link["operationId"] for link, _ in links}
    linkable = {name: path for name, (_, path, _) in OPERATIONS.items() if "/ui/" not in path}
    assert linked >= {name for name, path in linkable.items() if "{" in path}


def test_a_tag_is_taken_where_it_fits_its_schema(service: Service) -> None:
    """If-Match: what its schema forbids is 400, and nothing else is."""
    schema = jsonschema.Draft202012Validator(HEADERS["If-Match"])
    values = ['"1"', "*", 'W/"1"', '"a b"', "1", '""', '"1', "", '"1","2"']
    for number, value in enumerate(values):
        service.reserve(f"r{number}", "atom(<1 cpu>, 1, 1, 60, 60)")
        answer = service.client.delete(f"/v1/reservations/r{number}", headers={"If-Match": value})
        assert (answer.status_code != 400) == schema.is_valid(value), value


def test_a_key_is_taken_where_it_fits_its_schema(service: Service) -> None:
    """Idempotency-Key: what its schema forbids is 400, and nothing else is."""
    schema = jsonschema.Draft202012Validator(HEADERS["Idempotency-Key"])
    for number, value in enumerate(("k", "a b", "", "x" * 255, "x" * 256, "é")):
        status = service.ask(f"r{number}", RDL, {"Idempotency-Key": value}).status_code
        assert (status != 400) == schema.is_valid(value), value


def test_a_name_is_taken_where_it_fits_its_schema(service: Service) -> None:
    """Tenants: what the schema forbids is 400, and nothing else is."""
    _, _, operation = OPERATIONS["createReservation"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    schema = jsonschema.Draft202012Validator(body["properties"]["tenant"])
    values = [
        "ads",
        "Käse ☃",
        "a b",
        "",
        "x" * 128,
        "x" * 129,
        "a\nb",
        "a\u202eb",
        "\u200b",
        "\x7f",
    ]
    for number, value in enumerate(values):
        taken = service.ask(f"r{number}", RDL, tenant=value).status_code == 201
        assert taken == schema.is_valid(value), value


def test_an_unknown_reservation_is_404_whatever_revision_is_named(service: Service) -> None:
    """A tag that is no number is the revision of none: 404 if there is none, else 412."""
    service.reserve("a")
    headers = {"If-Match": '"none"'}

    statuses = [
        service.client.post(f"/v1/reservations/{id_}/close", headers=headers).status_code
        for id_ in ("nobody", "a")
    ]

    assert statuses == [404, 412]


def test_a_batch_takes_what_its_schema_takes(service: Service) -> None:
    """Each entry is answered on its own: one that is no request is 400 in its result."""
    schema = OPERATIONS["createReservations"][2]["requestBody"]["content"]["application/json"]
    body = [{"rdl": RDL}, {}, 7]
    jsonschema.validate(body, schema["schema"])

    answer = service.client.post("/v1/reservations:batch", json=body)

    assert answer.status_code == 200
    assert [one["status"] for one in answer.get_json()["results"]] == [201, 400, 400]


def test_an_event_is_described() -> None:
    """The schema of a stream describes one event of it, as OpenAPI before 3.2 has it."""
    content = OPERATIONS["watchOptimization"][2]["responses"]["200"]["content"]
    schema = content["text/event-stream"]["schema"]

    jsonschema.validate({"event": "ended", "data": "{}"}, schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"event": "other", "data": "{}"})


def schemas(here: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema in a part of the description that has a default."""
    if isinstance(here, dict):
        if "default" in here and "type" in here:
            yield here
        here = list(here.values())
    if isinstance(here, list):
        for one in here:
            yield from schemas(one)


def test_a_default_fits_its_schema() -> None:
    """So a client may send it."""
    found = list(schemas(DESCRIPTION))
    assert found
    for schema in found:
        jsonschema.validate(schema["default"], schema)
