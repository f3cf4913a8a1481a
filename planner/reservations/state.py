"""What may become of a reservation: the one list of states and the one table of transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a reservation stands (planning.md, Plan)."""

    ACCEPTED = "accepted"
    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DEGRADED = "degraded"
    FAILED = "failed"
    REFUSED = "refused"


class Transition(StrEnum):
    """What moves a reservation from one state to another."""

    BEGIN = "begin"  # its first step has begun
    END = "end"  # its last step is over
    CLOSE = "close"  # the client releases the rest
    CANCEL = "cancel"  # the client gives it up; the past stays
    DEGRADE = "degrade"  # capacity is lost under it
    MISS = "miss"  # its time passed and its work did not run
    RESTORE = "restore"  # capacity is back; the state follows from the clock
    FAIL = "fail"  # its window can no longer hold it
    RELEASE = "release"  # some rows of the future are released
    RELOCATE = "relocate"  # bundles get other machines
    RENEGOTIATE = "renegotiate"  # another allocation, perhaps all in the future again


#: (state, transition) -> states it may lead to. What is not here is a conflict.
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
    (State.DEGRADED, Transition.CLOSE): frozenset({State.CANCELLED}),  # it lacks some for good
    (State.DEGRADED, Transition.FAIL): frozenset({State.FAILED}),
}

#: States in which capacity is held or waited for; they count for `max_count`.
LIVE: Final = frozenset({State.ACCEPTED, State.ACTIVE, State.DEGRADED})

#: Numbers under which tables keep states; never renumber, snapshots hold them.
STATE_NUMBERS: Final[dict[State, int]] = {state: number for number, state in enumerate(State)}
NUMBERED_STATES: Final[tuple[State, ...]] = tuple(State)


def may(state: State, transition: Transition) -> bool:
    """Return whether `transition` can happen to a reservation in `state`."""
    return (state, transition) in TRANSITIONS
