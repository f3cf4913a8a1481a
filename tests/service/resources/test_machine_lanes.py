"""`GET /v1/machines/lanes`: slots, outages and components of each machine over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.access.user import Role, User
from service.resources.machines import MachineLanesQuery, list_machine_lanes
from service.resources.plan import MOST_BUCKETS
from tests.service.applying import an_application, submit_one
from tests.service.conftest import CLUSTER, Open, Service


@pytest.fixture
def placed(open_service: Open, cluster_file: Path) -> Service:
    """Open a service that promises machines."""
    cluster_file.write_text(CLUSTER + '\n[promises]\nlevel = "placed"\n')
    return open_service(tick_s=0)


def _lanes(service: Service, query: str) -> Any:
    answer = service.client.get(f"/v1/machines/lanes?{query}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def test_a_lane_has_the_slots_of_its_machine(placed: Service) -> None:
    """Of one core a machine, a gang of two has two lanes, each full for its ten minutes."""
    placed.reserve(
        "a", "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 10m, 20m), 30m, 40m)", tenant="ads"
    )
    placed.reserve("b", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 2h, 130m)", tenant="ads")
    told = _lanes(placed, "from=0&to=1h")
    slots = [slot for lane in told["lanes"] for slot in lane["slots"]]
    assert [(one["reservation"], one["start"], one["end"], one["share"]) for one in slots] == [
        ("a", 1800, 2400, 1)
    ] * 2
    assert (len(told["lanes"]), told["left_out"]) == (10, 0)
    bob = User("bob", Role.USER, frozenset({"ml"}))
    hidden = list_machine_lanes(placed.runtime, bob, MachineLanesQuery())
    assert {(s.reservation, s.tenant, s.slot) for lane in hidden.lanes for s in lane.slots} == {
        (None, None, None)
    }


def test_outages_ahead_and_what_runs_are_in_the_lane(placed: Service) -> None:
    outage = {"machines": "plain", "names": ["plain-3"], "start": "+1h", "end": "+2h",
              "kind": "maintenance", "reason": "switch"}  # fmt: skip
    assert placed.client.post("/v1/cluster/outages", json=outage).status_code == 201
    submit_one(placed, "x", an_application(1), tenant="ads")
    placed.runtime.dispatcher.tick()
    told = _lanes(placed, "from=0&to=3h")
    (lane,) = [one for one in told["lanes"] if one["outages"]]
    assert lane["name"] == "plain-3"
    assert lane["outages"] == [
        {"kind": "maintenance", "start": 3600, "end": 7200, "reason": "switch"}
    ]
    runs = [run for one in told["lanes"] for run in one["running"]]
    assert [(run["execution"], run["share"]) for run in runs] == [("x", 1)]
    early = _lanes(placed, "from=0&to=30m&first=2&most=3")
    assert [one["name"] for one in early["lanes"]] == ["plain-2", "plain-3", "plain-4"]
    assert early["left_out"] == 7
    assert not any(one["outages"] for one in early["lanes"])


def test_a_plan_of_many_steps_has_lanes(open_service: Open, cluster_file: Path) -> None:
    """Lanes have no buckets: they reach over more steps than the Plan may have buckets."""
    cluster_file.write_text(CLUSTER.replace('"4h"', '"15d"'))
    told = _lanes(open_service(tick_s=0), "most=1")
    assert (told["from"], told["to"]) == (0, 15 * 86_400)
    assert told["to"] / 60 > MOST_BUCKETS


def test_shares_are_of_what_machines_have(open_service: Open, cluster_file: Path) -> None:
    """A pool is of no machine: all of it on one leaves the machine's share that of its memory."""
    pool = '\n[[pools]]\nname = "seat"\ncount = 2\n\n[promises]\nlevel = "placed"\n'
    cluster_file.write_text(CLUSTER.replace("cpu = 1,", "cpu = 4,") + pool)
    service = open_service(tick_s=0)
    rdl = "window(atom(<1 cpu, 2 GiB memory, 2 seat>, 1, 1, 10m, 10m), 30m, 40m)"
    service.reserve("a", rdl, tenant="ads")
    told = _lanes(service, "from=0&to=1h")
    assert [slot["share"] for lane in told["lanes"] for slot in lane["slots"]] == [0.5]
