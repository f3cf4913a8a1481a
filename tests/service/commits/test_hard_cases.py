"""Requests and clusters at the edge, from outside: answered, and no trouble to anyone else."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.agents import AGENT_NAMES
from tests.service.conftest import CLUSTER, Open, Service

WITHOUT_A_SOLVER = [name for name in AGENT_NAMES if name != "milp"]
WHOLE = "window(atom(<1 cpu>, 10, 10, 1h, 10h), {}, {})"


def lose(service: Service, machines: int, start: str, end: str) -> None:
    """Take machines away from under what stands."""
    cluster = service.client.get("/v1/cluster").get_json()
    outage = {"machines": "plain", "count": machines, "start": start, "end": end}
    answer = service.client.put(
        "/v1/cluster", json={**cluster, "outages": [outage]}, headers={"If-Match": "*"}
    )
    assert answer.status_code == 200, answer.get_data(as_text=True)


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("agent", WITHOUT_A_SOLVER)
def test_over_committed_at_one_instant_refuses_nothing_elsewhere(
    open_service: Open, agent: str
) -> None:
    """Half the machines are lost under a reservation: before, after and around it is capacity."""
    service = open_service(agent_s=100.0)  # a busy machine starts some agents' processes late
    service.reserve("standing", WHOLE.format("+1h", "+2h"))
    lose(service, 5, "1h", "2h")

    service.reserve("after", WHOLE.format("+2h", "+3h"), agent=agent)
    service.reserve("before", WHOLE.format("+0", "+1h"), agent=agent)
    around = service.reserve(
        "around", "window(atom(<1 cpu>, 10, 10, 1h, 10h), +0, +4h)", agent=agent
    )

    assert around["atoms"][0]["allocation"] == [[10_800, 14_400, 10]]
    inside = service.ask("inside", "window(atom(<1 cpu>, 1, 1, 1m, 1m), +1h, +2h)", agent=agent)
    assert inside.get_json()["code"] == "capacity"
    assert "no cpu is left" in inside.get_json()["detail"]


@pytest.mark.parametrize(
    ("window", "status"),
    [("+1h, +1h", 400), ("+1h, +30m", 400), ("0, 30m", 422), ("30m, 1h", 422), ("+10s, +50s", 422)],
)
def test_windows_without_time_are_refused(service: Service, window: str, status: int) -> None:
    """Zero-length, backwards, past, ended now, or within a step: each is told, with its place."""
    service.clock.advance(3600)

    answer = service.ask("r", f"window(atom(<1 cpu>, 1, 1, 1m, 1m), {window})")

    assert answer.status_code == status, answer.get_json()
    assert answer.get_json()["errors"][0]["span"]


def test_a_window_that_has_begun_is_used_from_now(service: Service) -> None:
    """What is left of a window counts, not what is past."""
    service.clock.advance(3600)

    body = service.reserve("r", "window(atom(<1 cpu>, 1, 10, 1m, 10m), 0, 2h)")

    assert all(start >= 3600 for start, _, _ in body["atoms"][0]["allocation"])


@pytest.mark.parametrize("bundle", ["<2 cpu>", "<1 cpu, 5 GiB memory>", "<1 gpu>"])
def test_a_bundle_that_no_machine_holds(service: Service, bundle: str) -> None:
    """It is unsatisfiable although the cluster as a whole has as much, and nothing is offered."""
    rdl = f"atom({bundle}, 1, 1, 1m, 1m)"

    answer = service.ask("r", rdl)
    search = service.client.post("/v1/offers", json={"rdl": rdl}).get_json()

    assert (answer.status_code, answer.get_json()["code"]) == (422, "unsatisfiable")
    assert (search["refusal"]["code"], search["offers"]) == ("unsatisfiable", [])


@pytest.mark.parametrize(
    ("bundle", "height"), [("<500m cpu, 4 GiB memory>", 11), ("<1 cpu, 1 GiB memory>", 11)]
)
def test_larger_than_the_cluster_in_one_resource_only(
    service: Service, bundle: str, height: int
) -> None:
    """Eleven at once: one resource has not enough for a gang, and ten are offered."""
    rdl = f"window(atom({bundle}, {height}, {height}, 1m, {height}m), +0, +10m)"

    answer = service.ask("r", rdl)
    search = service.client.post("/v1/offers", json={"rdl": rdl}).get_json()

    assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
    sizes = [one for one in search["offers"] if one["change"]["kind"] == "size"]
    assert f"atom({bundle}, 10, 10, 60, 600)" in sizes[0]["expression"]


@pytest.mark.parametrize("agent", WITHOUT_A_SOLVER)
def test_a_weight_of_nothing_is_planned(service: Service, agent: str) -> None:
    """It is worth nothing, and holds what it asks for like any other."""
    body = service.reserve("r", WHOLE.format("+0", "+1h"), weight=0, agent=agent)

    assert body["weight"] == 0.0
    assert body["atoms"][0]["allocation"] == [[0, 3600, 10]]


def test_a_window_of_a_million_steps(open_service: Open, cluster_file: Path) -> None:
    """Twelve days of seconds: admitted, refused, and offered where offers have their time."""
    cluster_file.write_text(CLUSTER.replace('"60s"', '"1s"').replace('"4h"', "1000000"))
    service = open_service(offer_s=30.0)
    window = "window(atom(<1 cpu>, 1, 10, 1000, {}), 0, 1000000)"

    service.reserve("half", window.format(5_000_000))
    answer = service.ask("r", window.format(6_000_000))

    refusal = answer.get_json()["refusal"]
    assert (answer.status_code, refusal["code"]) == (409, "capacity")
    assert len(refusal["offers"]) <= 3
    assert refusal["offers"][0]["change"]["kind"] == "size"
    service.reserve("smaller", refusal["offers"][0]["expression"])
