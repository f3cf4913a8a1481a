"""What is told of a change of machines when others adapt or change the Plan meanwhile."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.adaptation.result import join_adaptations
from service.calls.cluster import outages
from service.planning import adaptation as adapting
from service.planning.adaptation import PlanAdapter
from tests.patience import eventually
from tests.service.conftest import Open, Service

GANG = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 7200)"
_LOSS = {"machines": "plain", "count": 5, "end": "+2h"}


def _adapter(service: Service) -> PlanAdapter:
    return service.runtime.planner._runner._adapter


def _between(monkeypatch: pytest.MonkeyPatch, other: Service) -> None:
    """Let another process adapt between a change of machines and the answer to it."""
    adapted = outages._adapt

    def later(*args: Any) -> Any:
        _adapter(other).run()
        return adapted(*args)

    monkeypatch.setattr("service.calls.cluster.outages._adapt", later)


def _fates(answer: Any) -> list[tuple[str, str]]:
    return [(one["id"], one["fate"]) for one in answer.get_json()["affected"]]


@pytest.mark.usefixtures("unasked")
def test_the_answer_tells_what_another_process_adapted(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processes the other adapts first: the client is told who is affected all the same."""
    one, other = open_service(tick_s=0), open_service(tick_s=0)
    one.reserve("a", GANG)
    _between(monkeypatch, other)
    lost = one.client.post("/v1/cluster/outages", json=_LOSS)
    assert _fates(lost) == [("a", "degraded")]
    assert lost.get_json()["dropped"] > 0
    back = one.client.delete(f"/v1/cluster/outages/{lost.get_json()['outage']['id']}")
    assert _fates(back) == [("a", "restored")]


@pytest.mark.usefixtures("unasked")
def test_the_answer_is_sought_until_the_plan_takes_it(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six times the reservation is renegotiated before the adapter can commit; it is told still."""
    one, other = open_service(tick_s=0), open_service(tick_s=0)
    one.reserve("a", GANG)
    commit, lost = adapting.commit_jointly, []

    def renegotiated(*args: Any, **more: Any) -> Any:
        if len(lost) < 6:
            lost.append(1)
            asked = {"rdl": GANG, "weight": 1 + len(lost)}
            answer = other.client.put("/v1/reservations/a", json=asked, headers={"If-Match": "*"})
            assert answer.status_code == 200, answer.get_data(as_text=True)
        return commit(*args, **more)

    monkeypatch.setattr("service.planning.adaptation.commit_jointly", renegotiated)
    answer = one.client.post("/v1/cluster/outages", json=_LOSS)
    assert len(lost) == 6
    assert _fates(answer) == [("a", "degraded")]


def test_machines_that_come_back_end_the_rest_of_the_adapter(service: Service) -> None:
    """After PUT /v1/cluster gave machines back a reservation is whole at once, not after a rest."""
    service.reserve("a", GANG)
    cluster = service.client.get("/v1/cluster").get_json()
    fewer = {**cluster, "machines": [{**cluster["machines"][0], "count": 5}]}
    assert service.client.put("/v1/cluster", json=fewer).status_code == 200

    def state() -> object:
        return service.client.get("/v1/reservations/a").get_json()["state"]

    assert eventually(state, "degraded".__eq__)
    _adapter(service)._rest_until = math.inf
    assert service.client.put("/v1/cluster", json=cluster).status_code == 200
    assert eventually(state, "accepted".__eq__)


def test_several_adaptations_are_told_as_one() -> None:
    """Who was degraded first and then restored is restored, and counts as lost no more."""
    first = {
        "affected": [
            {"id": "a", "fate": "degraded", "value": 2.0},
            {"id": "b", "fate": "degraded", "value": 3.0},
        ],
        "dropped": 5.0,
        "moved": 0.0,
        "short": "1 cpu too little",
    }
    restored = [{"id": "a", "fate": "restored", "value": 2.0}]
    then = {"affected": restored, "dropped": 0.0, "moved": 4.0, "short": ""}
    told = join_adaptations([first, then])
    assert [(one["id"], one["fate"]) for one in told["affected"]] == [
        ("b", "degraded"),
        ("a", "restored"),
    ]
    assert (told["dropped"], told["moved"], told["short"]) == (3.0, 4.0, "")
