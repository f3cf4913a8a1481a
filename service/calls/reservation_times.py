"""Times beside what plan files say of a reservation: its begin, its finish, its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planner.reservation import NEVER, Reservation
from planner.reservation_state import State
from rdl.compile.context import CompileContext
from rdl.durations import rfc3339_text
from rdl.time_grid import TimeGrid
from service.commits.offer_requests import refusal_with_requests
from service.store.archive import ArchivedRow
from service.windows import Window, window_of_text

if TYPE_CHECKING:
    from service.runtime import Runtime


def with_times(
    runtime: Runtime, entries: Sequence[dict[str, Any]], grid: TimeGrid
) -> list[dict[str, Any]]:
    """Return documents of reservations and refusals; those of reservations with their times.

    `window` is from when and until when the request lets it run, `begin` and `finish` the ends of
    what it holds (`finish` is null for what has no end).
    """
    book = runtime.windows
    with runtime.reading() as plan:
        numbers = [plan.table.number_of(entry["id"]) for entry in entries]
        known = np.array([one for one in numbers if one is not None], dtype=np.int64)
        unread = book.unread(plan, known)
        ends = plan.table.meta[["begin", "finish"]][known].tolist()
        ordinals = plan.table.meta["ordinal"][known].tolist()
        holds = {number: hold for number, hold in plan.table.holds.items() if number in known}
    book.read(unread)
    told = zip(known.tolist(), ends, book.windows(ordinals), strict=True)
    shown = []
    for entry, number in zip(entries, numbers, strict=True):
        if number is None:
            shown.append(entry)
            continue
        _, (begin, finish), window = next(told)
        times = {**_ends(begin, finish, grid), "window": _window(window, grid)}
        if number in holds:
            times["held_until"] = holds[number].until
        shown.append({**entry, **times})
    return shown


def archived_with_times(runtime: Runtime, old: ArchivedRow) -> dict[str, Any]:
    """Return what is shown of one that has left the Plan, with the times that it had there."""
    shown: dict[str, Any] = msgspec.json.decode(old.body)
    if old.state == State.REFUSED.value:
        return refusal_with_requests(shown)
    with runtime.reading() as plan:
        grid, period_ms = plan.grid, plan.cluster.max_period_ms
    context = CompileContext(grid, round(1000 * shown["submitted"]), max_period_ms=period_ms)
    times = _ends(grid.floor(old.begin_ms), grid.floor(old.end_ms), grid)
    history = [
        {"at_at": rfc3339_text(grid.instant_at(round(1000 * entry["at"]))), **entry}
        for entry in shown["history"]
    ]
    window = window_of_text(shown["expression"], context)
    return {**shown, **times, "window": _window(window, grid), "history": history}


def history_of(reservation: Reservation, grid: TimeGrid) -> Iterator[dict[str, Any]]:
    """Yield the history as the API shows it: with each instant by the calendar."""
    for one in reservation.history:
        entry = one.to_json()
        yield {"at": entry["at"], "at_at": rfc3339_text(grid.instant_at(one.at_ms)), **entry}


def _ends(begin: int, finish: int, grid: TimeGrid) -> dict[str, Any]:
    entry: dict[str, Any] = {"begin": grid.seconds(begin), "begin_at": _at(begin, grid)}
    endless = finish == NEVER
    entry["finish"] = None if endless else grid.seconds(finish)
    entry["finish_at"] = None if endless else _at(finish, grid)
    return entry


def _window(window: Window | None, grid: TimeGrid) -> list[int | float] | None:
    return None if window is None else [grid.seconds(step) for step in window]


def _at(step: int, grid: TimeGrid) -> str:
    return rfc3339_text(grid.instant_at(grid.ms(step)))
