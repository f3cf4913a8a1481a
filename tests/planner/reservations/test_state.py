"""States and transitions: one table, and the Plan follows it."""

from __future__ import annotations

import itertools

from planner.reservations.state import (
    LIVE,
    NUMBERED_STATES,
    STATE_NUMBERS,
    TRANSITIONS,
    State,
    Transition,
    may,
)

FINAL = {State.COMPLETED, State.CANCELLED, State.FAILED, State.REFUSED}


def test_final_states_have_no_way_out() -> None:
    """What is over stays over; only what the clock ended without its work is owed again."""
    ways = [way for way in itertools.product(FINAL, Transition) if may(*way)]
    assert ways == [(State.COMPLETED, Transition.MISS)]


def test_every_live_state_can_be_cancelled() -> None:
    """A client may always give up what it holds or waits for."""
    assert all(may(state, Transition.CANCEL) for state in LIVE)


def test_every_state_but_refused_is_reached_from_accepted() -> None:
    """The table has no state that nothing leads to."""
    reached = {State.ACCEPTED}
    while True:
        more = {one for (state, _), to in TRANSITIONS.items() if state in reached for one in to}
        if more <= reached:
            break
        reached |= more
    assert reached == set(State) - {State.REFUSED}


def test_degraded_comes_back_or_fails_and_completes_only_when_closed() -> None:
    """Back when restored, failed when its window is lost; closed, its work is done after all."""
    targets = set().union(
        *(to for (state, _), to in TRANSITIONS.items() if state is State.DEGRADED)
    )
    back = {State.ACCEPTED, State.ACTIVE, State.CANCELLED, State.FAILED}
    assert targets == back | {State.DEGRADED, State.COMPLETED}
    assert TRANSITIONS[State.DEGRADED, Transition.CLOSE] == {State.COMPLETED}
    assert not may(State.DEGRADED, Transition.END)


def test_numbers_of_states_are_a_round_trip() -> None:
    """Tables keep numbers, readers see states."""
    assert [NUMBERED_STATES[STATE_NUMBERS[state]] for state in State] == list(State)
