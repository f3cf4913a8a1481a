"""`GET /v1/policies/{name}/use`, and metrics of policies: the use of limits over time."""

from __future__ import annotations

from typing import Any

import pytest

from service.access.user import Role, User
from service.problems import ApiProblemError
from service.resources.policy_series import PolicyTimeQuery, get_policy_use
from tests.service.conftest import Service

_GANG = "window(atom(<1 cpu>, {n}, {n}, 10m, {n}0m), {start}m, {end}m)"


def _reserve(service: Service, id_: str, tenant: str, n: int, start: int) -> None:
    """Reserve `n` cores for ten minutes from a minute on."""
    service.reserve(id_, _GANG.format(n=n, start=start, end=start + 10), tenant=tenant)


def _use(service: Service, name: str, query: str) -> list[dict[str, Any]]:
    answer = service.client.get(f"/v1/policies/{name}/use?{query}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    found: list[dict[str, Any]] = answer.get_json()["use"]
    return found


def test_the_most_of_each_bucket_is_told_by_account(still: Service) -> None:
    """The fullest account first; a bucket has the most of its steps."""
    still.client.put(
        "/v1/policies/each", json={"type": "quota", "tenant": "*", "limit": {"cpu": 6}}
    )
    _reserve(still, "a", "ads", 3, 10)
    _reserve(still, "b", "ads", 1, 15)
    _reserve(still, "c", "ml", 2, 30)
    use = _use(still, "each", "from=0&to=40m&step=10m")
    assert [(one["tenant"], one["limit"], one["used"]) for one in use] == [
        ("ads", 6, [0, 4, 1, 0]),
        ("ml", 6, [0, 0, 0, 2]),
    ]
    assert all(all(one["applies"]) for one in use)


def test_a_quota_that_lends_is_limited_to_its_guarantee_further_ahead(still: Service) -> None:
    for tenant, own in (("ads", 2), ("ml", 3)):
        quota = {"type": "quota", "tenant": tenant, "guarantee": {"cpu": own}, "cohort": "lab",
                 "lend": "20m"}  # fmt: skip
        answer = still.client.put(f"/v1/policies/{tenant}", json=quota)
        assert answer.status_code == 201, answer.get_data(as_text=True)
    _reserve(still, "a", "ads", 4, 5)
    (use,) = _use(still, "ads", "from=0&to=40m&step=10m")
    assert (use["guarantee"], use["limit"]) == (2, 5)
    assert use["limits"] == [5, 5, 2, 2]
    assert use["used"] == [4, 4, 0, 0]


def test_a_number_of_reservations_falls_as_they_end(still: Service) -> None:
    still.client.put("/v1/policies/many", json={"type": "limits", "tenant": "*", "max_count": 5})
    _reserve(still, "a", "ads", 1, 0)
    _reserve(still, "b", "ads", 1, 20)
    (use,) = _use(still, "many", "from=0&to=40m&step=10m")
    assert (use["resource"], use["unit"], use["limits"]) == (None, "reservations", [5] * 4)
    assert use["used"] == [2, 1, 1, 0]


def test_an_average_is_that_of_the_window_which_ends_there(still: Service) -> None:
    """Four cores for ten minutes are two on average over twenty, once the window holds them all."""
    policy = {"type": "capacity_over_time", "tenant": "ads", "average": 0.5, "window": "20m"}
    answer = still.client.put("/v1/policies/avg", json=policy)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    _reserve(still, "a", "ads", 4, 10)
    (cpu,) = [
        one
        for one in _use(still, "avg", "from=0&to=50m&step=1m")
        if one["resource"] == "cpu" and one["measure"] == "average"
    ]
    assert cpu["window"] == "20m"
    assert cpu["used"][9] == 0
    assert cpu["used"][14] == pytest.approx(1)
    assert cpu["used"][19:30] == pytest.approx([2] * 11)
    assert cpu["used"][39] == 0


def test_a_user_sees_its_own_tenants(still: Service) -> None:
    for tenant in ("ads", "web"):
        quota = {"type": "quota", "tenant": tenant, "limit": {"cpu": 4}}
        still.client.put(f"/v1/policies/{tenant}", json=quota)
    ann = User("ann", Role.USER, frozenset({"ads"}))
    shown = get_policy_use(still.runtime, ann, "ads", PolicyTimeQuery())
    assert [one.tenant for one in shown.use] == ["ads"]
    with pytest.raises(ApiProblemError, match="not_found"):
        get_policy_use(still.runtime, ann, "web", PolicyTimeQuery())
