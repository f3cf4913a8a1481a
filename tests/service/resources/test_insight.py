"""Why and when: explanations, estimates of starts, and the outcome of promises."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.accounts.promises import Shortfall
from rdl.durations import parse_instant
from service.access.user import Role, User
from service.problems import ApiProblemError
from service.resources.explanation import HolderView, explain_reservation
from service.resources.promises import PromiseQuery, get_promises
from service.resources.start_estimate import estimate_start
from tests.service.applying import an_application, submit_one
from tests.service.conftest import Service

_BOB = User("bob", Role.USER, frozenset({"ml"}))
_FULL = "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)"


def _get(service: Service, path: str) -> Any:
    answer = service.client.get(path)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def _explained(service: Service, id_: str) -> Any:
    return _get(service, f"/v1/reservations/{id_}/explanation")


class TestExplanations:
    def test_say_what_kept_it_from_beginning_earlier(self, service: Service) -> None:
        """Where others hold the room before it: the last instant, what is short, and who has it."""
        service.reserve("first", _FULL, tenant="ads")
        service.reserve("after", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 0, 2h)", agent="earliest")
        told = _explained(service, "after")
        assert told["bound"] == "capacity"
        assert (told["begin"], told["window"]) == (3600, [0, 7200])
        binding = told["binding"]
        assert (binding["at"], binding["resource"]) == (3540, "cpu")
        assert (binding["needed"], binding["free"]) == (2, 0)
        assert told["holders"] == [
            {"tenant": "ads", "count": 1, "amount": 10, "reservations": ["first"]}
        ]
        assert told["slack"] == {"before": 3600, "after": 3000}

    def test_say_that_its_window_binds_it(self, service: Service) -> None:
        """What begins where its window begins could not begin earlier."""
        service.reserve("a", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 30m, 2h)", agent="earliest")
        told = _explained(service, "a")
        assert (told["bound"], told["binding"], told["holders"]) == ("window", None, [])

    def test_show_other_agents_places(self, service: Service) -> None:
        """Of what has not begun: where each quick agent would put it now; of what has, nothing."""
        service.reserve("a", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 30m, 2h)", agent="gree")
        told = {one["agent"]: one for one in _explained(service, "a")["alternatives"]}
        assert told["earliest"]["begin"] == 1800
        assert [name for name, one in told.items() if one["taken"]] == ["gree"]
        service.reserve("b", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 0, 10m)")
        assert _explained(service, "b")["alternatives"] == []

    def test_tell_the_options_not_taken(self, service: Service) -> None:
        """Of each choice in the request: which was taken, of how many."""
        rdl = "window(any(atom(<1 cpu>, 2, 2, 10m, 20m), atom(<1 cpu>, 1, 1, 10m, 20m)), 30m, 2h)"
        service.reserve("a", rdl)
        (told,) = _explained(service, "a")["options"]
        assert (told["taken"], told["options"]) == (0, 2)

    def test_of_a_refusal_name_who_holds_the_capacity(self, service: Service) -> None:
        """Counts and amounts by tenant, and names of the reservations."""
        service.reserve("x", "window(atom(<1 cpu>, 4, 4, 1h, 4h), 0, 1h)", tenant="ads")
        service.reserve("y", "window(atom(<1 cpu>, 6, 6, 1h, 6h), 0, 1h)", tenant="ml")
        assert service.ask("no", _FULL, tenant="ml").status_code == 409
        told = _explained(service, "no")
        assert (told["state"], told["code"]) == ("refused", "capacity")
        assert [(one["tenant"], one["amount"]) for one in told["holders"]] == [
            ("ml", 6),
            ("ads", 4),
        ]

    def test_hide_others(self, service: Service) -> None:
        """A user reads how much others hold together; of their things it is shown nothing."""
        service.reserve("x", "window(atom(<1 cpu>, 4, 4, 1h, 4h), 0, 1h)", tenant="ads")
        service.ask("no", _FULL, tenant="ml")
        told = explain_reservation(service.runtime, "no", _BOB)
        assert told.holders == [HolderView(tenant=None, count=1, amount=4, reservations=None)]
        with pytest.raises(ApiProblemError, match="not_found"):
            explain_reservation(service.runtime, "x", _BOB)
        with pytest.raises(ApiProblemError, match="not_found"):
            explain_reservation(service.runtime, "none", _BOB)


class TestEstimates:
    def test_wait_for_what_the_plan_promises(self, still: Service) -> None:
        """Without anybody before it, it starts where the Plan leaves capacity for its cores."""
        still.reserve("full", _FULL)
        submit_one(still, "x", an_application(2, size="10m"))
        told = _get(still, "/v1/applications/x/estimate")
        assert (told["basis"], told["start"]) == ("queue", 3600)
        assert told["start_at"] == "2026-01-05T01:00:00Z"

    def test_wait_for_those_before_it(self, still: Service) -> None:
        """Work submitted earlier is laid first, for as long as its size says."""
        submit_one(still, "x", an_application(8, size="10m"))
        still.clock.advance(1)
        submit_one(still, "y", an_application(8, size="10m"))
        told = _get(still, "/v1/applications/y/estimate")
        assert (told["before"], told["without_size"]) == (1, 0)
        assert told["start"] == 600

    def test_cannot_be_reported_behind_work_without_an_end(self, still: Service) -> None:
        """What has no size is counted as if it never ended."""
        submit_one(still, "x", an_application(8))
        still.clock.advance(1)
        submit_one(still, "y", an_application(8, size="10m"))
        told = _get(still, "/v1/applications/y/estimate")
        assert (told["basis"], told["start"], told["without_size"]) == ("none", None, 1)

    def test_of_a_reservation_are_its_begin(self, still: Service) -> None:
        """What runs under a reservation starts where that holds something."""
        still.reserve("r", "window(atom(<1 cpu>, 2, 2, 10m, 20m), 30m, 40m)")
        submit_one(still, "x", an_application(2), reservation="r")
        told = _get(still, "/v1/applications/x/estimate")
        assert (told["basis"], told["start"]) == ("reservation", 1800)

    def test_of_what_runs_are_its_start(self, still: Service) -> None:
        """Once it has started there is nothing to estimate."""
        submit_one(still, "x", an_application(2))
        still.runtime.dispatcher.tick()
        still.clock.advance(1)
        still.runtime.dispatcher.tick()
        assert _get(still, "/v1/applications/x/estimate")["basis"] == "started"

    def test_are_not_for_others(self, still: Service) -> None:
        """A user does not learn that an application of another tenant exists."""
        submit_one(still, "x", an_application(2), tenant="ads")
        with pytest.raises(ApiProblemError, match="not_found"):
            estimate_start(still.runtime, "x", _BOB)


class TestPromises:
    def test_are_counted_by_tenant(self, still: Service) -> None:
        """Kept, cancelled and degraded ones, each for the tenant that has it."""
        still.reserve("a", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant="ads")
        still.reserve("b", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 1h)", tenant="ads")
        assert still.client.delete("/v1/reservations/b").status_code == 200
        still.reserve("c", "window(atom(<1 cpu>, 9, 9, 1h, 9h), 0, 1h)", tenant="ml")
        lost = {"machines": "plain", "count": 5, "end": "+3h"}
        assert still.client.post("/v1/cluster/outages", json=lost).status_code == 201
        told = {one["tenant"]: one for one in _get(still, "/v1/promises?to=1h")["tenants"]}
        assert (told["ads"]["promised"], told["ads"]["kept"]) == (1, 1)
        assert told["ads"]["cancelled"] == 1
        assert (told["ml"]["degraded"], told["ml"]["kept"]) == (1, 0)

    @pytest.mark.parametrize(
        ("start", "end", "repaired_s", "kept", "degraded"),
        [
            pytest.param("2h", "3h", 600, 1, 0, id="repaired before the first start"),
            pytest.param("0", "1h", 600, 0, 1, id="lost while work runs short"),
            pytest.param("2h", "3h", None, 1, 0, id="lost, and not due yet"),
        ],
    )
    def test_are_broken_only_if_machines_were_missing_while_due(
        self,
        still: Service,
        start: str,
        end: str,
        repaired_s: int | None,
        kept: int,
        degraded: int,
    ) -> None:
        """What is lost and restored before its first start is kept."""
        window = f"{start}, {end}"
        still.reserve("c", f"window(atom(<1 cpu>, 9, 9, 1h, 9h), {window})", tenant="ml")
        still.clock.advance(300)
        lost = {"machines": "plain", "count": 5, "end": "+4h"}
        assert still.client.post("/v1/cluster/outages", json=lost).status_code == 201
        assert _get(still, "/v1/reservations/c")["state"] == "degraded"
        counts = _get(still, "/v1/plan/counts?from=0&to=3h")["states"]
        assert (counts["degraded"], counts["accepted"] + counts["active"]) == (1, 0)
        if repaired_s is not None:
            still.clock.advance(repaired_s)
            outage = _get(still, "/v1/cluster")["outages"][0]["id"]
            assert still.client.delete(f"/v1/cluster/outages/{outage}").status_code == 200
        told = _get(still, "/v1/promises?to=3h")["tenants"][0]
        broken = told["degraded"] + told["failed"]
        assert (told["promised"], told["kept"], broken) == (1, kept, degraded)

    def test_are_broken_where_work_lacked_machines_for_longer_than_a_start(
        self, still: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A tenth of its time below its entitlement is no start any more."""
        short = Shortfall(frozenset({"a"}), frozenset())
        monkeypatch.setattr("service.dispatching.tenure.shortfall", lambda *_: short)
        still.reserve("a", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant="ads")
        submit_one(still, "x", an_application(1), tenant="ads", reservation="a")
        found = []
        for _ in range(3):
            still.runtime.dispatcher.tick()
            still.clock.advance(40)
            found.append(_get(still, "/v1/promises?to=1h")["tenants"][0]["kept"])
        assert found == [1, 0, 0]

    def test_are_late_where_work_ends_after_them(self, still: Service) -> None:
        """An application that runs on when its reservation is over had what was promised."""
        still.reserve("a", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant="ads")
        submit_one(still, "x", an_application(1), tenant="ads", reservation="a")
        still.runtime.dispatcher.tick()
        still.clock.advance(3600)
        told = _get(still, "/v1/promises")["tenants"][0]
        assert (told["late"], told["kept"]) == (1, 1)

    def test_are_broken_where_work_waited_and_nothing_led(self, still: Service) -> None:
        """The next process that leads finds that the time passed without the work."""
        still.reserve("a", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant="ads")
        submit_one(still, "x", an_application(1), tenant="ads", reservation="a")
        still.clock.advance(3600)
        for _ in range(2):
            still.runtime.dispatcher.tick()
            still.clock.advance(60)
        told = _get(still, "/v1/promises")["tenants"][0]
        assert (told["late"], told["kept"]) == (1, 0)

    def test_are_counted_over_time(self, still: Service) -> None:
        """Each part of a time has those that end in it; together they are all."""
        for id_, minute in (("a", 0), ("b", 120), ("c", 120)):
            window = f"{minute}m, {minute + 10}m"
            still.reserve(id_, f"window(atom(<1 cpu>, 1, 1, 10m, 10m), {window})")
        told = _get(still, "/v1/promises?from=0&to=3h&step=1h")
        assert [one["promised"] for one in told["times"]] == [1, 0, 2]
        assert [one["from"] for one in told["times"]] == [0, 3600, 7200]
        answer = still.client.get("/v1/promises?from=0&to=3h&step=1s")
        assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "?step")

    def test_tell_the_time_below(self, still: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ticks in which a reservation is owed machines add up, for its tenant."""
        short = Shortfall(frozenset({"a"}), frozenset())
        monkeypatch.setattr("service.dispatching.tenure.shortfall", lambda *_: short)
        still.reserve("a", _FULL, tenant="ads")
        submit_one(still, "x", an_application(2), tenant="ads", reservation="a")
        for _ in range(3):
            still.runtime.dispatcher.tick()
            still.clock.advance(20)
        told = _get(still, "/v1/promises?to=1h")["tenants"][0]
        assert told["below_s"] == 60

    def test_of_others_are_one_count(self, still: Service) -> None:
        """A user reads its own tenants, and all others together."""
        for tenant in ("ads", "feed", "ml"):
            still.reserve(tenant, "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant=tenant)
        query = PromiseQuery(from_=parse_instant("0"), to=parse_instant("600"))
        told = get_promises(still.runtime, _BOB, query).tenants
        assert [(one.tenant, one.promised) for one in told] == [("ml", 1), (None, 2)]

    def test_of_a_time_that_is_none_are_an_error(self, still: Service) -> None:
        """A time has to end after it starts."""
        answer = still.client.get("/v1/promises?from=2h&to=1h")
        assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "?from")


class TestRefusalsThatNameHolders:
    def test_say_the_whole_in_one_sentence(self, service: Service) -> None:
        """What is needed by its name, what is free until when, and who holds the rest."""
        for id_, window in (("x", "40m, 80m"), ("y", "50m, 90m")):
            service.reserve(id_, f"window(atom(<1 cpu>, 5, 5, 40m, 200m), {window})", tenant="ml")
        asked = {
            "rdl": "window(train: atom(<1 cpu>, 8, 8, 50m, 400m), 0, 1h30m)",
            "tenant": "ads",
        }
        answer = service.client.post("/v1/reservations?holders=true", json=asked)
        told = answer.get_json()
        assert answer.status_code == 409
        assert told["detail"] == (
            "train needs 8 cpu for 50m without a break; the longest free stretch is 40m, until "
            "Mon 2026-01-05 00:40 (UTC), for lack of cpu; held by ml (1 reservation)"
        )
        assert told["refusal"]["binding"]["at_at"] == "2026-01-05T00:40:00Z"

    def test_of_other_tenants_tell_totals(self, service: Service) -> None:
        """Tenants that a user does not act for are others, without names of reservations."""
        service.reserve("x", _FULL, tenant="ads")
        service.ask("no", _FULL, tenant="ml")
        told = explain_reservation(service.runtime, "no", _BOB)
        assert told.held_by == "held by others (1 reservation)"
        assert told.holders[0].reservations is None

    def test_of_an_offer_too(self, service: Service) -> None:
        """What is only asked whether it would fit is given the same."""
        service.reserve("x", _FULL, tenant="ads")
        answer = service.client.post("/v1/offers", json={"rdl": _FULL})
        assert answer.get_json()["refusal"]["held_by"] == "held by ads (1 reservation)"

    def test_name_no_one_where_a_policy_refuses(self, service: Service) -> None:
        """Who holds the machines does not say why a window is too short."""
        asked = {"rdl": "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 30m)"}
        told = service.client.post("/v1/offers", json=asked).get_json()["refusal"]
        assert (told["holders"], told["held_by"]) == ([], "")
