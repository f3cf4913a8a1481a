"""The ledger of promises: which were kept, and how long each was below its entitlement.

A promise is kept unless its reservation lacked machines while they were due, because the Plan took
them or because work did not run (`outcome_of`). The page, ``/v1/promises``, the metrics, ``agenda
sacct`` and the simulations all use this module.

A reservation is below its entitlement (Rayon, figure 17) while demand that fits in its allocation
does not run, or while it covers nothing and an application that it cannot cover waits: an unused
promise is a broken one. `Cycle.below` is narrower: it names the reservations with a covered
component that has no machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch.cycle.cover import cover_of
from dispatch.entitlements.directive import Directive
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable
from planner.plan.column_reading import histories_of, ids_of
from planner.plan.plan import Plan
from planner.plan.records.reservation_records import DEGRADED, MISSED, RENEGOTIATED, UNUSED
from planner.reservations.reservation import HistoryEntry
from planner.reservations.state import NUMBERED_STATES, State


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Reservations below their entitlement at an instant.

    Attributes
    ----------
    reservations
        Their ids.
    unused
        Ids of reservations that cover nothing while an application that they cannot cover waits.
    """

    reservations: frozenset[str]
    unused: frozenset[str] = frozenset()


def shortfall(directive: Directive, table: ExecutionTable) -> Shortfall:
    """Return the reservations below their entitlement.

    Measured by the Plan without anticipation; starting components do not run yet.
    """
    found, unused = set[str](), set[str]()
    for entitlement in directive.planned:
        name = entitlement.reservation
        fellows = [one for one in table.of_reservation(name) if not one.is_held_up]
        if all(part.running >= part.wanted for one in fellows for part in one.parts):
            continue
        cover = cover_of(entitlement, fellows, table.pool)
        if not cover.counts and any(_waits_uncovered(one) for one in fellows):
            unused.add(name)
            continue
        for execution, counts in cover.counts.items():
            pairs = zip(execution.parts, counts, strict=True)
            if any(part.running < count for part, count in pairs):
                found.add(name)
    return Shortfall(frozenset(found | unused), frozenset(unused))


def _waits_uncovered(execution: Execution) -> bool:
    """Return whether an execution has no machine, and a core component that cannot be covered."""
    return not execution.holds and any(
        part.uncovered for part in execution.parts if part.component.core
    )


#: Tolerance of missing machines as a divisor of the time, and its least value in ms: a start takes
#: that long.
_SHARE: Final = 10
_LEAST_MS: Final = 5_000

#: History entries that reduce a reservation, and those that restore it.
_TAKES: Final = frozenset({DEGRADED, MISSED})
_WHOLE: Final = frozenset({"restored", "moved", "optimized", RENEGOTIATED})


def tolerance_ms(length_ms: int) -> int:
    """Return how long work may lack machines in a time of a given length before it counts."""
    return min(length_ms, max(_LEAST_MS, length_ms // _SHARE))


class Outcome(StrEnum):
    """The outcome of a promise so far.

    ``kept``: it had its machines whenever they were due; machines restored before they were due
    were never missing. ``degraded``: it lacked some. ``unused``: time passed in which it covered
    nothing while an application waited. ``failed``: its loss was not restored. ``cancelled``: its
    owner cancelled it.
    """

    KEPT = "kept"
    DEGRADED = "degraded"
    UNUSED = "unused"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_broken(self) -> bool:
        """Whether it was not cancelled and lacked machines while they were due."""
        return self not in (Outcome.KEPT, Outcome.CANCELLED)


#: Time of an event that has not happened.
_NEVER: Final = 2**62


@dataclass(slots=True)
class WorkTimes:
    """First submission, first start and last end of the work of a reservation, in ms."""

    submitted_ms: int = _NEVER
    started_ms: int = _NEVER
    ended_ms: int = 0

    def add(self, submitted_ms: int, started_ms: int | None, ended_ms: int | None) -> None:
        """Add one application; None if it has not started, or not ended."""
        self.submitted_ms = min(self.submitted_ms, submitted_ms)
        self.started_ms = min(self.started_ms, _NEVER if started_ms is None else started_ms)
        self.ended_ms = max(self.ended_ms, _NEVER if ended_ms is None else ended_ms)

    def has_waited(self, finish_ms: int, now_ms: int) -> bool:
        """Return whether work was submitted in time, and none had begun when the time ended."""
        return finish_ms <= now_ms and self.submitted_ms < finish_ms <= self.started_ms

    def is_late(self, finish_ms: int, now_ms: int) -> bool:
        """Return whether work ended after its time, or still runs or waits after it."""
        return min(self.ended_ms, now_ms) > finish_ms


def outcome_of(
    state: State,
    history: Sequence[HistoryEntry],
    now_ms: int,
    length_ms: int,
    below_ms: int,
    *,
    waited: bool = False,
) -> Outcome:
    """Return the outcome of a promise.

    Parameters
    ----------
    history
        History of its reservation, in order.
    length_ms
        Time from its start to its end.
    below_ms
        Time below its entitlement: more than the tolerance breaks the promise.
    waited
        Whether work was submitted in time, and none had begun when the time ended.
    """
    if state is State.CANCELLED:
        return Outcome.CANCELLED
    if state is State.FAILED:
        return Outcome.FAILED
    if waited or any(entry.what == UNUSED for entry in history):
        return Outcome.UNUSED
    if _was_taken(history, now_ms) or below_ms > tolerance_ms(length_ms):
        return Outcome.DEGRADED
    return Outcome.KEPT


def outcomes_in(
    plan: Plan,
    now_ms: int,
    below_ms: Callable[[str], int],
    numbers: NDArray[np.int64] | None = None,
) -> dict[str, Outcome]:
    """Return the outcomes of reservations in a Plan, by id.

    Parameters
    ----------
    below_ms
        Returns how long a reservation was below its entitlement.
    numbers
        Reservations to evaluate; None for all.
    """
    table, grid = plan.table, plan.grid
    if numbers is None:
        numbers = np.arange(len(table), dtype=np.int64)
    changed = histories_of(table, numbers)
    meta = table.meta[numbers]
    found: dict[str, Outcome] = {}
    for id_, number, one in zip(ids_of(table, numbers), numbers.tolist(), meta, strict=True):
        finish = min(int(one["finish"]), grid.horizon)
        length_ms = grid.ms(max(0, finish - int(one["begin"])))
        state = NUMBERED_STATES[int(one["state"])]
        found[id_] = outcome_of(state, changed.get(number, ()), now_ms, length_ms, below_ms(id_))
    return found


def ended_between(plan: Plan, first: int, last: int) -> NDArray[np.int64]:
    """Return the reservations that completed or failed in steps [first, last)."""
    meta, grid = plan.table.meta, plan.grid
    completed = meta["state"] == NUMBERED_STATES.index(State.COMPLETED)
    completed &= (meta["finish"] >= first) & (meta["finish"] < last)
    failed = np.flatnonzero(meta["state"] == NUMBERED_STATES.index(State.FAILED))
    told = histories_of(plan.table, failed) if len(failed) else {}
    lost = [
        number
        for number, history in told.items()
        if grid.ms(first) <= history[-1].at_ms < grid.ms(last)
    ]
    return np.union1d(np.flatnonzero(completed), np.array(lost, dtype=np.int64))


def _was_taken(history: Iterable[HistoryEntry], now_ms: int) -> bool:
    """Return whether the Plan took machines and did not restore them before they were due."""
    due: int | None = None
    for entry in history:
        if entry.what in _TAKES and entry.lost is not None:
            due = entry.lost[0] if due is None else min(due, entry.lost[0])
        elif entry.what in _WHOLE and due is not None:
            if entry.at_ms > due:
                return True
            due = None
    return due is not None and now_ms >= due


@dataclass(slots=True)
class TimeBelow:
    """The time that one reservation was below its entitlement.

    Attributes
    ----------
    total_ms, longest_ms
        Total time, and the longest uninterrupted time.
    since_ms, last_ms
        Since when it is below (None if it is not), and when it last was.
    """

    total_ms: int = 0
    longest_ms: int = 0
    since_ms: int | None = None
    last_ms: int = 0


class PromiseLedger:
    """Adds up at every tick how long reservations were below their entitlements.

    Parameters
    ----------
    times, seen_ms
        Times of an earlier ledger by reservation, and its last instant.

    Attributes
    ----------
    times
        Times of reservations that were ever below.
    seen_ms
        The last instant that was observed.
    """

    def __init__(self, times: dict[str, TimeBelow] | None = None, seen_ms: int = 0) -> None:
        self.times: dict[str, TimeBelow] = {} if times is None else times
        self.seen_ms = seen_ms
        self._entitled: dict[str, int] = {}

    def observe(self, now_ms: int, below: Iterable[str]) -> bool:
        """Count reservations as below from now until the next call.

        Returns
        -------
        bool
            Whether any fell below or recovered.
        """
        falling = set(below)
        changed = False
        for name, time in self.times.items():
            if time.since_ms is not None and name not in falling:
                _close(time, time.since_ms, now_ms)
                changed = True
        for name in falling:
            time = self.times.setdefault(name, TimeBelow())
            if time.since_ms is None:
                time.since_ms, changed = now_ms, True
            time.last_ms = now_ms
        self.seen_ms = now_ms
        return changed

    def end(self, now_ms: int) -> None:
        """Count reservations that are still below until the end of the observation."""
        self.observe(now_ms, ())

    def take_ended(self, directive: Directive) -> list[int]:
        """Return the time below, in ms, of each entitlement that has ended since the last call."""
        here = {entitlement.reservation for entitlement in directive.entitlements}
        ended = [name for name in self._entitled if name not in here]
        for name in here - self._entitled.keys():
            self._entitled[name] = self.below_ms(name)
        return [self.below_ms(name) - self._entitled.pop(name) for name in ended]

    def below_ms(self, reservation: str, until_ms: int | None = None) -> int:
        """Return the total time that a reservation was below.

        Parameters
        ----------
        until_ms
            End of the time of a reservation that is still below; None leaves that time out.
        """
        time = self.times.get(reservation)
        if time is None:
            return 0
        if time.since_ms is None or until_ms is None:
            return time.total_ms
        return time.total_ms + max(0, until_ms - time.since_ms)

    def longest_below_ms(self, reservation: str) -> int:
        """Return the longest uninterrupted time that a reservation was below."""
        time = self.times.get(reservation)
        return 0 if time is None else time.longest_ms


def _close(time: TimeBelow, since_ms: int, now_ms: int) -> None:
    length_ms = max(now_ms - since_ms, 0)
    time.total_ms += length_ms
    time.longest_ms = max(time.longest_ms, length_ms)
    time.since_ms, time.last_ms = None, now_ms
