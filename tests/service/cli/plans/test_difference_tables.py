"""The table of what differs between two Plans."""

from __future__ import annotations

from typing import Any

import pytest

from planner.workload.diff import ChangeKind
from service.cli.plan_files import difference_rows, print_differences


def _difference(*fates: tuple[str, ChangeKind, float]) -> dict[str, Any]:
    requests = [
        {
            "id": id_,
            "fate": fate.value,
            "before": "accepted",
            "after": "accepted",
            "start": [0, 0],
            "end": [1, 1],
            "moved": moved,
        }
        for id_, fate, moved in fates
    ]
    counts = {fate.value: sum(one[1] is fate for one in fates) for fate in ChangeKind}
    return {"same": 7, "counts": counts, "requests": requests}


def test_losses_come_first_and_of_one_fate_the_largest_move() -> None:
    """Lost, gone and degraded stand above all others, whatever the plans' order; every fate has a
    place."""
    fates = [(fate.value, fate, 0.0) for fate in ChangeKind]
    given = _difference(("near", ChangeKind.MOVED, 2.0), ("far", ChangeKind.MOVED, 30.0), *fates)
    ids = [row[0] for row in difference_rows(given)[1]]
    assert ids[:3] == ["lost", "gone", "degraded"]
    assert ids.index("far") < ids.index("near")
    assert len(ids) == len(ChangeKind) + 2


def test_a_long_table_shows_the_one_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 61 rows 50 are shown, and the loss that the plan has last is the first of them."""
    moved = [(f"m{number}", ChangeKind.MOVED, 1.0) for number in range(60)]
    print_differences(_difference(*moved, ("unlucky", ChangeKind.LOST, 0.0)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 lost, 60 moved, 7 the same"
    assert lines[5].split()[:2] == ["unlucky", "lost"]
    assert lines[-1] == "... and 11 more"


def test_a_server_s_times_are_by_the_calendar_for_people(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where a diff names its origin a table shows instants; CSV keeps seconds for programs."""
    given = _difference(("early", ChangeKind.MOVED, 1.0))
    given["requests"][0] |= {"start": [3600, None], "end": [7200, None]}
    given |= {"origin": "2026-01-05T00:00:00Z", "zone": "Europe/Berlin"}
    print_differences(given)
    *_, said, _, _, last = capsys.readouterr().out.splitlines()
    assert said.startswith("times in Europe/Berlin; moved: ")
    assert last.split() == ["early", "moved", "2026-01-05", "02:00", "–", "1.000"]
    assert difference_rows(given)[1][0][4:8] == [3600, None, 7200, None]
