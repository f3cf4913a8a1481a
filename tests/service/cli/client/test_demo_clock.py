"""The demo's clock, by a machine's that the test moves: an hour later its day is under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from service.cli import demo as scenes
from service.cli.demo_stage import DayClock, DemoStage
from service.clock import ManualClock

_MIDNIGHT_MS = 1_767_571_200_000


def test_the_day_continues_as_fast_as_the_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the scenes an hour of the machine is an hour of the day (D13)."""
    machine = ManualClock(_MIDNIGHT_MS + 5_000)
    clock = DayClock(tmp_path, machine)
    assert clock.midnight_ms == _MIDNIGHT_MS - 86_400_000

    def scene(*_: Any) -> None:
        machine.advance(24)

    names = (
        "begin_work", "take_an_offer", "end_work", "lose_a_rack", "improve_the_plan",
        "play_nights", "work_on",
    )  # fmt: skip
    monkeypatch.setattr(DayClock, "wait_until", lambda self, hour: scene())
    for name in names:
        monkeypatch.setattr(scenes, name, scene)
    scenes.play_scenes(DemoStage(cast("Any", None), clock, tmp_path))
    played_s = clock.since_midnight_s()
    assert played_s == pytest.approx(6 * 24 * 900 + 24 * 3600 + 24)
    machine.advance(3600)
    assert clock.since_midnight_s() - played_s == pytest.approx(3600)
    assert json.loads((tmp_path / "clock.json").read_text())["speed"] == 1


def test_the_clock_skips_ahead_and_never_back(tmp_path: Path) -> None:
    """Then it runs in real time."""
    machine = ManualClock(_MIDNIGHT_MS)
    clock = DayClock(tmp_path, machine)
    clock.skip_to("2026-01-04T05:00:00Z")
    assert clock.text() == "05:00"
    clock.skip_to("2026-01-04T04:00:00Z")
    machine.advance(60)
    assert clock.text() == "05:01"
