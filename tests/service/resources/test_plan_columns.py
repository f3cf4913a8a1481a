"""The Plan in columns: layers of the skyline, bars, tenants; and what a user sees of others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from planner.colours import colour_of
from planner.metrics import measure
from planner.plan.plan import plan_html
from planner.workload.plan import document_of
from service.access.user import LOCAL_USER, Role, User
from service.pictures.skyline_data import skyline_data
from service.resources.bars import BarSpan, TenantPlace, bars, counts, list_tenants
from service.resources.plan import PlanSpan
from service.resources.skyline import skyline
from tests.patience import eventually
from tests.service.conftest import Service

_ADS = User("ann", Role.USER, frozenset({"ads"}))


def _get(service: Service, path: str) -> Any:
    answer = service.client.get(path)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


@pytest.fixture
def filled(service: Service) -> Service:
    """Return a service whose Plan holds requests of three tenants, one that recurs, one over."""
    service.reserve("a", "window(atom(<1 cpu>, 1, 4, 10m, 40m), 10m, 2h)", tenant="ads")
    service.reserve("b", "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 30m, 60m), 0, 2h)", tenant="ml")
    recurring = "every(1h, window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 1h), anchor=0, until=3h)"
    service.reserve("c", recurring, tenant="feed")
    service.reserve("d", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 3h, 4h)", tenant="ads")
    assert service.client.delete("/v1/reservations/d").status_code == 200
    return service


@pytest.mark.parametrize("step", [60, 420, 3600])
@pytest.mark.parametrize("by", ["tenant", "queue", "state"])
def test_layers_add_up_to_what_is_allocated(filled: Service, by: str, step: int) -> None:
    """In every bucket, whatever its length, the layers are the whole of /v1/plan."""
    for resource in ("cpu", "memory"):
        whole = _get(filled, f"/v1/plan?step={step}")["resources"][resource]
        seen = _get(filled, f"/v1/plan/skyline?resource={resource}&by={by}&step={step}")
        total = np.sum([layer["amounts"] for layer in seen["layers"]], axis=0)
        assert total.tolist() == whole["allocated"]
        assert seen["capacity"] == whole["capacity"]
        assert seen["free"] == whole["free"]


def test_layers_of_tenants_are_apart(filled: Service) -> None:
    """Each tenant is a layer with its place, and one that holds nothing then is none."""
    seen = _get(filled, "/v1/plan/skyline?resource=cpu&to=3h")
    names = [(layer["name"], layer["slot"]) for layer in seen["layers"]]
    assert names == [("ads", 0), ("ml", 2), ("feed", 1)]
    assert sum(seen["layers"][1]["amounts"]) == 60  # 2 cores for 30 minutes


def test_the_scarcest_resource_is_shown_unasked(filled: Service) -> None:
    """Without a resource it is the one with the least share free."""
    assert _get(filled, "/v1/plan/skyline")["resource"] == "cpu"


def test_an_unknown_resource_names_the_nearest(filled: Service) -> None:
    """A resource that there is not is an error with what was meant."""
    answer = filled.client.get("/v1/plan/skyline?resource=cpus").get_json()
    assert answer["errors"][0]["pointer"] == "?resource"
    assert "cpu" in answer["errors"][0]["fix"]


def test_a_user_sees_others_as_one_layer(filled: Service) -> None:
    """Layers of tenants that a user does not act for are joined, and the sum stays the same."""
    span = PlanSpan()
    with filled.runtime.reading() as plan:
        mine = skyline(plan, span, "cpu", "tenant", _ADS)
        whole = skyline(plan, span, "cpu", "tenant", LOCAL_USER)
    assert [(one.name, one.slot) for one in mine.layers] == [("ads", 0), (None, None)]
    totals = [np.sum([layer.amounts for layer in one.layers], axis=0) for one in (mine, whole)]
    assert (totals[0] == totals[1]).all()


def test_bars_are_the_reservations(filled: Service) -> None:
    """Columns say of each what its document says: state, times, window, and every row."""
    seen = _get(filled, "/v1/plan/bars?rows=true")
    assert seen["id"] == ["a", "b", "c"]
    assert [seen["tenants"][n]["name"] for n in seen["tenant"]] == ["ads", "ml", "feed"]
    assert (seen["window_from"][0], seen["window_until"][0]) == (600, 7200)
    place = 0
    for number, id_ in enumerate(seen["id"]):
        one = _get(filled, f"/v1/reservations/{id_}")
        assert seen["states"][seen["state"][number]] == one["state"]
        rows = sorted(row for atom in one["atoms"] for row in atom["allocation"])
        assert seen["begin"][number] == rows[0][0]
        assert seen["finish"][number] == rows[-1][1]
        end = seen["begin"][number]
        for start, finish, bundles in rows:
            assert end + seen["row_after"][place] == start
            assert seen["row_length"][place] == finish - start
            assert seen["row_bundles"][place] == bundles
            end, place = finish, place + 1
    assert place == len(seen["row_length"])


def test_bars_are_narrowed(filled: Service) -> None:
    """To a time, and to a tenant."""
    assert _get(filled, "/v1/plan/bars?from=130m&to=131m")["id"] in (["c"], [])
    assert _get(filled, "/v1/plan/bars?tenant=ml")["id"] == ["b"]
    assert _get(filled, "/v1/plan/bars?tenant=nobody")["id"] == []


def test_bars_follow_a_changed_window(filled: Service) -> None:
    """A reservation that was renegotiated has its new window."""
    _get(filled, "/v1/plan/bars")
    put = filled.client.put(
        "/v1/reservations/a",
        json={"rdl": "window(atom(<1 cpu>, 1, 4, 10m, 40m), 20m, 3h)"},
        headers={"If-Match": "*"},
    )
    assert put.status_code == 200
    seen = _get(filled, "/v1/plan/bars")
    assert (seen["window_from"][0], seen["window_until"][0]) == (1200, 10800)


def test_a_user_sees_bars_of_its_tenants_only(filled: Service) -> None:
    """Of others it is reported how many there are, and nothing else."""
    seen = bars(filled.runtime.reading, filled.runtime.windows, BarSpan(rows=True), _ADS)
    assert (seen.id, seen.others) == (["a"], 2)
    assert seen.tenants == [TenantPlace(name="ads", slot=0)]


def test_tenants_have_their_place_by_name(filled: Service) -> None:
    """Whoever came first; a user does not read the names of others."""
    filled.reserve("e", tenant="aaa")
    known = _get(filled, "/v1/tenants")["tenants"]
    assert known == [
        {"name": name, "slot": slot} for slot, name in enumerate(["aaa", "ads", "feed", "ml"])
    ]
    mine = list_tenants(filled.runtime, _ADS)
    assert mine.tenants == [TenantPlace(name="ads", slot=1)]
    assert mine.others == 3


@pytest.mark.parametrize("path", ["/v1/plan/bars", "/v1/plan/skyline"])
def test_what_is_known_is_not_sent_again(filled: Service, path: str) -> None:
    """A picture of the version that a client has is 304."""
    tag = filled.client.get(path).headers["ETag"]
    assert filled.client.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_of_many_bars_a_part_is_sent(filled: Service) -> None:
    """The first by an order, or some out of all, or those with a word; `total` shows how many."""
    whole = _get(filled, "/v1/plan/bars?from=0")
    assert whole["total"] == len(whole["id"]) >= 3
    begins = sorted(zip(whole["begin"], whole["id"], strict=True))
    first = _get(filled, "/v1/plan/bars?from=0&most=1&order=begin")
    assert (first["total"], first["id"]) == (whole["total"], [begins[0][1]])
    spread = _get(filled, "/v1/plan/bars?from=0&most=2&order=begin&spread=true")
    middle = begins[whole["total"] // 2][1]
    assert sorted(spread["id"]) == sorted([begins[0][1], middle])
    by_tenant = _get(filled, "/v1/plan/bars?from=0&most=1&order=tenant&rows=true")
    assert by_tenant["id"] == ["a"]
    assert by_tenant["rows"] == [len(by_tenant["row_length"])]
    found = _get(filled, "/v1/plan/bars?from=0&find=B")
    assert (found["id"], found["total"]) == (["b"], 1)


def test_a_skyline_shows_the_past_where_it_is_requested(filled: Service) -> None:
    """What was held stays in it; without a start it begins now."""
    before = _get(filled, "/v1/plan/skyline?from=0")
    filled.clock.advance(3600)
    filled.reserve("later", tenant="ads")
    now = _get(filled, "/v1/plan/skyline")
    past = _get(filled, f"/v1/plan/skyline?from=0&to={now['to']:.0f}")
    assert now["from"] == past["now"] == 3600
    held = [sum(column) for column in zip(*(one["amounts"] for one in past["layers"]), strict=True)]
    was = [
        sum(column) for column in zip(*(one["amounts"] for one in before["layers"]), strict=True)
    ]
    assert held[:60] == was[:60]
    assert any(held[:60])
    assert past["free"][60:] == now["free"]
    assert all(
        free + one == most
        for free, one, most in zip(past["free"][:60], held[:60], past["capacity"][:60], strict=True)
    )


def test_counts_are_by_state_and_of_own_tenants(filled: Service) -> None:
    """What holds something in a time by its state; refusals by when they were given."""
    assert filled.ask("y", "window(atom(<1 cpu>, 10, 10, 2h, 20h), 0, 2h)").status_code == 409
    counted = _get(filled, "/v1/plan/counts?from=0")["states"]
    assert counted["accepted"] + counted["active"] == 3
    assert counted["refused"] == 1
    with filled.runtime.reading() as plan:
        own = counts(plan, BarSpan(0, None), _ADS).states
    assert own["accepted"] + own["active"] == 1
    assert own["refused"] == 0


def test_what_lost_all_it_held_counts_where_it_was_held(service: Service) -> None:
    """Cancelled and failed ones hold nothing any more, but are counted (D1)."""
    gang = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 30m)"
    service.reserve("gone", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 3h, 4h)")
    service.reserve("lost", gang)
    service.client.delete("/v1/reservations/gone")
    lost = {"machines": "plain", "count": 5, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=lost).status_code == 201
    service.clock.advance(3600)
    assert eventually(lambda: service.client.get("/v1/reservations/lost").get_json()["state"],
                      "failed".__eq__)  # fmt: skip
    counted = _get(service, "/v1/plan/counts?from=0&to=5h")["states"]
    assert {word: n for word, n in counted.items() if n} == {"cancelled": 1, "failed": 1}


def test_a_tenant_has_one_colour_everywhere(filled: Service) -> None:
    """On the page (its list, lanes and skyline), in a file's pictures, in a notebook (D15)."""
    filled.reserve("e", tenant="aaa")
    listed = {one["name"]: one["slot"] for one in _get(filled, "/v1/tenants")["tenants"]}
    lanes = {one["name"]: one["slot"] for one in _get(filled, "/v1/plan/bars?from=0")["tenants"]}
    layers = _get(filled, "/v1/plan/skyline?from=0&by=tenant")["layers"]
    with filled.runtime.reading() as plan:
        metrics = measure([], plan.cluster.nominal, plan.grid.horizon)
        document = document_of(plan, "gree", "submitted", metrics).to_json()
        notebook = plan_html(plan)
    drawn = {one.name: one.slot for one in skyline_data(document).layers}
    assert listed == lanes == {one["name"]: one["slot"] for one in layers} == drawn
    assert set(listed) == {"aaa", "ads", "feed", "ml"}
    found = re.findall(r'color: (#\w+)">&#9632;</span> (\w+)', notebook)
    assert found == [(colour_of(slot), name) for name, slot in listed.items()]
