"""What is notified of a change of machines when others adapt or change the Plan meanwhile."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from planner.adaptation.adapter import adapt
from planner.adaptation.result import Adaptation, join_adaptations
from planner.agent import Limits
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade
from planner.reservations.reservation import Holding
from service.commits import adaptation as adapting
from service.commits import records
from service.commits.adaptation import PlanAdapter
from service.resources import outages
from service.store.engine import UnavailableError
from tests.patience import eventually
from tests.service.conftest import Open, Service

GANG = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 7200)"
_LOSS = {"machines": "plain", "count": 5, "end": "+2h"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait for the repair however busy the machine is."""
    monkeypatch.setattr("service.resources.outages.ANSWER_S", 60.0)


def _adapter(service: Service) -> PlanAdapter:
    return service.runtime.planner.adapter


def _between(monkeypatch: pytest.MonkeyPatch, other: Service) -> None:
    """Let another process adapt between a change of machines and the answer to it."""
    adapted = outages._adapt

    def later(*args: Any) -> Any:
        _adapter(other).run()
        return adapted(*args)

    monkeypatch.setattr("service.resources.outages._adapt", later)


def _fates(answer: Any) -> list[tuple[str, str]]:
    return [(one["id"], one["fate"]) for one in answer.get_json()["affected"]]


@pytest.mark.usefixtures("unasked")
def test_the_answer_shows_what_another_process_adapted(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processes the other adapts first: the client still learns who is affected."""
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
    """Others renegotiate before each commit of the adapter until it holds the turn."""
    one, other = open_service(tick_s=0), open_service(tick_s=0)
    one.reserve("a", GANG)
    commit, lost = records.commit_jointly, []

    def renegotiated(*args: Any, **more: Any) -> Any:
        if len(lost) < adapting._FREE_ATTEMPTS:
            lost.append(1)
            asked = {"rdl": GANG, "weight": 1 + len(lost)}
            answer = other.client.put("/v1/reservations/a", json=asked, headers={"If-Match": "*"})
            assert answer.status_code == 200, answer.get_data(as_text=True)
        return commit(*args, **more)

    monkeypatch.setattr("service.commits.adaptation.commit_jointly", renegotiated)
    monkeypatch.setattr(adapting, "_FREE_S", 600.0)
    answer = one.client.post("/v1/cluster/outages", json=_LOSS)
    assert len(lost) == adapting._FREE_ATTEMPTS
    assert _fates(answer) == [("a", "degraded")]


def test_machines_that_come_back_end_the_rest_of_the_adapter(service: Service) -> None:
    """After PUT /v1/cluster gave machines back a reservation is whole at once, not after a rest."""
    service.reserve("a", GANG)
    cluster = service.client.get("/v1/cluster").get_json()
    fewer = {**cluster, "machines": [{**cluster["machines"][0], "count": 5}]}
    assert (
        service.client.put("/v1/cluster", json=fewer, headers={"If-Match": "*"}).status_code == 200
    )

    def state() -> object:
        return service.client.get("/v1/reservations/a").get_json()["state"]

    assert eventually(state, "degraded".__eq__)
    _adapter(service)._rest_until = math.inf
    assert (
        service.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code
        == 200
    )
    assert eventually(state, "accepted".__eq__)


def test_what_lost_machines_is_looked_at_again_soon_after_a_late_repair(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repair that the Plan moved on from took 30 s: the next look is 30 s later, not 300."""
    monkeypatch.setattr(PlanAdapter, "_look", lambda *_: None)
    service, now = open_service(tick_s=0), [1000.0]
    service.reserve("a", GANG)
    adapter = _adapter(service)

    def late(*_: Any, **__: Any) -> None:
        now[0] += 30.0

    monkeypatch.setattr(adapter, "run", late)
    service.client.post("/v1/cluster/outages", json=_LOSS)
    monkeypatch.setattr(adapting, "time", SimpleNamespace(monotonic=lambda: now[0]))
    began = now[0]
    adapter.tick()
    assert (now[0], adapter._rest_until) == (began + 30.0, began + 30.0)


def test_several_adaptations_are_reported_as_one() -> None:
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


ONE = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"
LATER = "window(atom(<1 cpu>, 1, 1, 60, 60), +2h, +3h)"


def test_no_other_change_waits_for_an_adaptation(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posts, a change and a deletion are answered while the adapter still works at an outage."""
    service.reserve("a", GANG)
    begun, others_done = threading.Event(), threading.Event()

    def slow(twin: Plan, limits: Limits) -> Adaptation:
        begun.set()
        assert others_done.wait(300)
        return adapt(twin, limits)

    monkeypatch.setattr("service.commits.adaptation.adapt", slow)
    answers: list[Any] = []
    losing = threading.Thread(
        target=lambda: answers.append(
            service.app.test_client().post("/v1/cluster/outages", json=_LOSS)
        )
    )
    losing.start()
    try:
        assert begun.wait(300)
        service.reserve("b", ONE)
        changed = service.client.put(
            "/v1/reservations/b", json={"rdl": ONE, "weight": 2}, headers={"If-Match": "*"}
        )
        assert changed.status_code == 200
        assert service.client.delete("/v1/reservations/b").status_code == 200
        assert not answers
    finally:
        others_done.set()
        losing.join(300)
    assert answers[0].status_code == 201
    assert _fates(answers[0]) == [("a", "degraded")]


def test_an_outage_is_answered_in_time_though_the_repair_continues(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken and has its id; who is affected is reported as far as it is known."""
    service.reserve("a", GANG)
    answered = threading.Event()

    def slow(twin: Plan, limits: Limits) -> Adaptation:
        assert answered.wait(300)
        return adapt(twin, limits)

    monkeypatch.setattr("service.commits.adaptation.adapt", slow)
    monkeypatch.setattr("service.resources.outages.ANSWER_S", 0.0)
    try:
        lost = service.client.post("/v1/cluster/outages", json=_LOSS)
    finally:
        answered.set()
    assert lost.status_code == 201
    body = lost.get_json()
    assert (body["pending"], body["affected"]) == (True, [])
    shown = service.client.get("/v1/cluster/outages").get_json()["outages"]
    assert [one["id"] for one in shown] == [body["outage"]["id"]]

    def state() -> object:
        return service.client.get("/v1/reservations/a").get_json()["state"]

    assert eventually(state, "degraded".__eq__)


def _refused_by_the_plan(twin: Plan, _limits: Limits) -> Adaptation:
    """Return an answer with a conflict: a reservation that is not there is to be degraded."""
    nobody = Degrade("nobody", 1, Holding((), 0, 0), "")
    return Adaptation((nobody,), based_on=twin.version)


def _raises(_twin: Plan, _limits: Limits) -> Adaptation:
    raise ValueError("a fault of the adapter")


@pytest.mark.parametrize("fault", [_refused_by_the_plan, _raises])
def test_a_failure_is_named_and_not_tried_again_on_the_same_version(
    service: Service, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Adaptation]
) -> None:
    """The answer, the metric and /readyz name it; after the next change all is well again."""
    service.reserve("a", GANG)
    tried: list[int] = []

    def failing(twin: Plan, limits: Limits) -> Adaptation:
        tried.append(twin.version)
        return fault(twin, limits)

    monkeypatch.setattr("service.commits.adaptation.adapt", failing)
    lost = service.client.post("/v1/cluster/outages", json=_LOSS)
    assert lost.status_code == 503
    assert "adapter failed" in lost.get_json()["detail"]
    ready = service.client.get("/readyz")
    assert ready.status_code == 200
    assert "the adapter failed at version" in ready.get_json()["adapter"]
    metrics = service.client.get("/metrics").get_data(as_text=True)
    assert 'agenda_adaptations_total{outcome="failed"} 1.0' in metrics
    adapter = _adapter(service)
    adapter._rest_until = 0.0
    adapter.tick()
    assert len(tried) == len(set(tried)) == 1

    monkeypatch.setattr("service.commits.adaptation.adapt", adapt)
    service.reserve("b", ONE)
    adapter._rest_until = 0.0
    adapter.lane.queue.wake()
    assert eventually(
        lambda: service.client.get("/v1/reservations/a").get_json()["state"], "degraded".__eq__
    )
    # The commit is seen before the lane that made it has forgotten the failure.
    assert eventually(lambda: service.client.get("/readyz").get_json(), {"status": "ready"}.__eq__)


def test_a_database_that_is_unavailable_is_no_failure_of_the_adapter(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = _adapter(service)

    def away() -> NoReturn:
        raise UnavailableError("starting up")

    monkeypatch.setattr(adapter._replica, "newest", away)
    with pytest.raises(UnavailableError):
        adapter.run()
    assert adapter.failure == ""


def test_the_present_does_not_move_on_while_another_holds_the_turn(service: Service) -> None:
    """Time passes by a commit as any other: it waits for its turn."""
    runtime = service.runtime
    before = service.client.get("/v1/plan/counts").get_json()["version"]
    with runtime.planner._replica.store.turn():
        service.clock.advance(120)
        moving = threading.Thread(target=runtime.planner._committer.move_to_now)
        moving.start()
        moving.join(0.5)
        assert moving.is_alive()
        with runtime.reading() as plan:
            assert plan.version == before
    moving.join(60)
    with runtime.reading() as plan:
        assert plan.version == before + 1


@pytest.mark.parametrize(
    ("free_s", "attempts"), [(600.0, adapting._FREE_ATTEMPTS + 1), (0.0, 1)], ids=["fast", "slow"]
)
def test_a_plan_that_moves_on_faster_than_it_is_adapted_is_repaired(
    service: Service, monkeypatch: pytest.MonkeyPatch, free_s: float, attempts: int
) -> None:
    """Whenever an answer is found the present has moved on, unless no one else may append."""
    monkeypatch.setattr(adapting, "_FREE_S", free_s)
    service.reserve("a", "window(atom(<1 cpu>, 1, 4, 600, 4800), 0, 7200)", agent="earliest")
    assert service.ask("now", LATER).status_code == 201
    service.clock.advance(60)
    assert service.ask("then", LATER).status_code == 201
    machines = service.client.get("/v1/machines").get_json()["machines"]
    names = [
        one["name"] for one in machines if any(slot["reservation"] == "a" for slot in one["slots"])
    ]
    asking: list[threading.Thread] = []

    def overtaken(twin: Plan, limits: Limits) -> Adaptation:
        found = adapt(twin, limits)
        service.clock.advance(120)
        later = threading.Thread(target=service.ask, args=(f"later-{len(asking)}", LATER))
        asking.append(later)
        later.start()
        later.join(0.5)
        return found

    monkeypatch.setattr("service.commits.adaptation.adapt", overtaken)
    lost = {"machines": "plain", "names": names, "end": "+2h"}
    answer = service.client.post("/v1/cluster/outages", json=lost)
    for later in asking:
        later.join()
    assert answer.status_code == 201, answer.get_json()
    assert [one["id"] for one in answer.get_json()["affected"]] == ["a"]
    assert not answer.get_json()["pending"]
    assert len(asking) == attempts
