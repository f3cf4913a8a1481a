"""Applications submitted, and what the API shows of them."""

from __future__ import annotations

from typing import Any

from tests.service.conftest import Service


def an_application(core: int = 1, elastic: int = 0, **more: Any) -> dict[str, Any]:
    """Return an application of `core` and `elastic` components of one core each."""
    components = [{"name": "m", "count": core, "resources": {"cpu": 1}}]
    if elastic:
        worker = {"name": "w", "count": elastic, "core": False, "resources": {"cpu": 1}}
        components.append(worker)
    components[0]["core"] = True
    return {"name": "app", "components": components, **more}


def submit_one(service: Service, id_: str, application: dict[str, Any], **more: Any) -> Any:
    """Submit an application; return the answer."""
    body = {"id": id_, "application": application, **more}
    return service.client.post("/v1/applications", json=body)


def shown_of(service: Service, id_: str) -> dict[str, Any]:
    """Return an application as the API shows it."""
    found: dict[str, Any] = service.client.get(f"/v1/applications/{id_}").get_json()
    return found


def rows_of(service: Service, query: str = "") -> list[dict[str, Any]]:
    """Return the rows of the assignments."""
    found: list[dict[str, Any]] = service.client.get(f"/v1/assignments{query}").get_json()["rows"]
    return found
