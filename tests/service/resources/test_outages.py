"""POST, GET and DELETE /v1/cluster/outages: machines go, the adapter answers, they come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.validation.validate import validate
from tests.patience import eventually
from tests.planner.plan.plan_json import plan_json
from tests.service.conftest import Open, Service

GANG = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, {end})"


def _lose(service: Service, query: str = "", **asked: Any) -> Any:
    body = {"machines": "plain", "count": 5, "end": "+2h", **asked}
    return service.client.post(f"/v1/cluster/outages{query}", json=body)


def _state(service: Service, id_: str) -> Any:
    return service.client.get(f"/v1/reservations/{id_}").get_json()


def test_a_loss_moves_what_can_wait(service: Service) -> None:
    """Eight of ten machines from the end of the window on; five lost for two hours of four."""
    service.reserve("a", GANG.format(end=7200))
    service.reserve("b", GANG.format(end=14400))
    answer = _lose(service, start=0, end=3600)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    body = answer.get_json()
    assert body["dropped"] == 0
    assert body["short"] == ""
    assert body["outage"]["names"] == [f"plain-{i}" for i in range(5, 10)]
    listed = service.client.get("/v1/cluster/outages").get_json()
    assert [one["id"] for one in listed["outages"]] == [body["outage"]["id"]]
    assert listed["outages"][0]["kind"] == "loss"


def test_machines_may_be_lost_before_the_plan_begins(
    open_service: Open, cluster_file: Path
) -> None:
    """A cluster that goes into service tomorrow: without a start they are gone from then on."""
    origin = '\norigin = "2026-01-06T00:00:00Z"\n\n[[machines]]'
    cluster_file.write_text(cluster_file.read_text().replace("\n[[machines]]", origin, 1))
    service = open_service()  # it is the day before
    body = _lose(service, end="+26h").get_json()
    assert (body["outage"]["start"], body["outage"]["end"]) == (0, 2 * 3600)
    early = _lose(service, end="+2h")
    assert (early.status_code, early.get_json()["errors"][0]["pointer"]) == (400, "/end")


def test_what_cannot_wait_is_degraded_and_restored_on_return(service: Service) -> None:
    """The reservation says why, offers what would fit, and is whole again after the return."""
    service.reserve("a", GANG.format(end=7200))
    would = _lose(service, "?dry_run=true").get_json()
    assert [(one["id"], one["fate"]) for one in would["affected"]] == [("a", "degraded")]
    assert _state(service, "a")["state"] == "accepted"
    assert service.client.get("/v1/cluster/outages").get_json()["outages"] == []
    done = _lose(service).get_json()
    assert [one["id"] for one in done["affected"]] == ["a"]
    degraded = _state(service, "a")
    assert degraded["state"] == "degraded"
    assert "machines were lost" in degraded["degradation"]["reason"]
    assert degraded["degradation"]["offers"]
    back = service.client.delete(f"/v1/cluster/outages/{done['outage']['id']}")
    assert back.status_code == 200
    assert [one["fate"] for one in back.get_json()["affected"]] == ["restored"]
    assert _state(service, "a")["state"] == "accepted"
    assert "degradation" not in _state(service, "a")
    again = service.client.delete(f"/v1/cluster/outages/{done['outage']['id']}")
    assert again.status_code == 404


def test_an_offer_of_a_degraded_reservation_is_accepted(service: Service) -> None:
    """Renegotiated to its first offer, the reservation holds something again."""
    service.reserve("a", GANG.format(end=7200))
    _lose(service)
    degraded = _state(service, "a")
    offer = degraded["degradation"]["offers"][0]["expression"]
    answer = service.client.put(
        "/v1/reservations/a", json={"rdl": offer}, headers={"If-Match": '"2"'}
    )
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert answer.get_json()["state"] == "accepted"


def test_bad_outages_are_named_with_where_and_what_would_be_right(service: Service) -> None:
    """Unknown groups, too many machines, both of count and names, times that cannot be."""
    for asked, pointer in (
        ({"machines": "plane"}, "/machines"),
        ({"count": 11}, "/count"),
        ({"names": ["plain-1"]}, ""),
        ({"count": None, "names": ["plain-10"]}, "/names/0"),
        ({"end": "soon"}, "/end"),
        ({"end": True}, "/end"),
        ({"start": "+3h"}, "/end"),
        ({"kind": "fire"}, "/kind"),
    ):
        asked = {name: value for name, value in asked.items() if value is not None}
        body = {"machines": "plain", "count": 5, "end": "+2h", **asked}
        if "names" in asked and asked["names"] == ["plain-10"]:
            del body["count"]
        answer = service.client.post("/v1/cluster/outages", json=body)
        assert answer.status_code == 400, asked
        assert answer.get_json()["errors"][0]["pointer"] == pointer, asked
    service.clock.advance(600)
    late = _lose(service, start=60)
    assert late.status_code == 400
    assert late.get_json()["errors"][0]["pointer"] == "/start"


def test_a_drain_waits_for_leases_in_force(service: Service) -> None:
    """The gang runs to its end; the machines go after it, and no one is affected."""
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 1200, 9600), 0, 1200)")
    service.clock.advance(60)
    service.client.get("/v1/plan")
    body = _lose(service, kind="drain").get_json()
    assert body["affected"] == []
    assert body["outage"]["start"] == 1200
    short = _lose(service, kind="drain", end=600)
    assert short.status_code == 400


def test_an_outage_taken_back_at_once_still_says_why_work_left(service: Service) -> None:
    """A gang without handovers left its machine; the Plan is valid after the machine is back."""
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 600)")
    service.clock.advance(120)
    service.client.get("/v1/plan")
    held = [slot for atom in _state(service, "a")["atoms"] for slot in atom["slots"]]
    asked = {"machines": "plain", "names": [held[0][3]], "end": "+2h"}
    body = service.client.post("/v1/cluster/outages", json=asked).get_json()
    assert [one["fate"] for one in body["affected"]] == ["relocated"]
    back = service.client.delete(f"/v1/cluster/outages/{body['outage']['id']}").get_json()
    assert (back["outage"]["start"], back["outage"]["end"]) == (120, 180)
    with service.runtime.reading() as plan:
        assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []


def test_an_outage_left_out_of_the_description_at_once_still_says_why_work_left(
    service: Service,
) -> None:
    """As DELETE, PUT /v1/cluster keeps it until the end of the step; the Plan stays valid."""
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 600)")
    described = service.client.get("/v1/cluster").get_json()
    service.clock.advance(120)
    service.client.get("/v1/plan")
    held = [slot for atom in _state(service, "a")["atoms"] for slot in atom["slots"]]
    asked = {"machines": "plain", "names": [held[0][3]], "end": "+2h"}
    body = service.client.post("/v1/cluster/outages", json=asked).get_json()
    assert [one["fate"] for one in body["affected"]] == ["relocated"]
    back = service.client.put("/v1/cluster", json=described, headers={"If-Match": "*"})
    assert back.status_code == 200, back.get_data(as_text=True)
    (kept,) = service.client.get("/v1/cluster/outages").get_json()["outages"]
    assert (kept["start"], kept["end"]) == (120, 180)
    with service.runtime.reading() as plan:
        assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []


def test_an_outage_outlives_the_process_and_so_does_what_it_did(open_service: Open) -> None:
    """Another process on the same database shows the same outage, state and reason."""
    one = open_service()
    one.reserve("a", GANG.format(end=7200))
    _lose(one)
    one.runtime.close()
    other = open_service()
    assert len(other.client.get("/v1/cluster/outages").get_json()["outages"]) == 1
    assert _state(other, "a")["degradation"]["reason"]


def test_restored_by_itself_when_the_expected_end_comes_or_capacity_is_made(
    service: Service,
) -> None:
    """Nobody asks for it: a cancelled reservation leaves capacity, and the adapter looks."""
    service.reserve("a", "window(atom(<1 cpu>, 4, 4, 7200, 28800), 0, 7200)", weight=5)
    service.reserve("b", "window(atom(<1 cpu>, 4, 4, 7200, 28800), 0, 7200)")
    _lose(service)
    assert _state(service, "b")["state"] == "degraded"
    assert service.client.delete("/v1/reservations/a").status_code == 200
    # After a slow answer the adapter rests ten times as long.
    assert eventually(lambda: _state(service, "b")["history"][-1]["what"], "restored".__eq__)


def _outages(service: Service) -> Any:
    return service.client.get("/v1/cluster/outages").get_json()["outages"]


def _resize(service: Service, count: int) -> None:
    """Change the number of machines as an operator does: read, edit, write."""
    described = service.client.get("/v1/cluster").get_json()
    described["machines"][0]["count"] = count
    answer = service.client.put("/v1/cluster", json=described, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.get_data(as_text=True)


class TestMachinesOfAnOutage:
    """They are chosen when the outage is taken; neither they nor the id change after that."""

    @pytest.mark.parametrize("count", [12, 7])
    def test_stay_when_the_group_changes(self, service: Service, count: int) -> None:
        """More machines, or fewer: also through a file that gives another number at a start."""
        taken = _lose(service, count=4).get_json()["outage"]
        assert taken["names"] == [f"plain-{index}" for index in range(6, 10)]
        _resize(service, count)
        (listed,) = _outages(service)
        assert listed["id"] == taken["id"]
        assert listed["names"] + listed.get("absent", []) == taken["names"]
        assert service.client.delete(f"/v1/cluster/outages/{taken['id']}").status_code == 200
        assert _outages(service) == []

    def test_apply_again_when_machines_come_back(self, service: Service) -> None:
        """A lost machine that leaves its group and comes back before the end is still lost."""
        taken = _lose(service, count=2).get_json()["outage"]
        _resize(service, 9)
        (listed,) = _outages(service)
        assert (listed["names"], listed["absent"]) == (["plain-8"], ["plain-9"])
        _resize(service, 5)
        (listed,) = _outages(service)
        assert (listed["names"], listed["absent"]) == ([], ["plain-8", "plain-9"])
        _resize(service, 12)
        (listed,) = _outages(service)
        assert (listed["id"], listed["names"]) == (taken["id"], taken["names"])
        with service.runtime.reading() as plan:
            assert [one.indices for one in plan.cluster.outages] == [(8, 9)]
        _resize(service, 5)
        assert service.client.delete(f"/v1/cluster/outages/{taken['id']}").status_code == 200
        _resize(service, 12)
        assert _outages(service) == []

    def test_stay_when_a_server_starts_with_another_file(
        self, open_service: Open, cluster_file: Path
    ) -> None:
        """What was posted stays; of the file's outages those that it changes change."""
        kept = '[[outages]]\nmachines = "plain"\ncount = 1\nstart = "1h"\nend = "3h"\n'
        dropped = '[[outages]]\nmachines = "plain"\ncount = 2\nstart = "2h"\nend = "3h"\n'
        ended = '[[outages]]\nmachines = "plain"\nnames = ["plain-1"]\nstart = 0\nend = "3h"\n'
        plain = cluster_file.read_text()
        cluster_file.write_text(plain + kept + dropped + ended)
        service = open_service()
        by_start = {one["start"]: one for one in _outages(service)}
        assert by_start[3600]["names"] == ["plain-9"]
        assert by_start[7200]["names"] == ["plain-8", "plain-9"]
        posted = _lose(service, count=1, end="+3h", start="+90m").get_json()["outage"]
        assert service.client.delete(f"/v1/cluster/outages/{by_start[0]['id']}").status_code == 200
        service.runtime.close()

        added = '[[outages]]\nmachines = "plain"\ncount = 1\nstart = "150m"\nend = "3h"\n'
        cluster_file.write_text(plain.replace("count = 10", "count = 12") + kept + ended + added)
        service = open_service()
        found = {one["start"]: (one["id"], one["names"]) for one in _outages(service)}
        assert found.pop(9000)[1] == ["plain-11"]
        assert found == {
            3600: (by_start[3600]["id"], ["plain-9"]),
            5400: (posted["id"], ["plain-9"]),
        }
        assert service.client.delete(f"/v1/cluster/outages/{posted['id']}").status_code == 200

    def test_are_those_of_the_outage_that_is_posted_again(self, service: Service) -> None:
        """The same loss reported twice is one outage."""
        first = _lose(service, end=7200).get_json()["outage"]
        assert _lose(service, end=7200).get_json()["outage"]["id"] == first["id"]
        assert len(_outages(service)) == 1
        assert _lose(service, end=7260).get_json()["outage"]["id"] != first["id"]

    def test_are_in_the_description_by_name(self, service: Service) -> None:
        """GET shows them, and a description by count that is put twice keeps them."""
        taken = _lose(service, count=2).get_json()["outage"]
        described = service.client.get("/v1/cluster").get_json()
        assert [(one["id"], one["names"]) for one in described["outages"]] == [
            (taken["id"], taken["names"])
        ]
        by_count = {"machines": "plain", "count": 1, "start": 3600, "end": 7200}
        described["outages"] = [by_count]
        for count in (10, 12):
            described["machines"][0]["count"] = count
            put = service.client.put(
                "/v1/cluster", json=described, headers={"If-Match": "*"}
            ).get_json()
            assert put["outages"][0]["names"] == ["plain-9"]

    def test_written_without_an_id_are_the_outage_that_is_there(self, service: Service) -> None:
        """A description that an operator keeps by hand does not take the answered id away."""
        taken = _lose(service, count=2).get_json()["outage"]
        described = service.client.get("/v1/cluster").get_json()
        del described["outages"][0]["id"]
        put = service.client.put(
            "/v1/cluster", json=described, headers={"If-Match": "*"}
        ).get_json()
        assert [one["id"] for one in put["outages"]] == [taken["id"]]
        described["outages"] *= 2
        put = service.client.put(
            "/v1/cluster", json=described, headers={"If-Match": "*"}
        ).get_json()
        ids = [one["id"] for one in put["outages"]]
        assert ids[0] == taken["id"]
        assert len(set(ids)) == 2


def test_an_outage_says_why_and_by_whom(service: Service) -> None:
    """In lists, in the description, in the status, and to a request that it refuses."""
    added = _lose(service, kind="maintenance", reason="new switch in rack 2")
    assert added.status_code == 201
    (listed,) = service.client.get("/v1/cluster/outages").get_json()["outages"]
    (described,) = service.client.get("/v1/cluster").get_json()["outages"]
    for one in (added.get_json()["outage"], listed, described):
        assert (one["reason"], one["by"]) == ("new switch in rack 2", "local")
    (present,) = service.client.get("/v1/status").get_json()["machines"]["outages"]
    assert present["reason"] == "new switch in rack 2"
    refused = service.ask("a", GANG.format(end=7000))
    assert refused.status_code == 409
    said = refused.get_json()["refusal"]["detail"]
    assert f"maintenance 'new switch in rack 2' ({listed['id']}) by local" in said
    assert _lose(service, reason="x" * 201).status_code == 400


class TestMaintenanceThatRecurs:
    """Each occurrence is out of reach of promises as soon as the horizon reaches it."""

    ALL_DAY = "window(atom(<1 cpu>, 10, 10, 1800, 18000), +0, +40m)"

    def _plan(self, service: Service, **more: Any) -> Any:
        asked = {"start": "+10m", "end": "+30m", "every": "1d", "reason": "new switch", **more}
        asked = {"machines": "plain", "count": 10, **asked}
        asked = {key: value for key, value in asked.items() if value is not None}
        return service.client.post("/v1/cluster/outages", json=asked)

    def _wait_a_day(self, service: Service) -> None:
        """Let a day pass; a request is accepted again once the Plan has followed the clock."""
        service.clock.advance(86_400)
        eventually(
            lambda: service.ask("x", "deadline(atom(<1 cpu>, 1, 1, 60, 60), +2h)",
                                query="?dry_run=true").status_code,
            lambda code: code in (200, 201),
        )  # fmt: skip

    def test_refusals_and_offers_name_it(self, service: Service) -> None:
        """What it is for, who planned it, from when to when, today and tomorrow."""
        answer = self._plan(service)
        assert answer.status_code == 201, answer.get_data(as_text=True)
        outage = answer.get_json()["outage"]
        assert (outage["kind"], outage["every"], outage["zone"]) == ("maintenance", "1d", "UTC")
        for id_ in ("today", "tomorrow"):
            refused = service.ask(id_, self.ALL_DAY).get_json()["refusal"]
            words = f"maintenance 'new switch' ({outage['id']}) by local, "
            assert words in refused["detail"]
            (later, *_) = [one for one in refused["offers"] if one["change"]["kind"] == "deadline"]
            assert f"after {words}" in later["sentence"]
            self._wait_a_day(service)
        (shown,) = _outages(service)
        day = 86_400
        assert (shown["start"], shown["end"]) == (2 * day + 600, 2 * day + 1800)
        assert shown["occurrences"] == [
            {key: shown[key] for key in ("start", "end", "start_at", "end_at")}
        ]
        machine = service.client.get("/v1/machines?name=plain-3").get_json()["machines"][0]
        assert machine["outage"] is None
        assert (machine["next_outage"]["reason"], machine["next_outage"]["by"]) == (
            "new switch",
            "local",
        )
        assert machine["next_outage"]["start"] == shown["start"]

    def test_the_next_occurrence_is_found_however_long_the_period(self, service: Service) -> None:
        """Once the first is over, that of 500 days is the next one, 500 days on."""
        start = self._plan(service, every="500d").get_json()["outage"]["start"]
        service.clock.advance(86_400)
        (shown,) = _outages(service)
        assert shown["start"] == start + 500 * 86_400

    def test_removed_it_ends_for_good_and_leaves_its_past(self, service: Service) -> None:
        """During the second occurrence; machines are back, and the third never comes."""
        id_ = self._plan(service).get_json()["outage"]["id"]
        service.clock.advance(86_400 + 900)
        service.client.get("/v1/plan")
        assert service.client.get("/v1/status").get_json()["machines"]["up"] == 0
        back = service.client.delete(f"/v1/cluster/outages/{id_}")
        assert back.status_code == 200, back.get_data(as_text=True)
        assert service.client.get("/v1/status").get_json()["machines"]["up"] == 10
        assert _outages(service) == []
        assert service.client.delete(f"/v1/cluster/outages/{id_}").status_code == 404
        (kept,) = service.client.get("/v1/cluster").get_json()["outages"]
        assert kept["until"] == 86_400 + 900
        service.reserve("a", self.ALL_DAY)
        self._wait_a_day(service)
        service.reserve("b", self.ALL_DAY)
        with service.runtime.reading() as plan:
            assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []

    @pytest.mark.parametrize(
        ("more", "pointer"),
        [
            ({"every": "5h"}, "/every"),
            ({"kind": "drain"}, "/kind"),
            ({"end": "+25h"}, "/end"),
            ({"day": "first tue"}, "/day"),
            ({"days": ["tuesday"]}, "/days"),
            ({"every": None, "zone": "UTC"}, "/zone"),
            ({"until": "+5m"}, "/until"),
        ],
    )
    def test_what_cannot_recur_is_refused(
        self, service: Service, more: dict[str, Any], pointer: str
    ) -> None:
        """With where, and what would be right."""
        answer = self._plan(service, **more)
        assert answer.status_code == 400, answer.get_data(as_text=True)
        assert answer.get_json()["errors"][0]["pointer"] == pointer
