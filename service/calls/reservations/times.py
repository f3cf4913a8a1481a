"""Times beside what plan files say of a reservation: its begin, its finish, its window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rdl.time_grid import TimeGrid
from service.windows import HeldTimes

if TYPE_CHECKING:
    from service.runtime import Runtime


def with_times(
    runtime: Runtime, entries: Sequence[dict[str, Any]], grid: TimeGrid
) -> list[dict[str, Any]]:
    """Return documents of reservations and refusals; those of reservations with times and dates.

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
        told_entry = HeldTimes(begin, finish, window).beside(entry, grid)
        if number in holds:
            told_entry["held_until"] = holds[number].until
        shown.append(told_entry)
    return shown
