"""Changes asked of the Plan, and the records of changes made.

A change (`Admit`, `Update`, ...) is what a caller wants; it carries a request and an agent's
answer. A record (`Admitted`, `Updated`, ...) is what was done; it carries all that `Plan.apply`
needs and nothing else, so that a log of records alone makes the same Plan again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from planner.agent import Agent
from planner.capacity.shortage import Taking
from planner.cluster.cluster import Cluster
from planner.placement import MACHINES, Binding, Code, PlacementResult
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.holds import AcceptHold, EndHold, Hold
from planner.plan.records.reservation_records import DEGRADED, MISSED, RENEGOTIATED
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.reservation import Holding, Rows
from planner.reservations.slots import Slots


@dataclass(frozen=True, slots=True)
class UncompiledRequest:
    """A request that could not be compiled: its header, and its expression as text."""

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    expression: str
    promise: PromiseLevel | None = None


@dataclass(frozen=True, slots=True)
class Admit:
    """Keep what an agent placed.

    Attributes
    ----------
    anew
        Whether the request was refused before.
    planner
        Asked again where machines cannot hold what was placed; None asks no agent.
    note
        What its history is to say in addition.
    hold
        Until when it is held unless accepted, and for whom; None keeps it.
    slots
        Of each atom of what it would hold, where who asks has found them; the Plan finds others
        where they have no free capacity.
    """

    request: Request
    result: PlacementResult
    agent: str
    anew: bool = False
    planner: Agent | None = None
    note: str = ""
    hold: Hold | None = None
    slots: tuple[Slots | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Remember that a request was refused; nothing is held.

    `anew` replaces what is remembered of the same request.
    """

    request: Request | UncompiledRequest
    code: Code
    detail: str = ""
    binding: Binding | None = None
    offers: tuple[dict[str, Any], ...] = ()
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Swap the allocation of a reservation, or leave all as it was.

    `result` holds everything from the request's first step on; rows before the Plan's present step
    must be those the reservation already has. `cause` is the word of the history. `slots` are those
    of each atom of what it then holds, where who asks has found them; else the Plan finds them. A
    request that asks for no level keeps the one that the reservation has. `planner` places the
    request on other views, where machines cannot hold what was placed; None asks no agent. `reason`
    is what its history says in addition.
    """

    id: str
    revision: int
    request: Request
    result: PlacementResult
    agent: str
    cause: str = RENEGOTIATED
    slots: tuple[Slots | None, ...] | None = None
    planner: Agent | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Degrade:
    """Take away what a reservation can no longer hold; the Plan owes it the rest.

    Attributes
    ----------
    kept
        What it still holds: its past, and of the future no more than it held. One that is degraded
        already may get some of it back. Where all its atoms have slots they are taken as they are.
    reason, offers
        What its owner is notified of.
    cause
        The word of the history. With `MISSED` part of its past passed without its work: `kept` may
        hold less of the past than it did, and it may be over by the clock.
    """

    id: str
    revision: int
    kept: Holding
    reason: str
    offers: tuple[dict[str, Any], ...] = ()
    cause: str = DEGRADED

    @property
    def misses(self) -> bool:
        """Whether some of the past is owed again."""
        return self.cause == MISSED


@dataclass(frozen=True, slots=True)
class Relocate:
    """Give bundles of a reservation other machines; what it holds and when stays as it is.

    Attributes
    ----------
    slots
        Those of each atom, in the order of the holding; what has begun stays on its machine.
    """

    id: str
    revision: int
    slots: tuple[Slots, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Write what happened to a reservation into its history; what it holds stays as it is."""

    id: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Give a degraded reservation up: its window can no longer hold it."""

    id: str
    revision: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give a reservation up; what is past stays."""

    id: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Release what is left of a reservation whose work is done."""

    id: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Give some rows of the future back: their work was done early or is not needed.

    Attributes
    ----------
    released
        int64[m, 3] rows in steps by atom path, from the Plan's present step on and within what
        the atom holds. What is left of each atom is 0 or at least g at every step.
    reason
        What the history says.
    """

    id: str
    revision: int | None
    released: tuple[tuple[str, Rows], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Advance:
    """Move the present to `now_step`; with `horizon` (steps from the origin) the Plan rolls on."""

    now_step: int
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """Let reservations that have ended, and refusals, leave the Plan."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Plan on another description of the cluster: machines, outages, policies."""

    cluster: Cluster


Change: TypeAlias = (
    Admit
    | AcceptHold
    | EndHold
    | Refuse
    | Update
    | Degrade
    | Relocate
    | Note
    | Release
    | Fail
    | Cancel
    | Close
    | Advance
    | Archive
    | Reconfigure
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that the record carries.

    Attributes
    ----------
    result
        Where an admission or an update stands if it is elsewhere than its agent put it, for lack
        of machines.
    """

    index: int
    id: str | None
    result: PlacementResult | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A change that cannot be made on the present Plan.

    Attributes
    ----------
    index
        Position in the batch.
    code, detail
        Why, as for a refusal.
    binding
        Where, when something is short.
    """

    index: int
    id: str | None
    code: Code
    detail: str
    binding: Binding | None = None

    @property
    def lacks_machines(self) -> bool:
        """Whether the pool has capacity for it and machines have not."""
        return self.binding is not None and self.binding.kind == MACHINES


Outcome: TypeAlias = Committed | Conflict


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a batch of changes comes to.

    Attributes
    ----------
    record
        The changes that can be made; None when nothing is to be done.
    outcomes
        One a change, in order.
    takings
        What a record of admissions alone takes, for `Plan.apply`; None for other records.
    """

    record: CommitRecord | None
    outcomes: tuple[Outcome, ...] = ()
    takings: tuple[Taking, ...] | None = None

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The outcomes that are conflicts."""
        return tuple(one for one in self.outcomes if isinstance(one, Conflict))
