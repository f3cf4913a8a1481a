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


class Event(StrEnum):
    """What moves a reservation from one state to another."""

    BEGIN = "begin"  # its first step has begun
    END = "end"  # its last step is over
    CLOSE = "close"  # the client releases the rest
    CANCEL = "cancel"  # the client gives it up; the past stays
    DEGRADE = "degrade"  # capacity is lost under it
    RESTORE = "restore"  # capacity is back; the state follows from the clock
    FAIL = "fail"  # its window can no longer hold it
    RELEASE = "release"  # some rows of the future are given back
    RELOCATE = "relocate"  # bundles get other machines
    RENEGOTIATE = "renegotiate"  # another allocation, perhaps all in the future again


#: (state, event) -> states it may lead to. What is not here is a conflict.
TRANSITIONS: Final[dict[tuple[State, Event], frozenset[State]]] = {
    (State.ACCEPTED, Event.BEGIN): frozenset({State.ACTIVE}),
    (State.ACCEPTED, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.ACCEPTED, Event.CLOSE): frozenset({State.COMPLETED}),
    (State.ACCEPTED, Event.DEGRADE): frozenset({State.DEGRADED}),
    (State.ACCEPTED, Event.RELEASE): frozenset({State.ACCEPTED}),
    (State.ACCEPTED, Event.RENEGOTIATE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.ACCEPTED, Event.RELOCATE): frozenset({State.ACCEPTED}),
    (State.ACTIVE, Event.END): frozenset({State.COMPLETED}),
    (State.ACTIVE, Event.CLOSE): frozenset({State.COMPLETED}),
    (State.ACTIVE, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.ACTIVE, Event.DEGRADE): frozenset({State.DEGRADED}),
    (State.ACTIVE, Event.RELEASE): frozenset({State.ACTIVE}),
    (State.ACTIVE, Event.RENEGOTIATE): frozenset({State.ACTIVE, State.ACCEPTED}),
    (State.ACTIVE, Event.RELOCATE): frozenset({State.ACTIVE}),
    (State.DEGRADED, Event.RELOCATE): frozenset({State.DEGRADED}),
    (State.DEGRADED, Event.DEGRADE): frozenset({State.DEGRADED}),  # and it loses more
    (State.DEGRADED, Event.RESTORE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.DEGRADED, Event.RENEGOTIATE): frozenset({State.ACCEPTED, State.ACTIVE}),
    (State.DEGRADED, Event.CANCEL): frozenset({State.CANCELLED}),
    (State.DEGRADED, Event.FAIL): frozenset({State.FAILED}),
}

#: States in which capacity is held or waited for; they count for `max_count`.
LIVE: Final = frozenset({State.ACCEPTED, State.ACTIVE, State.DEGRADED})

#: Numbers under which tables keep states; never renumber, snapshots hold them.
STATE_NUMBERS: Final[dict[State, int]] = {state: number for number, state in enumerate(State)}
NUMBERED_STATES: Final[tuple[State, ...]] = tuple(State)


def may(state: State, event: Event) -> bool:
    """Return whether `event` can happen to a reservation in `state`."""
    return (state, event) in TRANSITIONS
