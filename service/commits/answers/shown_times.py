"""How the API shows the history of a reservation: by the calendar too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.reservations.reservation import Reservation
from rdl.durations import rfc3339_text
from rdl.time_grid import TimeGrid


def history_of(reservation: Reservation, grid: TimeGrid) -> Iterator[dict[str, Any]]:
    """Yield the history as the API shows it: with each instant by the calendar."""
    for one in reservation.history:
        entry = one.to_json()
        yield {"at": entry["at"], "at_at": rfc3339_text(grid.instant_at(one.at_ms)), **entry}
