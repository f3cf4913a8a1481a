"""The bound alongside the live Plan: alone, and alongside an answer on request."""

from __future__ import annotations

from typing import Any

import pytest

from planner.agent import BoundError
from service.plan_bounds import PlanBounds
from tests.service.conftest import Service

#: All ten cores for half of the two hours in which it may run: two of them fit, and no third.
_HALF = "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 2h)"


def _bound(service: Service) -> Any:
    answer = service.client.get("/v1/plan/bound")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def _ask(service: Service, id_: str, rdl: str = _HALF, query: str = "") -> Any:
    body = {"id": id_, "rdl": rdl, "tenant": "ads"}
    return service.client.post(f"/v1/reservations{query}", json=body)


def test_an_empty_plan_is_as_good_as_it_can_be(service: Service) -> None:
    """Nothing is asked, so no plan has more value; there is no share of nothing."""
    found = _bound(service)
    assert (found["value"], found["bound"], found["gap"], found["better"]) == (0, 0, 0, None)


def test_all_that_is_held_needs_no_proof(service: Service) -> None:
    """Where no one waits the bound is the value."""
    _ask(service, "a")
    found = _bound(service)
    assert found["proof"] == "all"
    assert found["value"] == found["bound"] == found["asked"] > 0
    assert (found["held"], found["waiting"], found["better"]) == (1, 0, 0)


def test_a_full_cluster_is_proven_full_with_a_request_left_out(service: Service) -> None:
    """Three ask for all cores of half the time each: amounts alone prove that two are the most."""
    codes = [_ask(service, id_).status_code for id_ in "abc"]
    assert codes == [201, 201, 409]
    found = _bound(service)
    assert (found["held"], found["waiting"]) == (2, 1)
    assert found["asked"] == pytest.approx(1.5 * found["value"])
    assert found["better"] == pytest.approx(0, abs=1e-6)


def test_capacity_that_no_one_may_use_leaves_a_bound_above_the_value(service: Service) -> None:
    """Who was refused for one standing in the way could come in if that one moved."""
    _ask(service, "a", "window(atom(<1 cpu>, 10, 10, 30m, 5h), 0, 2h)")
    first = service.client.get("/v1/reservations/a").get_json()["atoms"][0]["allocation"][0][0]
    at = f"{first / 60:g}m"
    rdl = f"window(atom(<1 cpu>, 10, 10, 30m, 5h), {at}, {first / 60 + 30:g}m)"
    assert _ask(service, "b", rdl).status_code == 409
    found = _bound(service)
    assert found["better"] == pytest.approx(1)


@pytest.mark.parametrize("id_", ["a", "c"])
def test_an_answer_tells_the_bound_on_request(service: Service, id_: str) -> None:
    """Beside a promise and alongside a refusal, as of the Plan that shows it."""
    if id_ == "c":
        _ask(service, "a")
        _ask(service, "b")
    told = _ask(service, id_, query="?bound=true").get_json()
    assert told["plan_bound"] == _bound(service)
    assert "plan_bound" not in _ask(service, "other").get_json()


def test_a_batch_tells_it_once(service: Service) -> None:
    """One bound for the whole batch, since it is one of the whole Plan."""
    body = [{"id": id_, "rdl": _HALF, "tenant": "ads"} for id_ in "abc"]
    told = service.client.post("/v1/reservations:batch?bound=true", json=body).get_json()
    assert told["plan_bound"] == _bound(service)


def test_a_request_that_cannot_be_read_has_no_bound(service: Service) -> None:
    """A malformed body is a plain problem."""
    told = _ask(service, "a", "window(", query="?bound=true")
    assert told.status_code == 400
    assert "plan_bound" not in told.get_json()


def test_what_is_over_counts_no_more(service: Service) -> None:
    """Neither what was held until now, nor what was refused and has no window left."""
    for id_ in "abc":
        _ask(service, id_)
    service.clock.at_ms += 7_200_000
    _ask(service, "d", "window(atom(<1 cpu>, 1, 1, 1h, 1h), 2h, 4h)")
    found = _bound(service)
    assert (found["held"], found["waiting"]) == (1, 0)


def test_what_has_begun_keeps_its_leases(service: Service) -> None:
    """In the middle of its lease a holder of all cores leaves no one capacity."""
    _ask(service, "a", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)")
    service.clock.at_ms += 1_800_000
    _ask(service, "b", "window(atom(<1 cpu>, 5, 5, 20m, 100m), 30m, 1h)")
    found = _bound(service)
    assert (found["held"], found["waiting"]) == (1, 1)
    assert found["bound"] == pytest.approx(found["value"])


def test_the_version_is_a_tag(service: Service) -> None:
    """Who knows the bound of this version is reported that nothing is new."""
    tag = service.client.get("/v1/plan/bound").headers["ETag"]
    again = service.client.get("/v1/plan/bound", headers={"If-None-Match": tag})
    assert (again.status_code, again.headers["ETag"]) == (304, tag)


def test_a_bound_below_the_plan_is_reported_as_none(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the bound takes no promise back: the member is null, the call alone fails."""

    def fail(_: PlanBounds) -> None:
        raise BoundError("the bound lies below the Plan")

    monkeypatch.setattr(PlanBounds, "newest", fail)
    told = _ask(service, "a", query="?bound=true")
    assert (told.status_code, told.get_json()["plan_bound"]) == (201, None)
    assert service.client.get("/v1/plan/bound").status_code == 500
