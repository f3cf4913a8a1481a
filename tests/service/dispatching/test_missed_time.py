"""Time of a reservation that passed without its work is owed again, whoever led meanwhile."""

from __future__ import annotations

from typing import Any

from tests.patience import eventually
from tests.service.applying import an_application, shown_of, submit_one
from tests.service.conftest import Service


def _shown(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get("/v1/reservations/r").get_json()
    return found


def _held(service: Service) -> list[list[float]]:
    """Return from when, until when and how many of what is held."""
    return [row for atom in _shown(service)["atoms"] for row in atom["allocation"]]


def _words(service: Service) -> list[str]:
    return [entry["what"] for entry in _shown(service)["history"]]


def _reserve(service: Service, window_s: int) -> None:
    """Reserve two cores for the first minute of a window, for work that is there at once."""
    rdl = f"window(atom(<1 cpu>, 2, 2, 60, 120), +0, +{window_s}s)"
    service.reserve("r", rdl, agent="earliest")
    submit_one(service, "a", an_application(2, reservation="r", size=60))
    assert _held(service) == [[0, 60, 2]]


def _tick_until(service: Service, word: str) -> None:
    """Tick until the reservation's history has a word."""

    def told() -> bool:
        service.runtime.dispatcher.tick()
        return word in _words(service)

    eventually(told)


def test_a_slot_that_passes_while_no_one_leads_is_planned_again(still: Service) -> None:
    """Down over its minute: the work is promised another in the same window, and does it."""
    _reserve(still, 600)
    still.clock.advance(120)
    _tick_until(still, "restored")
    assert _words(still) == ["admitted", "missed", "restored"]
    ((start, end, bundles),) = _held(still)
    assert start >= 120
    assert end <= 600
    assert bundles == 2
    still.clock.advance(61)

    def done() -> bool:
        still.runtime.dispatcher.tick()
        return bool(shown_of(still, "a")["state"] == "completed")

    eventually(done)


def test_a_slot_that_passes_at_the_end_of_its_window_breaks_its_promise(still: Service) -> None:
    """No room is left: the reservation fails, says when its work had no machines, and counts."""
    _reserve(still, 60)
    still.clock.advance(120)
    _tick_until(still, "failed")
    assert _words(still) == ["admitted", "missed", "failed"]
    assert "did not run from" in _shown(still)["history"][1]["detail"]
    counts = still.client.get("/v1/promises").get_json()["tenants"][0]
    assert (counts["promised"], counts["kept"], counts["failed"]) == (1, 0, 1)


def test_work_that_ran_in_its_slot_is_owed_nothing(still: Service) -> None:
    """It runs on past its minute: that it asked for too little is its owner's affair."""
    rdl = "window(atom(<1 cpu>, 2, 2, 60, 120), +0, +600s)"
    still.reserve("r", rdl, agent="earliest")
    submit_one(still, "a", an_application(2, reservation="r"))
    still.runtime.dispatcher.tick()
    still.clock.advance(180)
    eventually(lambda: _shown(still)["state"] == "completed")
    still.runtime.dispatcher.tick()
    assert _words(still) == ["admitted"]
    assert shown_of(still, "a")["state"] == "running"
