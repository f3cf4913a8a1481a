"""The life cycle of a reservation: the list of states and the table of transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """State of a reservation (planning.md, Plan)."""

    ACCEPTED = "accepted"
    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DEGRADED = "degraded"
    FAILED = "failed"
    REFUSED = "refused"


class Transition(StrEnum):
    """A transition of a reservation between states."""

    BEGIN = "begin"  # its first step has started
    END = "end"  # its last step is over
    CLOSE = "close"  # its work is done; the rest is released
    CANCEL = "cancel"  # the client cancels it; the past stays
    DEGRADE = "degrade"  # it loses capacity
    MISS = "miss"  # its time passed without its work running
    RESTORE = "restore"  # capacity is back; the state follows from the clock
    FAIL = "fail"  # it no longer fits in its window
    RELEASE = "release"  # some future rows are released
    RELOCATE = "relocate"  # bundles get other machines
    RENEGOTIATE = "renegotiate"  # another allocation, which may be entirely in the future


#: (state, transition) -> possible next states. Everything else is a conflict.
TRANSITIONS: Final[dict[tuple[State, Transition], frozenset[State]]] = {
    (State.ACCEPTED, Transition.BEGIN): frozenset({State.ACTIVE}),
    (State.ACCEPTED, Transition.CANCEL): frozenset({State.CANCELLED}),
    (State.ACCEPTED, Transition.CLOSE): frozenset({State.COMPLETED}),
    (State.ACCEPTED, Transition.DEGRADE): frozenset({State.DEGRADED}),
    (State.ACCEPTED, Transition.RELEASE): frozenset({State.ACCEPTED}),
    (State.ACCEPTED, Transition.RENEGOTIATE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.ACCEPTED, Transition.RELOCATE): frozenset({State.ACCEPTED}),
    (State.ACTIVE, Transition.END): frozenset({State.COMPLETED}),
    (State.ACTIVE, Transition.CLOSE): frozenset({State.COMPLETED}),
    (State.ACTIVE, Transition.CANCEL): frozenset({State.CANCELLED}),
    (State.ACTIVE, Transition.DEGRADE): frozenset({State.DEGRADED}),
    (State.ACTIVE, Transition.RELEASE): frozenset({State.ACTIVE}),
    (State.ACTIVE, Transition.RENEGOTIATE): frozenset({State.ACTIVE, State.ACCEPTED}),
    (State.ACTIVE, Transition.RELOCATE): frozenset({State.ACTIVE}),
    (State.ACTIVE, Transition.MISS): frozenset({State.DEGRADED}),
    (State.COMPLETED, Transition.MISS): frozenset({State.DEGRADED}),
    (State.DEGRADED, Transition.MISS): frozenset({State.DEGRADED}),
    (State.DEGRADED, Transition.RELOCATE): frozenset({State.DEGRADED}),
    (State.DEGRADED, Transition.DEGRADE): frozenset({State.DEGRADED}),  # and it loses more
    (State.DEGRADED, Transition.RESTORE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.DEGRADED, Transition.RENEGOTIATE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.DEGRADED, Transition.CANCEL): frozenset({State.CANCELLED}),
    (State.DEGRADED, Transition.CLOSE): frozenset({State.COMPLETED}),
    (State.DEGRADED, Transition.FAIL): frozenset({State.FAILED}),
}

#: States that hold or wait for capacity; they count for `max_count`.
LIVE: Final = frozenset({State.ACCEPTED, State.ACTIVE, State.DEGRADED})

#: Numbers of states in tables; never change them, since checkpoints contain them.
STATE_NUMBERS: Final[dict[State, int]] = {state: number for number, state in enumerate(State)}
NUMBERED_STATES: Final[tuple[State, ...]] = tuple(State)


def may(state: State, transition: Transition) -> bool:
    """Return whether `transition` can happen to a reservation in `state`."""
    return (state, transition) in TRANSITIONS
