"""The clock and the Plan do not agree: nothing is promised, nothing ends, and /readyz says why."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from service.cli.database import clock as clock_command
from service.store import host_clock as clock_guard
from service.store.host_clock import ClockGuard, confirm_clock
from tests.patience import eventually
from tests.service.conftest import Open, Service

_JOB = "window(atom(<1 cpu>, 1, 1, 600, 600), +0, +1h)"


@pytest.fixture
def service(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service whose clock is doubted; the steady clock of its host has stopped."""
    monkeypatch.setattr(clock_guard, "_LOOK_S", 0.05)
    monkeypatch.setattr("service.commits.planner._NAP_S", 0.05)
    service = open_service()
    clock, runtime = service.runtime._clock, service.runtime
    clock._guard = ClockGuard(runtime.store, clock._agreed_ms, lambda: 0, "one")
    return service


def test_a_jump_ahead_ends_nothing_until_it_is_confirmed(service: Service) -> None:
    """What is promised in the next hour is still to come, and no more is promised meanwhile."""
    service.reserve("a", _JOB)
    service.clock.advance(3 * 3600)
    answer = service.client.get("/readyz")
    assert (answer.status_code, answer.get_json()["code"]) == (503, "clock_unconfirmed")
    assert service.client.get("/v1/reservations/a").get_json()["state"] == "accepted"
    refused = service.ask("b", _JOB)
    assert (refused.status_code, refused.get_json()["code"]) == (503, "clock_unconfirmed")
    assert service.client.delete("/v1/reservations/a").status_code == 200

    confirm_clock(service.runtime.store, service.clock.now_ms())
    eventually(lambda: service.client.get("/readyz").status_code, (200).__eq__)
    service.reserve("c", _JOB)
    with service.runtime.reading() as plan:
        assert plan.now == 180


def test_a_plan_ahead_of_the_clock_is_not_ready_and_says_so(service: Service) -> None:
    """After a jump that was confirmed though the clock was wrong."""
    service.reserve("a", _JOB)
    service.clock.advance(3 * 3600)
    assert service.client.get("/readyz").status_code == 503
    confirm_clock(service.runtime.store, service.clock.now_ms())
    eventually(lambda: service.client.get("/readyz").status_code, (200).__eq__)
    service.reserve("b", _JOB)
    service.clock.advance(-3 * 3600)
    answer = service.client.get("/readyz")
    assert (answer.status_code, answer.get_json()["code"]) == (503, "plan_ahead")
    refused = service.ask("c", _JOB)
    assert (refused.status_code, refused.get_json()["code"]) == (503, "plan_ahead")


def test_the_command_confirms_on_the_database(service: Service) -> None:
    """It writes what processes of the database look for."""
    url = service.runtime.config.database
    done = CliRunner().invoke(clock_command, ["confirm", "--database", url])
    assert done.exit_code == 0, done.output
    assert service.runtime.store.find_setting("clock_confirmed") is not None
