"""Applications that grow into what is idle, behind the API."""

from __future__ import annotations

from typing import Any

from tests.service.applying import shown_of, submit_one
from tests.service.conftest import Service


def _application(core: int, elastic: int, **worker: Any) -> dict[str, Any]:
    parts = [{"name": "m", "core": True, "count": core, "resources": {"cpu": 1}}]
    if elastic:
        more = {"name": "w", "core": False, "count": elastic, "resources": {"cpu": 1}}
        parts.append(more | worker)
    return {"name": "app", "components": parts}


def _worker(service: Service, id_: str) -> tuple[int, int, int]:
    service.runtime.dispatcher.tick()
    part = shown_of(service, id_)["components"][1]
    return part["wanted"], part["grown"], part["assigned"]


def test_an_application_grows_and_releases(still: Service) -> None:
    """Ten cores hold it and as much again as its policy says; who comes takes its room at once."""
    assert submit_one(still, "a", _application(1, 1, grow=30)).status_code == 201
    assert _worker(still, "a") == (1, 3, 4)
    kept = still.client.get("/v1/applications/a").get_json()["application"]
    assert kept["components"][1]["grow"] == 30
    words = still.client.get("/v1/dispatch/policy").get_json()
    still.client.put("/v1/dispatch/policy", json=words | {"grow": "max_parallelism"})
    assert _worker(still, "a") == (1, 8, 9)
    assert submit_one(still, "b", _application(6, 0)).status_code == 201
    assert _worker(still, "a") == (1, 2, 3)
    still.client.put("/v1/dispatch/policy", json=words | {"grow": "none"})
    assert _worker(still, "a") == (1, 0, 1)


def test_a_core_component_cannot_grow(still: Service) -> None:
    """The document is refused, and the answer says where and what would be right."""
    document = _application(1, 1)
    document["components"][0]["grow"] = 2
    refused = submit_one(still, "a", document)
    assert refused.status_code == 400
    (error,) = refused.get_json()["errors"]
    assert error["pointer"] == "/application/components/0/grow"
    assert "core = false" in error["fix"]
