"""/v1/policies: read with their use, set and removed one by one."""

from __future__ import annotations

from typing import Any

import pytest

from service.access.user import Role, User
from service.problems import ApiProblemError
from service.resources import policies
from tests.service.conftest import Service

PATH = "/v1/policies/team"
QUOTA = {"type": "quota", "tenant": "ads", "limit": {"cpu": 4}}
GANG = "window(atom(<1 cpu>, {n}, {n}, 600, {w}), 0, 7200)"


def _put(service: Service, body: Any, **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.put(PATH, json=body, headers=given)


def test_a_policy_is_added_counted_replaced_and_removed(service: Service) -> None:
    added = _put(service, QUOTA)
    assert (added.status_code, added.get_json()["policy"]) == (201, {**QUOTA, "name": "team"})
    assert service.ask("a", GANG.format(n=5, w=3000), tenant="ads").status_code == 409
    service.reserve("b", GANG.format(n=3, w=1800), tenant="ads")

    shown = service.client.get(PATH)
    (use,) = shown.get_json()["use"]
    assert (use["tenant"], use["resource"], use["unit"]) == ("ads", "cpu", "cores")
    assert (use["limit"], use["peak"], use["applies"]) == (4, 3, True)

    more = {**QUOTA, "limit": {"cpu": 8}}
    assert _put(service, more, If_Match=shown.headers["ETag"]).status_code == 200
    service.reserve("c", GANG.format(n=5, w=3000), tenant="ads")
    assert service.client.delete(PATH).status_code == 204
    assert service.client.get(PATH).status_code == 404
    assert service.client.get("/v1/policies").get_json()["policies"] == []


def test_a_change_of_a_policy_that_has_changed_meanwhile_is_refused(service: Service) -> None:
    first = _put(service, QUOTA).headers["ETag"]
    assert _put(service, {**QUOTA, "limit": {"cpu": 5}}).status_code == 200
    stale = _put(service, QUOTA, If_Match=first)
    assert (stale.status_code, stale.get_json()["code"]) == (412, "stale_revision")
    gone = service.client.delete(PATH, headers={"If-Match": first})
    assert (gone.status_code, gone.get_json()["code"]) == (412, "stale_revision")
    assert service.client.get(PATH).get_json()["policy"]["limit"] == {"cpu": 5}


def test_faults_point_into_the_policy(service: Service) -> None:
    """All of them in one answer; the policies that are there stay."""
    _put(service, QUOTA)
    wrong = _put(service, {**QUOTA, "limt": {"cpu": 1}, "tenant": 3})
    assert wrong.status_code == 400
    assert {one["pointer"] for one in wrong.get_json()["errors"]} == {"/limt", "/tenant"}
    other = _put(service, {**QUOTA, "name": "other"})
    assert [one["pointer"] for one in other.get_json()["errors"]] == ["/name"]
    assert _put(service, [1]).status_code == 400
    assert service.client.get(PATH).get_json()["policy"]["limit"] == {"cpu": 4}


def test_an_unknown_policy_is_not_found(service: Service) -> None:
    assert service.client.get(PATH).status_code == 404
    assert service.client.delete(PATH).status_code == 404


def test_what_is_not_changed_of_the_cluster_stays(service: Service) -> None:
    before = service.client.get("/v1/cluster").get_json()
    _put(service, QUOTA)
    after = service.client.get("/v1/cluster").get_json()
    assert after.pop("policies") == [{**QUOTA, "name": "team"}]
    assert after == before


def test_a_user_sees_policies_and_use_of_its_own_tenants(service: Service) -> None:
    """Policies on each tenant are shown with the user's own account."""
    _put(service, {"type": "quota", "tenant": "*", "limit": {"cpu": 6}})
    service.client.put("/v1/policies/web", json={**QUOTA, "tenant": "web"})
    service.reserve("a", GANG.format(n=3, w=1800), tenant="ads")
    service.reserve("b", GANG.format(n=2, w=1200), tenant="web")
    ann = User("ann", Role.USER, frozenset({"ads"}))
    (seen,) = policies.list_policies(service.runtime, ann).policies
    assert seen.name == "team"
    assert [(use.tenant, use.peak) for use in seen.use] == [("ads", 3)]
    with pytest.raises(ApiProblemError, match="not_found"):
        policies.get_policy(service.runtime, ann, "web")


def test_a_new_policy_has_a_name_that_a_path_can_hold(service: Service) -> None:
    answer = service.client.put("/v1/policies/two words", json=QUOTA)
    assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")


def test_a_guarantee_that_was_lent_is_taken_back(service: Service) -> None:
    """The borrower is degraded and told with offers; the quota shows what it had borrowed."""
    for tenant, own in (("ads", 2), ("ml", 3)):
        quota = {
            "type": "quota",
            "tenant": tenant,
            "guarantee": {"cpu": own},
            "cohort": "lab",
            "lend": "2h",
        }
        answer = service.client.put(f"/v1/policies/{tenant}", json=quota)
        assert answer.status_code == 201, answer.get_data(as_text=True)
    gang = "window(atom(<1 cpu>, {n}, {n}, 1800, {work}), 0, 1800)"
    service.reserve("borrowed", gang.format(n=5, work=9000), tenant="ads")
    (use,) = service.client.get("/v1/policies/ads").get_json()["use"]
    assert (use["guarantee"], use["peak"], use["limit"]) == (2.0, 5.0, 5.0)
    asked = {"tenant": "ml", "rdl": gang.format(n=3, work=5400)}
    refused = service.ask("back", **asked)
    assert refused.status_code == 409
    assert "cohort lab" in refused.get_json()["refusal"]["detail"]
    rule = {"type": "displacement", "tenant": "ml"}
    assert service.client.put("/v1/policies/may", json=rule).status_code == 201
    assert service.ask("again", **asked).status_code == 201
    lost = service.client.get("/v1/reservations/borrowed").get_json()
    assert lost["state"] == "degraded"
    assert "took back what is guaranteed by ml" in lost["degradation"]["reason"]
    assert lost["degradation"]["offers"]
