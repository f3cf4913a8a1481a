"""Machines one by one, the Plan as a file, a cluster that is only tried, the dispatch table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.files import PlanDocument
from planner.validation.validate import validate
from planner.workload.reload import plan_of_document
from rdl.durations import parse_instant
from service.access.user import Role, User
from service.resources.machines import MachineQuery, list_machines
from tests.patience import eventually
from tests.service.applying import an_application, submit_one
from tests.service.conftest import CLUSTER, Open, Service

_PLACED = CLUSTER + '\n[promises]\nlevel = "placed"\n'


def _get(service: Service, path: str) -> Any:
    answer = service.client.get(path)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


class TestMachines:
    def test_are_reported_one_by_one(self, still: Service) -> None:
        """Each machine has its place in its group, its capacity, and whether it is up."""
        asked = {"machines": "plain", "names": ["plain-3"], "end": "+1h"}
        assert still.client.post("/v1/cluster/outages", json=asked).status_code == 201
        told = _get(still, "/v1/machines")["machines"]
        assert [one["name"] for one in told] == [f"plain-{n}" for n in range(10)]
        assert [one["index"] for one in told if not one["up"]] == [3]
        assert told[3]["outage"]["end"] == 3600
        assert told[0]["capacity"]["cpu"] == 1
        later = _get(still, "/v1/machines?at=2h")["machines"]
        assert all(one["up"] for one in later)

    def test_show_slots(self, open_service: Open, cluster_file: Path) -> None:
        """What the Plan promises of a machine at an instant, and for whom."""
        cluster_file.write_text(_PLACED)
        service = open_service(tick_s=0)
        service.reserve("a", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 30m, 40m)", tenant="ads")
        told = _get(service, "/v1/machines?at=35m&group=plain")["machines"]
        taken = [one for one in told if one["slots"]]
        assert len(taken) == 2
        assert taken[0]["slots"][0]["reservation"] == "a"
        assert taken[0]["promised"] == {"cpu": 1, "memory": "4 GiB"}
        assert not any(one["slots"] for one in _get(service, "/v1/machines")["machines"])
        other = User("bob", Role.USER, frozenset({"ml"}))
        at = MachineQuery(at=parse_instant("2100"))
        hidden = list_machines(service.runtime, other, at).machines
        slots = [slot for one in hidden for slot in one.slots]
        assert {(slot.reservation, slot.tenant) for slot in slots} == {(None, None)}
        assert [one.promised for one in hidden] == [one["promised"] for one in told]

    def test_show_components(self, still: Service) -> None:
        """What the dispatcher has put there, with its size; to others only the size."""
        assert submit_one(still, "x", an_application(2), tenant="ads").status_code == 201
        still.runtime.dispatcher.tick()
        told = _get(still, "/v1/machines")["machines"]
        used = [one for one in told if one["components"]]
        assert [one["used"] for one in used] == [{"cpu": 1}] * 2
        assert {one["components"][0]["execution"] for one in used} == {"x"}
        other = User("bob", Role.USER, frozenset({"ml"}))
        hidden = list_machines(still.runtime, other, MachineQuery()).machines
        assert {c.execution for one in hidden for c in one.components} == {None}
        assert [one.used for one in hidden] == [one["used"] for one in told]

    def test_are_reported_in_part(self, still: Service) -> None:
        """Some of them in the same order, with how many are left out; one by its name."""
        told = _get(still, "/v1/machines?first=4&most=3")
        assert [one["index"] for one in told["machines"]] == [4, 5, 6]
        assert told["left_out"] == 7
        (one,) = _get(still, "/v1/machines?name=plain-7")["machines"]
        assert one["name"] == "plain-7"
        answer = still.client.get("/v1/machines?name=plain-10")
        assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "?name")

    def test_have_shares(self, open_service: Open, cluster_file: Path) -> None:
        """Promised and used are apart, each of the fullest resource; in brief there is no more."""
        cluster_file.write_text(_PLACED)
        service = open_service(tick_s=0)
        rdl = "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 10m, 20m), 0, 10m)"
        service.reserve("a", rdl, tenant="ads")
        assert submit_one(service, "x", an_application(3), tenant="ads").status_code == 201
        service.runtime.dispatcher.tick()
        told = _get(service, "/v1/machines")["machines"]
        assert sorted(one["promised_share"] for one in told) == [0] * 8 + [1] * 2
        assert sorted(one["used_share"] for one in told) == [0] * 7 + [1] * 3
        brief = _get(service, "/v1/machines?brief=true")["machines"]
        assert brief == [{**one, "slots": [], "components": []} for one in told]

    def test_of_a_group_that_there_is_not_are_an_error(self, still: Service) -> None:
        """The nearest group is named."""
        answer = still.client.get("/v1/machines?group=plian")
        assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "?group")


def test_an_export_is_a_plan_file(service: Service) -> None:
    """Of a Plan that has moved on: valid, and a Plan can be made of it again."""
    service.reserve("old", "window(atom(<1 cpu>, 1, 10, 60, 600), +0, +10m)")
    service.clock.advance(3 * 3600)
    eventually(lambda: _get(service, "/v1/plan")["now"], lambda now: now == 3 * 3600)
    service.reserve("new", "window(atom(<1 cpu>, 1, 10, 60, 600), +2h, +4h)")
    whole = "window(atom(<1 cpu>, 10, 10, 60, 600), +3h, +181m)"
    assert service.ask("wide", whole).status_code == 201
    assert service.ask("more", whole).status_code == 409
    plain = _get(service, "/v1/plan/export")
    document = PlanDocument.from_json(plain)
    assert validate(plain) == []
    plan = plan_of_document(document)
    assert [one.id for one in plan.reservations()] == ["old", "new", "wide"]
    assert [one.id for one in plan.refusals] == ["more"]


def test_another_cluster_can_be_tried(service: Service) -> None:
    """A dry run shows who would be affected, as a change would, and changes nothing."""
    service.reserve("a", "window(atom(<1 cpu>, 10, 10, 1h, 10h), +1h, +2h)")
    cluster = _get(service, "/v1/cluster")
    cluster["machines"][0]["count"] = 4
    answer = service.client.put("/v1/cluster?dry_run=true", json=cluster)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert [(one["id"], one["fate"]) for one in answer.get_json()["affected"]] == [
        ("a", "degraded")
    ]
    assert _get(service, "/v1/cluster")["machines"][0]["count"] == 10
    assert _get(service, "/v1/reservations/a")["state"] == "accepted"
    stale = service.client.put(
        "/v1/cluster?dry_run=true", json=cluster, headers={"If-Match": '"x"'}
    )
    assert stale.status_code == 412


def test_there_is_no_dispatch_table_before_the_first(still: Service) -> None:
    """The call says so, and whether the policy uses one."""
    used = _get(still, "/v1/dispatch/policy")["tables"]
    told = _get(still, "/v1/dispatch/table")
    assert (told["used"], told["version"], told["table"]) == (used, 0, None)


def test_every_process_shows_the_dispatch_table(open_service: Open) -> None:
    """The table that the leading process made is reported by another one too."""
    leader, other = open_service(tick_s=0), open_service(tick_s=0)
    policy = _get(leader, "/v1/dispatch/policy") | {"tables": True}
    answer = leader.client.put("/v1/dispatch/policy", json=policy)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    leader.reserve("a")
    submit_one(leader, "x", an_application(2, size="10m"))
    leader.runtime.dispatcher.tick()
    told = _get(other, "/v1/dispatch/table")
    assert told["used"] is True
    assert told["version"] == 1
    assert told["table"]["runs"]
    leader.runtime.dispatcher.tick()  # by the table
    told = _get(other, "/v1/dispatch/table")
    assert {group: sum(counts) for group, counts in told["running"].items()} == {"plain": 2}
