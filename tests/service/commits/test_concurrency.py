"""Several processes on one database, and several threads in one: decide freely, commit once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from planner.agent import Limits
from planner.agents import AGENT_NAMES, QUICK_AGENTS, agent_named
from planner.capacity.shortage import Taking
from planner.placement import PlacementResult
from planner.plan.records.commit_records import CommitRecord
from planner.request import Request
from planner.view import PlanView
from service.commits.commands import Admission, Key, Keyed
from service.commits.job import Job
from service.commits.lane import JobQueue
from service.store import Store
from tests.service.conftest import Open, Service
from tests.service.together import in_one_commit, interrupt

WHOLE = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +{0}h)"
ONE = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"


def at_once(*calls: Callable[[], object]) -> None:
    """Run calls in threads of their own and wait for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestProcesses:
    def test_see_each_other(self, open_service: Open) -> None:
        """What one process answered, another shows and plans around at once."""
        one, two = open_service(), open_service()
        one.reserve("a", WHOLE.format(1))

        assert two.client.get("/v1/reservations/a").status_code == 200
        assert two.ask("b", WHOLE.format(1)).status_code == 409
        assert one.client.get("/v1/reservations/b").get_json()["state"] == "refused"

    def test_take_along_who_waits(self, open_service: Open) -> None:
        """Those who come while another process appends are carried out in one commit."""
        one = open_service()
        versions: list[int] = []

        def ask(number: int) -> None:
            versions.append(one.reserve(f"r{number}", ONE)["version"])

        in_one_commit(one, *(partial(ask, number) for number in range(5)))

        assert len(set(versions)) == 1
        assert len(versions) == 5

    def test_continue_while_one_applies(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The turn is free as soon as a record is on disk, before its own process applies it."""
        one = open_service()
        other, replaying = Store(one.runtime.config.database), one.runtime._replica._replaying
        apply, found = replaying.apply, list[bool]()

        def applied(record: CommitRecord, takings: Sequence[Taking] | None = None) -> None:
            entered = threading.Event()

            def enter() -> None:
                with other.turn():
                    entered.set()

            threading.Thread(target=enter).start()
            found.append(entered.wait(300))
            apply(record, takings)

        monkeypatch.setattr(replaying, "apply", applied)
        one.reserve("a", ONE)

        assert found == [True]
        other.close()

    def test_wait_only_for_agents_that_there_are(self) -> None:
        """Whoever is waited for is an agent, and no solver or portfolio is."""
        assert set(AGENT_NAMES) >= QUICK_AGENTS
        assert not QUICK_AGENTS & {"portfolio", "milp", "exact", "hybrid"}

    def test_merge_what_still_fits(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A placement that still fits after another process was faster is not placed again."""
        one, two = open_service(), open_service()
        late = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +2h, +3h)"
        agent = interrupt(monkeypatch, lambda: two.reserve("b", WHOLE.format(1)))

        body = one.reserve("a", late, agent="gree-l")

        assert (agent.asked, body["version"]) == (1, 2)
        assert "agenda_lost_races_total 1.0" not in metrics(two)

    def test_place_again_what_no_longer_fits(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A placement whose capacity another process took is placed elsewhere."""
        one, two = open_service(), open_service()
        last = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +1h, +2h)"
        agent = interrupt(monkeypatch, lambda: two.reserve("b", last))

        body = one.reserve("a", WHOLE.format(2), agent="gree-l")

        assert agent.asked == 2
        assert body["atoms"][0]["allocation"] == [[0, 3600, 10]]
        assert "agenda_conflicts_total 1.0" in metrics(one)

    def test_refuse_when_nothing_is_left(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A placement whose capacity is gone, with no other, is refused like any other."""
        one, two = open_service(), open_service()
        interrupt(monkeypatch, lambda: two.reserve("b", WHOLE.format(1)))

        answer = one.ask("a", WHOLE.format(1), agent="gree-l")

        assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")

    def test_take_an_id_once(self, open_service: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of two processes that admit one id, one does; the same request is reported its place."""
        for weight, wanted in ((1, 200), (2, 409)):
            one, two = open_service(), open_service()
            id_ = f"a{weight}"
            interrupt(monkeypatch, lambda two=two, id_=id_: two.reserve(id_, ONE))

            answer = one.ask(id_, ONE, agent="gree-l", weight=weight)

            assert answer.status_code == wanted

    def test_take_a_key_once(self, open_service: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of two processes that carry out one key, one does, and the other tells its answer."""
        one, two = open_service(), open_service()
        key = {"Idempotency-Key": "k"}
        body = {"rdl": ONE, "agent": "gree-l"}
        told: list[bytes] = []

        def faster() -> None:
            told.append(two.client.post("/v1/reservations", json=body, headers=key).get_data())

        interrupt(monkeypatch, faster)

        answer = one.client.post("/v1/reservations", json=body, headers=key)

        assert [answer.get_data()] == told
        assert len(one.client.get("/v1/reservations").get_json()["reservations"]) == 1

    def test_a_whole_batch_goes_round_again(
        self, open_service: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All or nothing holds when another process takes capacity in the middle."""
        one, two = open_service(), open_service()
        batch = [{"id": f"r{i}", "rdl": WHOLE.format(3), "agent": "gree-l"} for i in range(2)]
        last = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +2h, +3h)"
        agent = interrupt(monkeypatch, lambda: two.reserve("b", last))

        answer = one.client.post("/v1/reservations:batch?atomic=true", json=batch)

        assert (answer.status_code, agent.asked) == (201, 2)
        begun = [r["body"]["atoms"][0]["allocation"][0][0] for r in answer.get_json()["results"]]
        assert sorted(begun) == [0, 3600]

    def test_follow_a_pruned_log(self, open_service: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process behind the pruned log begins again from the snapshot."""
        monkeypatch.setattr("service.store.store.KEPT_BEHIND", 0)
        one, two = open_service(snapshot_every=2), open_service()
        for number in range(7):
            one.reserve(f"r{number}", ONE)

        listed = two.client.get("/v1/reservations").get_json()

        assert [entry["id"] for entry in listed["reservations"]] == [f"r{n}" for n in range(7)]
        assert two.client.get("/v1/plan").get_json() == one.client.get("/v1/plan").get_json()

    def test_advance_together(self, open_service: Open) -> None:
        """Two processes that meet a new step make one step of it."""
        one, two = open_service(), open_service()
        one.clock.advance(120)

        at_once(lambda: one.reserve("a", ONE), lambda: two.reserve("b", ONE))

        tags = {service.client.get("/v1/plan").headers["ETag"] for service in (one, two)}
        assert tags == {'"3"'} or tags == {'"2"'}

    def test_hold_the_plan_together(self, open_service: Open) -> None:
        """Many threads on two processes: every 201 is kept once, and capacity is kept."""
        services = [open_service(), open_service()]
        answered: Counter[tuple[str, int]] = Counter()
        lock = threading.Lock()

        def client(number: int) -> None:
            service = services[number % 2]
            test_client = service.app.test_client()
            for turn in range(12):
                start = (number * 7 + turn * 13) % 180
                rdl = f"window(atom(<1 cpu>,1,4,600,2400), +{start}m, +{start + 40}m)"
                body = {"id": f"c{number}-{turn}", "rdl": rdl}
                answer = test_client.post("/v1/reservations", json=body)
                with lock:
                    answered[body["id"], answer.status_code] += 1

        at_once(*(lambda n=n: client(n) for n in range(8)))

        granted = sorted(id_ for id_, status in answered if status == 201)
        assert len(answered) == 96
        assert {status for _, status in answered} <= {201, 409}
        for service in services:
            kept = everything(service, "?limit=1000&state=accepted")
            assert sorted(kept) == granted
            free = service.client.get("/v1/plan").get_json()["resources"]["cpu"]["free"]
            assert min(free) >= 0


class TestOracle:
    def test_rejects_a_false_placement(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A placement that breaks its request is 500, and the log stays as it was."""

        class Lying:
            name = "gree-l"

            def plan(
                self, requests: Sequence[Request], view: PlanView, limits: Limits
            ) -> Sequence[PlacementResult]:
                results = agent_named("gree").plan(requests, view, limits)
                for result in results:
                    result.rows.flags.writeable = True
                    result.rows[-1, 1] -= 1
                return results

        monkeypatch.setattr(
            "service.commits.screening.agent_named",
            lambda name: Lying() if name == "gree-l" else agent_named(name),
        )
        before = service.client.get("/v1/plan").headers["ETag"]

        answer = service.ask("a", ONE.replace("60, 60", "60, 600"), agent="gree-l")

        assert (answer.status_code, answer.get_json()["code"]) == (500, "internal")
        assert service.client.get("/v1/plan").headers["ETag"] == before
        service.reserve("a", ONE)


class TestWaitingRoom:
    def job(self, *, size: int = 1, atomic: bool = False, key: str | None = None) -> Job:
        """Return a job of `size` requests."""
        asks = (None,) * size
        command = Admission(asks, atomic)  # type: ignore[arg-type]
        given = None if key is None else Keyed(Key(key, b""), None)  # type: ignore[arg-type]
        return Job(command, 0.0, given)

    def groups(self, room: JobQueue) -> list[list[Job]]:
        """Return all groups until the capacity is empty."""
        room.close()
        found = []
        while (group := room.next_group(0)) is not None:
            found.append(group)
        return found

    def test_groups_what_waits(self) -> None:
        """Jobs that wait go together, up to the limit of requests, in order."""
        room = JobQueue(3)
        jobs = [self.job() for _ in range(4)] + [self.job(size=5)] + [self.job()]
        for job in jobs:
            room.put(job)

        assert self.groups(room) == [jobs[:3], jobs[3:4], jobs[4:5], jobs[5:]]

    def test_keeps_some_apart(self) -> None:
        """An all-or-nothing batch is alone; a key is in a group once."""
        room = JobQueue(100)
        plain, atomic = self.job(), self.job(size=2, atomic=True)
        first, second = self.job(key="k"), self.job(key="k")
        for job in (plain, atomic, first, second):
            room.put(job)

        assert self.groups(room) == [[plain], [atomic], [first], [second]]

    def test_is_closed(self) -> None:
        """A closed capacity takes no one in."""
        room = JobQueue(1)
        room.close()

        assert not room.put(self.job())
        assert room.next_group(0) is None


def metrics(service: Service) -> str:
    """Return what /metrics shows."""
    return service.client.get("/metrics").get_data(as_text=True)


def everything(service: Service, query: str) -> list[str]:
    """Return the ids of one long page."""
    page = service.client.get(f"/v1/reservations{query}").get_json()
    return [entry["id"] for entry in page["reservations"]]
