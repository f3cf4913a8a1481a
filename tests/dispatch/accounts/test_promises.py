"""The outcome of a promise: a table of histories, and of times at which its work was there."""

from __future__ import annotations

import pytest

from dispatch.accounts.promises import Outcome, WorkTimes, outcome_of, tolerance_ms
from planner.reservations.reservation import HistoryEntry
from planner.reservations.state import State

NOW_MS, LENGTH_MS = 100_000, 80_000


def entry(at_s: int, what: str, lost_s: tuple[int, int] | None = None) -> HistoryEntry:
    """Return an entry of a history; what was lost, from when to when."""
    lost = None if lost_s is None else (lost_s[0] * 1000, lost_s[1] * 1000)
    return HistoryEntry(at_s * 1000, 1, what, lost=lost)


@pytest.mark.parametrize(
    ("history", "outcome"),
    [
        ([], Outcome.KEPT),
        # Lost from 60 on, now it is 100: whole again before that, at that instant, and too late.
        ([entry(10, "degraded", (60, 80))], Outcome.DEGRADED),
        ([entry(10, "degraded", (60, 80)), entry(59, "restored")], Outcome.KEPT),
        ([entry(10, "degraded", (60, 80)), entry(60, "moved")], Outcome.KEPT),
        ([entry(10, "degraded", (60, 80)), entry(61, "restored")], Outcome.DEGRADED),
        ([entry(10, "missed", (60, 80)), entry(61, "optimized")], Outcome.DEGRADED),
        # What says nothing of a loss takes nothing; what is due later is not missing yet.
        ([entry(10, "degraded")], Outcome.KEPT),
        ([entry(10, "degraded", (101, 120))], Outcome.KEPT),
        ([entry(10, "degraded", (100, 120))], Outcome.DEGRADED),
        # Of two losses the earlier is due, whichever was reported first.
        ([entry(10, "degraded", (50, 55)), entry(20, "degraded", (70, 80)),
          entry(60, "restored")], Outcome.DEGRADED),
        ([entry(10, "degraded", (70, 80)), entry(20, "degraded", (50, 55)),
          entry(60, "restored")], Outcome.DEGRADED),
        ([entry(10, "degraded", (50, 95)), entry(20, "degraded", (70, 80)),
          entry(45, "restored")], Outcome.KEPT),
        # Made whole once, it can be taken again.
        ([entry(10, "degraded", (50, 55)), entry(20, "restored"),
          entry(30, "degraded", (70, 80))], Outcome.DEGRADED),
        ([entry(10, "unused")], Outcome.UNUSED),
    ],
)  # fmt: skip
def test_what_was_taken_counts_where_it_was_not_restored_in_time(
    history: list[HistoryEntry], outcome: Outcome
) -> None:
    """What is whole again before it is due was never missing."""
    assert outcome_of(State.COMPLETED, history, NOW_MS, LENGTH_MS, 0) is outcome


@pytest.mark.parametrize(
    ("state", "below_ms", "waited", "outcome"),
    [
        (State.COMPLETED, 8_000, False, Outcome.KEPT),  # a tenth of its length is a start
        (State.COMPLETED, 8_001, False, Outcome.DEGRADED),
        (State.COMPLETED, 9_000, True, Outcome.UNUSED),
        (State.FAILED, 0, True, Outcome.FAILED),
        (State.CANCELLED, 9_000, True, Outcome.CANCELLED),
    ],
)
def test_a_state_and_time_below(
    state: State, below_ms: int, waited: bool, outcome: Outcome
) -> None:
    """An end that was reported goes before what was missing."""
    assert outcome_of(state, [], NOW_MS, LENGTH_MS, below_ms, waited=waited) is outcome


@pytest.mark.parametrize(
    ("length_ms", "most_ms"), [(80_000, 8_000), (50_000, 5_000), (20_000, 5_000), (3_000, 3_000)]
)
def test_a_tenth_may_be_lacking_five_seconds_at_least_and_no_more_than_all(
    length_ms: int, most_ms: int
) -> None:
    """What a start takes is no broken promise."""
    assert tolerance_ms(length_ms) == most_ms


def test_only_those_who_lacked_machines_they_were_due_are_broken() -> None:
    """What was kept is not, nor what its owner gave up."""
    assert {one for one in Outcome if not one.is_broken} == {Outcome.KEPT, Outcome.CANCELLED}


@pytest.mark.parametrize(
    ("works", "waited", "late"),
    [
        ([], False, False),
        ([(10, None, None)], True, True),  # there in time, and none has begun
        ([(10, 49, 50)], False, False),  # ended at the very end
        ([(10, 49, 51)], False, True),
        ([(10, 50, None)], True, True),  # begun when its time was over
        ([(50, None, None)], False, True),  # it came when its time was over
        ([(10, None, None), (12, 20, 30)], False, True),
    ],
)
def test_work_that_waited_or_was_late(
    works: list[tuple[int, int | None, int | None]], waited: bool, late: bool
) -> None:
    """Of a reservation that ends at 50, at 60; of several, the first and the last count."""
    times = WorkTimes()
    for work in works:
        times.add(*work)
    assert (times.has_waited(50, 60), times.is_late(50, 60)) == (waited, late)


def test_nothing_has_waited_before_its_time_is_over() -> None:
    """It may still begin."""
    times = WorkTimes()
    times.add(10, None, None)
    assert (times.has_waited(50, 49), times.is_late(50, 50)) == (False, False)
    assert times.has_waited(50, 50)
