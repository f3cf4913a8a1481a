"""Requests over HTTP are longer by the start delay that was learnt, where the policy says so."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.entitlements.start_delay import StartDelayTable, size_class
from rdl.resources import Resources
from service.dispatching.records import in_seconds, keep_delays, read_delays
from tests.service.conftest import Open, Service

_ASKED = "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 10m, 20m), +0, +2h)"
_SMALL, _LARGE = (Resources.of({"cpu": 1000 * cpus, "memory": 1024 * cpus}) for cpus in (1, 4))


def _learn(service: Service, seconds: int, size: Resources = _SMALL) -> None:
    table = StartDelayTable({size_class(size): 1000 * seconds})
    keep_delays(service.runtime.dispatcher.store, table)


def _allow(service: Service) -> None:
    answer = service.client.put("/v1/dispatch/policy", json={"allow_start": True})
    assert answer.get_json()["allow_start"] is True


def _lease_s(body: dict[str, Any]) -> float:
    start, end, _ = body["atoms"][0]["allocation"][0]
    return float(end - start)


def test_a_request_is_longer_by_the_delay_and_says_so(still: Service) -> None:
    """Two minutes: ten become twelve, for both bundles; the text shows what is held."""
    _learn(still, 120)
    _allow(still)
    body = still.reserve("r", _ASKED)
    assert _lease_s(body) == 720
    assert body["notes"] == [
        "each lease of <1 cpu, 1 GiB memory> is 2m longer than asked for: work of that size starts "
        "so late here"
    ]
    assert "12m" in body["expression"] or "720" in body["expression"]


def test_nothing_is_added_unless_the_policy_says_so(still: Service) -> None:
    """It is off by default."""
    _learn(still, 120)
    body = still.reserve("r", _ASKED)
    assert (_lease_s(body), body["notes"]) == (600, [])


@pytest.mark.parametrize("size", [None, _LARGE])
def test_nothing_is_added_where_work_of_that_size_starts_at_once(
    still: Service, size: Resources | None
) -> None:
    """Nothing was learnt, or of larger work alone."""
    if size is not None:
        _learn(still, 120, size)
    _allow(still)
    body = still.reserve("r", _ASKED)
    assert (_lease_s(body), body["notes"]) == (600, [])


def test_a_change_is_taken_as_it_is_written(still: Service) -> None:
    """Who reads a reservation and writes it again gets no more than it has."""
    _learn(still, 120)
    _allow(still)
    body = still.reserve("r", _ASKED)
    changed = still.client.put(
        "/v1/reservations/r", json={"rdl": body["expression"]}, headers={"If-Match": '"1"'}
    )
    assert _lease_s(changed.get_json()) == 720


def test_what_the_leader_learnt_is_allowed_for_by_every_process(open_service: Open) -> None:
    """In whole seconds, rounded up."""
    first, second = (open_service(tick_s=0) for _ in range(2))
    table = in_seconds(StartDelayTable({("cpu", 10): 1201, ("memory", 3): 0}))
    keep_delays(first.runtime.dispatcher.store, table)
    found = read_delays(second.runtime.dispatcher.store)
    assert found.delays_ms == {("cpu", 10): 2000, ("memory", 3): 0}


def test_a_request_that_was_read_before_the_policy_changed_is_notified(open_service: Open) -> None:
    """Another process has changed it: the request is not planned by the old one, and then is."""
    one, two = open_service(tick_s=0), open_service(tick_s=0)
    _learn(one, 120)
    _allow(one)
    refused = two.ask("r", _ASKED)
    assert (refused.status_code, refused.get_json()["code"]) == (409, "conflict")
    assert "ask again" in refused.get_json()["detail"]
    assert _lease_s(two.reserve("r", _ASKED)) == 720
