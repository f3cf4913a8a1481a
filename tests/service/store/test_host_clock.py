"""HostClock: what it records of a clock that is off the database's."""

from __future__ import annotations

import logging

import pytest
import sqlalchemy as sa

from service.clock import ManualClock
from service.store import host_clock
from service.store.host_clock import HostClock


def test_each_worse_difference_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 2 s on, again where it keeps the host from leading, and when it is over."""
    monkeypatch.setattr(logging.getLogger("agenda"), "propagate", True)
    caplog.set_level(logging.INFO, "agenda.service")
    own = ManualClock()
    monkeypatch.setattr(host_clock, "_NOW", sa.text(f"SELECT {own.now_ms()}"))
    clock = HostClock(own, sa.create_engine("sqlite://"))

    for step_s in (0, 5, 0, 295, 0, -290, 0, -10):
        own.advance(step_s)
        clock.measure()

    both = "synchronise both with the same time server"
    assert caplog.messages == [
        f"the clock of this host is 5.0 s ahead of the database's; {both}",
        f"the clock of this host is 300.0 s ahead of the database's; {both}; "
        "it does not lead and is not ready",
        f"the clock of this host is 10.0 s ahead of the database's; {both}; it may lead again",
        "the clock of this host agrees with the database's again",
    ]
