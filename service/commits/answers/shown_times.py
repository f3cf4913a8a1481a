"""How the API shows the times of a reservation: ends, window and history, by the calendar too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.reservations.reservation import NEVER, Reservation
from rdl.durations import rfc3339_text
from rdl.time_grid import TimeGrid
from service.windows import Window


def history_of(reservation: Reservation, grid: TimeGrid) -> Iterator[dict[str, Any]]:
    """Yield the history as the API shows it: with each instant by the calendar."""
    for one in reservation.history:
        entry = one.to_json()
        yield {"at": entry["at"], "at_at": rfc3339_text(grid.instant_at(one.at_ms)), **entry}


def times_of(begin: int, finish: int, window: Window | None, grid: TimeGrid) -> dict[str, Any]:
    """Return begin and finish, which is null for what has no end, and the window; steps given."""
    entry: dict[str, Any] = {"begin": grid.seconds(begin), "begin_at": _at(begin, grid)}
    endless = finish == NEVER
    entry["finish"] = None if endless else grid.seconds(finish)
    entry["finish_at"] = None if endless else _at(finish, grid)
    entry["window"] = _window(window, grid)
    return entry


def _window(window: Window | None, grid: TimeGrid) -> list[int | float] | None:
    return None if window is None else [grid.seconds(step) for step in window]


def _at(step: int, grid: TimeGrid) -> str:
    return rfc3339_text(grid.instant_at(grid.ms(step)))
