"""Lists, the Plan over time, the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.resources import reservation_pages
from tests.service.conftest import Open, Service

HALF_HOUR = "window(atom(<1 cpu>, 10, 10, 1800, 18000), +{0}m, +{1}m)"

#: Ten minutes at the start of each of three hours.
HOURLY = "every(1h, window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m), times=3)"


def ids(service: Service, query: str = "") -> list[str]:
    """Return the ids of a list."""
    page = service.client.get(f"/v1/reservations{query}").get_json()
    return [one["id"] for one in page["reservations"]]


@pytest.fixture
def filled(service: Service) -> Service:
    """Return a service with four reservations and a refusal."""
    service.reserve("a", HALF_HOUR.format(0, 30), tenant="ads")
    service.reserve("b", HALF_HOUR.format(30, 60), tenant="ml")
    service.reserve("c", HALF_HOUR.format(60, 90), tenant="ads")
    service.reserve("d", HALF_HOUR.format(90, 120), tenant="ml")
    service.ask("e", HALF_HOUR.format(0, 30), tenant="ads")
    service.client.delete("/v1/reservations/d")
    return service


class TestList:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("", "abcde"),
            ("?tenant=ads", "ace"),
            ("?queue=default", "abcde"),
            ("?state=accepted", "abc"),
            ("?state=cancelled", "d"),
            ("?state=refused", "e"),
            ("?from=3600&to=5400", "c"),
            ("?from=%2B1h", "c"),
            ("?to=2026-01-05T00:30:00Z", "ae"),
            ("?tenant=ml&state=accepted&from=0&to=7200", "b"),
        ],
    )
    def test_filters(self, filled: Service, query: str, expected: str) -> None:
        """Tenant, queue, state and time narrow the list, together."""
        assert ids(filled, query) == list(expected)

    def test_pages(self, filled: Service) -> None:
        """Pages joined by their cursors are the whole list, each entry once."""
        found: list[str] = []
        cursor = ""
        while True:
            page = filled.client.get(f"/v1/reservations?limit=2{cursor}").get_json()
            assert len(page["reservations"]) <= 2
            found += [one["id"] for one in page["reservations"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"

        assert found == list("abcde")

    def test_says_what_is_wrong(self, service: Service) -> None:
        """Unknown filters, states and cursors are errors at their place in the query."""
        pointers = [
            service.client.get(f"/v1/reservations?{query}").get_json()["errors"][0]["pointer"]
            for query in ("tennant=x", "state=gone", "cursor=zz", "limit=0", "from=soon", "to=-1x")
        ]

        assert pointers == ["?tennant", "?state", "?cursor", "?limit", "?from", "?to"]

    def test_a_time_that_ends_before_it_starts_is_an_error(self, filled: Service) -> None:
        """`from` after `to` can match nothing, and the answer says so."""
        answer = filled.client.get("/v1/reservations?from=2h&to=1h")

        assert answer.status_code == 400
        error = answer.get_json()["errors"][0]
        assert error["pointer"] == "?from"
        assert error["message"] == "from (7200 s) is after to (3600 s)"

    def test_an_unknown_queue_is_an_error(self, filled: Service) -> None:
        """The answer names the queues that there are; a tenant needs no entry anywhere."""
        answer = filled.client.get("/v1/reservations?queue=defualt")

        assert answer.status_code == 400
        error = answer.get_json()["errors"][0]
        assert error["pointer"] == "?queue"
        assert error["message"] == "there is no queue 'defualt'"
        assert error["fix"] == "did you mean 'default'?"
        assert filled.client.get("/v1/reservations?tenant=nobody").status_code == 200

    def test_a_queue_that_is_gone_is_still_listed(self, service: Service) -> None:
        """Reservations outlive the queue they were requested under."""
        default, old = ({"name": name} for name in ("default", "old"))
        service.client.put(
            "/v1/cluster", json=described(service, queues=[default, old]), headers={"If-Match": "*"}
        )
        service.reserve("a", queue="old")
        put = service.client.put(
            "/v1/cluster", json=described(service, queues=[default]), headers={"If-Match": "*"}
        )

        assert put.status_code == 200
        assert ids(service, "?queue=old") == ["a"]

    def test_between_two_runs_a_recurrence_is_not_listed(self, service: Service) -> None:
        """What returns every hour for ten minutes holds nothing between 20 and 50 past."""
        service.reserve("r", HOURLY)

        assert ids(service, "?from=20m&to=50m") == []
        assert ids(service, "?from=61m&to=62m") == ["r"]
        assert ids(service, "?from=0&to=4h") == ["r"]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("?state=cancelled", ["r1", "r8"]),
            ("?tenant=rare", ["r0", "r9"]),
            ("?from=20m&to=30m", ["r2"]),
            ("?from=90m&to=4h", ["r9"]),
            ("", [f"r{number}" for number in range(10)]),
        ],
    )
    def test_a_page_looks_past_strides_without_a_match(
        self, service: Service, query: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Matches in the first and the last of several strides are all found, each once."""
        monkeypatch.setattr(reservation_pages, "_STRIDE", 3)
        for number in range(10):
            rdl = f"window(atom(<1 cpu>, 1, 1, 10m, 10m), {10 * number}m, {10 * number + 10}m)"
            service.reserve(f"r{number}", rdl, tenant="rare" if number in (0, 9) else "many")
        for id_ in ("r1", "r8"):
            service.client.delete(f"/v1/reservations/{id_}")

        assert ids(service, query) == expected
        assert ids(service, f"{query or '?'}&limit=1") == expected[:1]


class TestPlan:
    def test_adds_up(self, filled: Service) -> None:
        """In every bucket allocated and free make the capacity."""
        body = filled.client.get("/v1/plan").get_json()

        cpu = body["resources"]["cpu"]
        assert body["step"] == 60
        assert cpu["capacity"] == [10] * 240
        assert cpu["allocated"] == [10] * 90 + [0] * 150
        assert [a + f for a, f in zip(cpu["allocated"], cpu["free"], strict=True)] == [10] * 240

    def test_counts_in_buckets(self, filled: Service) -> None:
        """A coarser step shows the most allocated and the least free of each bucket."""
        body = filled.client.get("/v1/plan?from=15m&to=%2B3h&step=1h").get_json()

        assert (body["from"], body["to"], body["step"]) == (900, 10_800, 3600)
        assert body["resources"]["cpu"]["allocated"] == [10, 10, 0]
        assert body["resources"]["memory"]["unit"] == "MiB"

    def test_shows_who_holds_it(self, filled: Service) -> None:
        """On request the reservations that hold something in the time are in it."""
        body = filled.client.get("/v1/plan?from=0&to=1h&reservations=true").get_json()

        assert [one["id"] for one in body["reservations"]] == ["a", "b"]
        assert "reservations" not in filled.client.get("/v1/plan").get_json()

    def test_between_two_runs_a_recurrence_holds_nothing(self, service: Service) -> None:
        """A recurrence is shown where a run of it lies in the time, and nowhere else."""
        service.reserve("r", HOURLY)

        between, within = (
            service.client.get(f"/v1/plan?reservations=true&{query}").get_json()["reservations"]
            for query in ("from=20m&to=50m", "from=20m&to=61m")
        )

        assert between == []
        assert [one["id"] for one in within] == ["r"]

    def test_is_tagged_with_its_version(self, filled: Service) -> None:
        """If-None-Match of the present version, alone or of several, is 304 with no body."""
        tag = filled.client.get("/v1/plan").headers["ETag"]

        same = filled.client.get("/v1/plan", headers={"If-None-Match": tag})
        among = filled.client.get("/v1/plan", headers={"If-None-Match": f'"1", W/{tag}'})
        other = filled.client.get("/v1/plan", headers={"If-None-Match": '"1"'})

        assert (same.status_code, same.get_data()) == (304, b"")
        assert among.status_code == 304
        assert other.status_code == 200

    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            ("?from=2h&to=1h", "?from"),
            ("?from=9h", "?from"),
            ("?step=90", "?step"),
            ("?step=0", "?step"),
            ("?from=1&from=2", "?from"),
        ],
    )
    def test_says_what_is_wrong(self, service: Service, query: str, pointer: str) -> None:
        """A time that is not planned and a step that is no multiple are errors in the query."""
        answer = service.client.get(f"/v1/plan{query}")

        assert answer.status_code == 400
        assert answer.get_json()["errors"][0]["pointer"] == pointer


def described(service: Service, **changes: Any) -> dict[str, Any]:
    """Return the cluster with changes."""
    return {**service.client.get("/v1/cluster").get_json(), **changes}


class TestCluster:
    def test_lets_requests_choose_a_level(self, service: Service) -> None:
        """What cannot be chosen is malformed, with its place; a body without promises keeps all."""
        unknown = service.ask("a", promise="certain").get_json()["errors"][0]
        assert unknown["pointer"] == "/promise"
        assert "pooled, placed" in unknown["message"]
        refused = service.ask("a", promise="pooled")
        assert refused.status_code == 400
        assert refused.get_json()["errors"][0]["pointer"] == "/promise"
        assert "requests_may_choose" in refused.get_json()["detail"]

        promises = {"level": "placed", "requests_may_choose": ["pooled"]}
        service.client.put(
            "/v1/cluster", json=described(service, promises=promises), headers={"If-Match": "*"}
        )
        silent = {key: one for key, one in described(service).items() if key != "promises"}
        service.client.put("/v1/cluster", json=silent, headers={"If-Match": "*"})

        assert described(service)["promises"] == promises
        assert service.reserve("a", promise="pooled")["state"] == "accepted"

    def test_changes_policies_at_run_time(self, service: Service) -> None:
        """A quota put in place limits what comes after it, and lifting it opens the room again."""
        quota = {"type": "quota", "name": "small", "tenant": "ads", "limit": {"cpu": 2}}
        whole = "window(atom(<1 cpu>, 10, 10, 60, 600), +0, +1h)"

        put = service.client.put(
            "/v1/cluster", json=described(service, policies=[quota]), headers={"If-Match": "*"}
        )
        refused = service.ask("a", whole, tenant="ads")
        service.reserve("b", whole, tenant="ml")
        service.client.put(
            "/v1/cluster", json=described(service, policies=[]), headers={"If-Match": "*"}
        )
        service.reserve("c", whole, tenant="ads")

        assert put.status_code == 200
        assert put.get_json()["policies"][0]["name"] == "small"
        assert (refused.status_code, refused.get_json()["code"]) == (409, "quota")

    @pytest.mark.usefixtures("unasked")
    def test_evicts_no_one(self, service: Service) -> None:
        """Fewer machines leave what stands to the adapter, and stop what is new."""
        before = service.reserve("a", "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)")
        machines = described(service)["machines"]

        service.client.put(
            "/v1/cluster",
            json=described(service, machines=[{**machines[0], "count": 5}]),
            headers={"If-Match": "*"},
        )

        kept = service.client.get("/v1/reservations/a").get_json()
        held = [[atom["allocation"] for atom in one["atoms"]] for one in (kept, before)]
        assert held[0] == held[1]
        assert service.ask("b", "window(atom(<1 cpu>,1,1,60,60), +0, +1h)").status_code == 409
        assert service.ask("c", "window(atom(<1 cpu>,6,6,60,360), +1h, +2h)").status_code == 409
        service.reserve("d", "window(atom(<1 cpu>,5,5,60,300), +1h, +2h)")

    def test_is_tagged(self, service: Service) -> None:
        """A change for an older description is 412, for none 428; a dry run needs none."""
        tag = service.client.get("/v1/cluster").headers["ETag"]
        wanted = described(service, horizon="8h")

        first = service.client.put("/v1/cluster", json=wanted, headers={"If-Match": tag})
        second = service.client.put("/v1/cluster", json=wanted, headers={"If-Match": tag})

        assert (first.status_code, second.status_code) == (200, 412)
        assert first.headers["ETag"] != tag
        blind = service.client.put("/v1/cluster", json=wanted)
        assert (blind.status_code, blind.get_json()["code"]) == (428, "revision_required")
        assert service.client.put("/v1/cluster?dry_run=true", json=wanted).status_code == 200

    def test_keeps_step_and_origin(self, service: Service) -> None:
        """What every promise is counted from cannot change; other faults have their pointer."""
        changed = described(service, step="30s", origin="2026-01-06T00:00:00Z")
        wrong = described(service, polices=[])

        answers = [
            service.client.put("/v1/cluster", json=one, headers={"If-Match": "*"})
            for one in (changed, wrong)
        ]

        pointers = [[e["pointer"] for e in one.get_json()["errors"]] for one in answers]
        assert [one.status_code for one in answers] == [400, 400]
        assert pointers == [["/step", "/origin"], ["/polices"]]

    def test_what_others_take_can_be_set_and_removed(self, open_service: Open) -> None:
        """Where no Kubernetes says it; machines have that much less."""
        service = open_service()
        taken = [{"machine": "plain-1", "resources": {"cpu": 0.25}}]
        shown = []
        for some in (taken, []):
            body = {**described(service), "taken": some}
            answer = service.client.put("/v1/cluster", json=body, headers={"If-Match": "*"})
            assert answer.status_code == 200
            kept = [one["machine"] for one in described(service).get("taken", [])]
            assert kept == [one["machine"] for one in some]
            machines = service.client.get("/v1/machines").get_json()["machines"]
            shown.append([one["capacity"]["cpu"] for one in machines[:2]])
        assert shown == [[1, "750m"], [1, 1]]

    def test_a_new_file_is_taken_up_once(self, open_service: Open, cluster_file: Path) -> None:
        """A changed cluster file changes the cluster at the next start; the same file does not."""
        one = open_service()
        one.client.put("/v1/cluster", json=described(one, horizon="6h"), headers={"If-Match": "*"})
        one.runtime.close()
        two = open_service()
        assert described(two)["horizon"] == "6h"
        two.runtime.close()
        cluster_file.write_text(cluster_file.read_text().replace("count = 10", "count = 12"))

        three = open_service()

        assert described(three)["machines"][0]["count"] == 12
        assert described(three)["horizon"] == "4h"
