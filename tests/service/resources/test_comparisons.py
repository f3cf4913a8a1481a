"""Comparisons through the API: in a process of their own, on the Plan or on lines that are sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patience import eventually
from tests.service.conftest import Service

_PATH = "/v1/comparisons"
_LINES = [
    {"id": f"r{number}", "rdl": "window(atom(<1 cpu>, 1, 5, 10m, 50m), 0, 1h)", "tenant": "ads"}
    for number in range(4)
]


def _start(service: Service, **body: Any) -> str:
    answer = service.client.post(_PATH, json={"time_limit": 10, **body})
    assert answer.status_code == 202, answer.get_data(as_text=True)
    id_: str = answer.get_json()["id"]
    assert answer.headers["Location"] == f"{_PATH}/{id_}"
    return id_


def _ended(service: Service, id_: str) -> dict[str, Any]:
    def shown() -> dict[str, Any]:
        body: dict[str, Any] = service.client.get(f"{_PATH}/{id_}").get_json()
        return body

    return eventually(shown, lambda body: body["state"] not in ("running", "stopping"))


def test_agents_are_set_side_by_side_on_the_plan(service: Service) -> None:
    """All requests that the Plan remembers are planned from scratch, and nothing is changed."""
    for line in _LINES:
        service.ask(line["id"], line["rdl"], tenant="ads")
    before = service.client.get("/v1/plan").headers["ETag"]
    found = _ended(service, _start(service, agents=["gree", "earliest"]))
    assert found["state"] == "finished", found["reason"]
    result = found["result"]
    assert result["requests"] == len(_LINES)
    assert [(one["agent"], one["basis"]) for one in result["agents"]] == [
        ("as it is", "plan"),
        ("gree, by arrival", "arrival"),
        ("earliest, by arrival", "arrival"),
        ("gree", "hindsight"),
        ("earliest", "hindsight"),
    ]
    stands, bound = result["agents"][0]["metrics"], service.client.get("/v1/plan/bound").get_json()
    assert [stands[name] for name in ("value", "bound", "gap")] == pytest.approx(
        [bound[name] for name in ("value", "bound", "gap")]
    )
    assert result["baseline"] == "gree"
    skylines = result["skylines"]
    assert (skylines["from"], skylines["tenants"]) == (0, ["ads"])
    held = [
        sum(skylines["agents"][name]["cpu"][0]) * skylines["step"] for name in ("gree", "earliest")
    ]
    assert held == pytest.approx([4 * 50 * 60] * 2), "each Plan holds the work of all four"
    assert service.client.get("/v1/plan").headers["ETag"] == before


def test_lines_that_are_sent_are_compared(service: Service) -> None:
    """A workload in the body is planned on the server's cluster; it is not shown again."""
    id_ = _start(service, agents=["gree"], workload=_LINES)
    found = _ended(service, id_)
    assert found["asked"]["workload_lines"] == len(_LINES)
    assert "workload" not in found["asked"]
    assert found["result"]["requests"] == len(_LINES)


def test_one_is_stopped_and_forgotten(service: Service) -> None:
    """A second at once is 429; stopped it ends; forgotten it is gone, and no optimisation."""
    id_ = _start(service, agents=["gree", "exact"], workload=_LINES, time_limit=60)
    assert service.client.post(_PATH, json={}).status_code == 429
    assert service.client.get(f"/v1/optimizations/{id_}").status_code == 404
    assert service.client.get("/v1/optimizations").get_json()["optimizations"] == []
    listed = service.client.get(_PATH).get_json()["comparisons"]
    assert [one["id"] for one in listed] == [id_]
    assert service.client.post(f"{_PATH}/{id_}/stop").status_code == 202
    assert _ended(service, id_)["state"] in ("stopped", "finished")
    assert service.client.delete(f"{_PATH}/{id_}").status_code == 204
    assert service.client.get(f"{_PATH}/{id_}").status_code == 404


def test_what_cannot_be_compared_is_an_error(service: Service) -> None:
    """Unknown agents, agents named twice, and each bad line, all at once."""
    lines = [{"rdl": "atom(<1 cpu>, 1, 1, 60, 60)"}, _LINES[0], _LINES[0]]
    body = {"agents": ["gree", "gree", "greee"], "workload": lines}
    answer = service.client.post(_PATH, json=body)
    assert answer.status_code == 400
    pointers = [error["pointer"] for error in answer.get_json()["errors"]]
    assert pointers[:2] == ["/agents/1", "/agents/2"]
    assert pointers[-1] == "/workload/2"
    assert any(one.startswith("/workload/0") for one in pointers)
