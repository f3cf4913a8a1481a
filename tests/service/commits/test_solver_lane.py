"""A lane of their own for solvers: no one waits for them, and they decide like another process."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from service.commits import group_commit, screening
from service.commits.commands import is_quick_agent
from tests.service.conftest import Open, Service
from tests.service.together import solver

WHOLE = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +{0}h)"
ONE = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"


@pytest.fixture
def brief(open_service: Open) -> Service:
    """Return a service with two threads that gives up a change after some seconds."""
    return open_service(threads=2, plan_timeout_s=8.0)


class TestOthers:
    def test_are_answered_while_a_solver_works(
        self, brief: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A solver that ends only after all kinds of quick changes were answered, ends."""
        other = brief.app.test_client()
        statuses: list[int] = []

        def quick_changes() -> None:
            body = {"id": "q", "rdl": ONE}
            answers = [
                other.post("/v1/reservations", json=body),
                other.post("/v1/reservations?dry_run=true", json={"rdl": ONE}),
                other.put("/v1/reservations/q", json={"rdl": ONE}, headers={"If-Match": "*"}),
                other.delete("/v1/reservations/q"),
                other.get("/v1/plan"),
            ]
            statuses.extend(answer.status_code for answer in answers)

        solver(monkeypatch, quick_changes)
        solved = brief.reserve("a", ONE, agent="exact")

        assert statuses == [201, 200, 200, 200, 200]
        assert solved["version"] == 4

    def test_are_answered_while_a_solver_renegotiates(
        self, brief: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A swap by a solver waits in the lane too."""
        brief.reserve("a", ONE)
        solver(monkeypatch, lambda: brief.app.test_client().delete("/v1/reservations/none"))
        body = {"rdl": WHOLE.format(2), "agent": "exact"}
        answer = brief.client.put("/v1/reservations/a", json=body, headers={"If-Match": "*"})

        assert answer.status_code == 200

    def test_are_refused_a_solver_when_as_many_wait_as_may(
        self, brief: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Half of the threads may wait for solvers: one more call is 429, if it only asks too."""
        other = brief.app.test_client()
        refused: list[tuple[int, str, str]] = []

        def ask_more() -> None:
            body = {"rdl": ONE, "agent": "exact"}
            for path in ("reservations", "reservations?dry_run=true", "offers"):
                answer = other.post(f"/v1/{path}", json=body)
                code = answer.get_json()["code"]
                refused.append((answer.status_code, code, answer.headers["Retry-After"]))

        solver(monkeypatch, ask_more)
        brief.reserve("a", ONE, agent="exact")

        assert refused == [(429, "too_many", "5")] * 3
        brief.reserve("b", ONE, agent="exact")


class TestSolvers:
    def test_place_again_what_others_took(
        self, brief: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a quick change took meanwhile is planned around."""
        last = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +1h, +2h)"
        agent = solver(monkeypatch, partial(brief.reserve, "q", last))
        body = brief.reserve("a", WHOLE.format(2), agent="exact")

        assert agent.asked == 2
        assert body["atoms"][0]["allocation"] == [[0, 3600, 10]]

    def test_give_up_after_some_rounds(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whose place is taken every time is told of the conflict, and who was quick keeps it."""
        service = open_service()
        at = {f"q{n}": f"window(atom(<1 cpu>,10,10,3600,36000),+{n}h,+{n + 1}h)" for n in (3, 2, 1)}
        agent = solver(monkeypatch, *(partial(service.reserve, id_, at[id_]) for id_ in at))
        answer = service.ask("a", WHOLE.format(4), agent="exact")

        assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
        assert agent.asked == 3
        assert service.ask("b", WHOLE.format(4)).status_code == 201

    def test_follow_time_that_moves_on_meanwhile(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An endless recurrence that has one more run by then is placed again with it."""

        def move_on() -> None:
            service.clock.advance(3600)
            service.reserve("q", ONE)

        agent = solver(monkeypatch, move_on)
        every = "every(1h, window(atom(<1 cpu>, 1, 1, 60, 60), 30m, 40m), anchor=7200)"
        service.reserve("a", every, agent="exact")

        assert agent.asked == 2

    def test_end_what_they_have_begun_when_the_server_stops(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two requests the one at work is answered, the one behind it is told to come again."""
        service = open_service(group=1)
        begun, waits = threading.Event(), threading.Event()

        def stop() -> None:
            begun.set()
            assert waits.wait(300)
            service.runtime.planner.solvers.queue.close()

        solver(monkeypatch, stop)
        answers: dict[str, int] = {}

        def ask(id_: str) -> None:
            client = service.app.test_client()
            body = {"id": id_, "rdl": ONE, "agent": "exact"}
            answers[id_] = client.post("/v1/reservations", json=body).status_code

        clients = [threading.Thread(target=ask, args=(id_,)) for id_ in ("a", "b")]
        clients[0].start()
        assert begun.wait(300)
        clients[1].start()
        while not len(service.runtime.planner.solvers.queue):
            threading.Event().wait(0.001)
        waits.set()
        for client in clients:
            client.join()

        assert answers == {"a": 201, "b": 503}


def test_solvers_and_portfolios_are_slow() -> None:
    """Whoever may take seconds works in the lane; unknown agents would too."""
    slow = ("portfolio", "portfolio-free", "milp", "exact", "hybrid", "new")
    assert not any(map(is_quick_agent, slow))


def test_a_large_batch_keeps_no_other_request_waiting(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a batch larger than a group is placed, a single request is placed and committed."""
    service = open_service(group=2, tick_s=0)
    placing, release, place = threading.Event(), threading.Event(), screening.place

    def place_late(waiting: Any, view: Any, limits: Any) -> None:
        if len(waiting) > 2:
            placing.set()
            assert release.wait(300)
        place(waiting, view, limits)

    monkeypatch.setattr(group_commit, "place", place_late)
    codes: list[int] = []

    def post() -> None:
        batch = [{"rdl": "atom(<1 cpu>, 1, 1, 60, 60)"}] * 3
        answer = service.app.test_client().post("/v1/reservations:batch", json=batch)
        codes.extend(one["status"] for one in answer.get_json()["results"])

    posting = threading.Thread(target=post)
    posting.start()
    assert placing.wait(300)
    assert service.ask("a").status_code == 201
    release.set()
    posting.join()
    assert codes == [201] * 3
