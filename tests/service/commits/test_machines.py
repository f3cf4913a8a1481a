"""Promises on machines through HTTP: nothing impossible is promised, and levels are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Open, Service

#: Two machines of 4 cores.
PAIR = """
step = "60s"
horizon = "4h"

[[machines]]
name = "wide"
count = 2
resources = { cpu = 4, memory = "16 GiB" }

[promises]
level = "placed"
requests_may_choose = ["pooled"]
"""

#: Three cores on one machine for an hour; two cores in the same hour.
THREE = "window(atom(<3 cpu>, 1, 1, 1h, 1h), 0, 1h)"
TWO = "window(atom(<2 cpu>, 1, 1, 1h, 1h), 0, 1h)"


@pytest.fixture
def pair(open_service: Open, cluster_file: Path) -> Service:
    """Return a service on two machines that promises slots."""
    cluster_file.write_text(PAIR)
    return open_service()


def scatter(service: Service) -> None:
    """Leave one core on each of the two machines for an hour."""
    for name in ("a", "b"):
        service.reserve(name, THREE)


def slots_of(body: dict[str, Any]) -> list[list[Any]]:
    """Return all slots of a reservation."""
    return [slot for atom in body["atoms"] for slot in atom["slots"]]


def test_two_promises_that_machines_cannot_keep_together_are_never_both_given(
    pair: Service,
) -> None:
    """Each fits alone, totals hold both, and machines do not: the second moves or is refused."""
    pair.reserve("a", "window(atom(<3 cpu>, 2, 2, 1h, 2h), 0, 2h)")
    second = pair.reserve("b", "window(atom(<2 cpu>, 1, 1, 1h, 1h), 0, 2h)")
    held: dict[tuple[str, int], int] = {}
    for name, cores in (("a", 3), ("b", 2)):
        body = pair.client.get(f"/v1/reservations/{name}").get_json()
        assert body["promise"] == "placed"
        for start, end, bundles, machine in slots_of(body):
            for minute in range(int(start), int(end), 60):
                held[machine, minute] = held.get((machine, minute), 0) + bundles * cores
    assert max(held.values()) <= 4
    assert slots_of(second)


def test_a_refusal_for_machines_is_kept_and_says_what_was_short(pair: Service) -> None:
    """422-like refusal in one go: code, binding and plain words; GET shows it again."""
    scatter(pair)
    answer = pair.ask("c", TWO)
    body = answer.get_json()
    assert answer.status_code == 409
    assert body["code"] == "capacity"
    refusal = body["refusal"]
    binding = refusal["binding"]
    assert (binding["kind"], binding["needed"], binding["free"]) == ("machines", 1, 0)
    assert binding["at"] == 0
    assert "machines hold none of them" in body["detail"]
    kept = pair.client.get("/v1/reservations/c").get_json()
    assert kept["state"] == "refused"
    assert kept["binding"] == binding


def test_an_offer_for_lack_of_machines_is_accepted_when_it_is_sent_back(pair: Service) -> None:
    """Each of them, each on the version that it names."""
    scatter(pair)
    body = pair.ask("c", TWO).get_json()
    offers = body["refusal"]["offers"]
    assert offers
    for number, offer in enumerate(offers):
        assert offer["at_version"] == pair.client.get("/v1/plan").get_json()["version"]
        dry = pair.ask(f"d{number}", offer["expression"], query="?dry_run=true")
        assert dry.status_code == 200, dry.get_json()
    assert slots_of(pair.reserve("e", offers[0]["expression"]))


def test_a_dry_run_answers_for_machines_as_the_commit_does(pair: Service) -> None:
    """The same code, words and offers, and nothing is kept."""
    scatter(pair)
    dry = pair.ask("c", TWO, query="?dry_run=true").get_json()
    assert pair.client.get("/v1/reservations/c").status_code == 404
    real = pair.ask("c", TWO).get_json()
    assert (dry["code"], dry["detail"]) == (real["code"], real["detail"])
    told = [[one["expression"] for one in body["refusal"]["offers"]] for body in (dry, real)]
    assert told[0] == told[1]


def test_a_request_chooses_its_level(pair: Service) -> None:
    """What machines refuse, totals promise to anyone who asks for no more."""
    scatter(pair)
    pooled = pair.reserve("c", TWO, promise="pooled")
    assert pooled["promise"] == "pooled"
    assert "slots" not in pooled["atoms"][0]


def test_an_atomic_batch_is_spoilt_by_a_request_without_machines(pair: Service) -> None:
    """Nothing is reserved, and the answer says why."""
    scatter(pair)
    little = "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 1h)"
    batch = [{"id": "x", "rdl": little}, {"id": "y", "rdl": TWO}]
    answer = pair.client.post("/v1/reservations:batch?atomic=true", json=batch)
    told = answer.get_json()
    assert (answer.status_code, told["code"]) == (409, "capacity")
    assert pair.client.get("/v1/reservations/x").status_code == 404


def test_a_renegotiation_without_machines_leaves_all_as_it_was(pair: Service) -> None:
    """It is answered as other refused renegotiations, at once."""
    pair.reserve("a", THREE)
    pair.reserve("b", "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 1h)")
    pair.reserve("c", "window(atom(<3 cpu>, 1, 1, 1h, 1h), 0, 1h)")
    before = pair.client.get("/v1/reservations/b").get_json()
    answer = pair.client.put("/v1/reservations/b", json={"rdl": TWO}, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
    after = pair.client.get("/v1/reservations/b").get_json()
    assert before["atoms"] == after["atoms"]
    assert after["revision"] == 1


def test_a_renegotiation_is_placed_at_other_times_where_machines_have_capacity(
    pair: Service,
) -> None:
    """Totals hold it late in its window, and only earlier a machine does."""
    for name in ("a", "b"):
        pair.reserve(name, "window(atom(<3 cpu>, 1, 1, 1h, 1h), 2h, 3h)")
    pair.reserve("c", "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 3h)")
    wide = "window(atom(<2 cpu>, 1, 1, 1h, 1h), 0, 3h)"
    answer = pair.client.put("/v1/reservations/c", json={"rdl": wide}, headers={"If-Match": '"1"'})
    assert answer.status_code == 200, answer.get_json()
    assert [slot[:2] for slot in slots_of(answer.get_json())] == [[3600, 7200]]


def test_another_level_of_the_cluster_is_for_new_promises(pair: Service) -> None:
    """What stands keeps its slots; what comes is promised totals."""
    scatter(pair)
    cluster = pair.client.get("/v1/cluster").get_json()
    cluster["promises"] = {"level": "pooled"}
    assert (
        pair.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    assert pair.client.get("/v1/reservations/a").get_json()["promise"] == "placed"
    assert pair.reserve("c", TWO)["promise"] == "pooled"


def test_metrics_count_levels_and_refusals_for_machines(pair: Service) -> None:
    """Two slots promises, one of totals, one refusal."""
    scatter(pair)
    pair.ask("c", TWO)
    pair.reserve("d", TWO, promise="pooled")
    plan = pair.client.get("/v1/plan").get_json()
    assert plan["promises"] == {"pooled": 1, "placed": 2}
    text = pair.client.get("/metrics").get_data(as_text=True)
    assert 'agenda_reservations_admitted_total{promise="placed"} 2.0' in text
    assert 'agenda_reservations_admitted_total{promise="pooled"} 1.0' in text
    assert "agenda_refusals_without_machines_total 1.0" in text
