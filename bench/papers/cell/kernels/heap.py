"""A binary heap of events by time.

Ties go by their kind, so that what ends is free at once, and then by scheduler or transaction.
"""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from bench.papers.cell.kernels.arrays import EVENTS, I64, Log
from bench.papers.cell.kernels.compiled import inner


@inner
def _before(log: Log, one: int, other: int) -> bool:
    if log.time[one] != log.time[other]:
        return log.time[one] < log.time[other]
    if log.what[one] != log.what[other]:
        return log.what[one] < log.what[other]
    return log.which[one] < log.which[other]


@inner
def _swap(log: Log, one: int, other: int) -> None:
    log.time[one], log.time[other] = log.time[other], log.time[one]
    log.what[one], log.what[other] = log.what[other], log.what[one]
    log.which[one], log.which[other] = log.which[other], log.which[one]


@inner
def push(log: Log, counts: I64, time: float, what: int, which: int) -> None:
    """Add an event."""
    place = counts[EVENTS]
    counts[EVENTS] += 1
    log.time[place], log.what[place], log.which[place] = time, what, which
    while place > 0 and _before(log, place, (place - 1) // 2):
        _swap(log, place, (place - 1) // 2)
        place = (place - 1) // 2


@inner
def pop(log: Log, counts: I64) -> tuple[float, int, int]:
    """Take out the first event."""
    found = (log.time[0], log.what[0], log.which[0])
    counts[EVENTS] -= 1
    last = counts[EVENTS]
    _swap(log, 0, last)
    place = 0
    while True:
        least, left = place, 2 * place + 1
        if left < last and _before(log, left, least):
            least = left
        if left + 1 < last and _before(log, left + 1, least):
            least = left + 1
        if least == place:
            return found
        _swap(log, place, least)
        place = least
