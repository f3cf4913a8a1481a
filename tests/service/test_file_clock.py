"""The clock of demonstrations: set and paced by a file, the same for all who read it."""

from __future__ import annotations

from pathlib import Path

from service.clock import FileClock, ManualClock, set_pace


def test_time_goes_as_fast_as_the_file_says(tmp_path: Path) -> None:
    """Two seconds at 600 are twenty minutes; a new pace continues from what was shown."""
    path, machine = tmp_path / "clock.json", ManualClock()
    set_pace(path, 1_000, 600.0, machine)
    one, other = FileClock(path, machine), FileClock(path, machine)
    assert one.now_ms() == 1_000

    machine.advance(2)
    assert one.now_ms() == other.now_ms() == 1_000 + 1_200_000

    set_pace(path, one.now_ms(), 1.0, machine)
    machine.advance(3)
    assert one.now_ms() == other.now_ms() == 1_000 + 1_200_000 + 3_000
