"""Requested changes of the Plan, and records of the changes made.

A change (`Admit`, `Update`, ...) is a caller's wish, with a request and an agent's answer. A
record (`Admitted`, `Updated`, ...) is the result, with exactly the data that `Plan.apply` needs, so
that replaying a log of records gives the same Plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from planner.agent import Agent
from planner.capacity.shortage import Taking
from planner.cluster.cluster import Cluster
from planner.placement import MACHINES, Binding, Code, PlacementResult
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import (
    DEGRADED,
    MISSED,
    RENEGOTIATED,
    AcceptHold,
    EndHold,
    Hold,
)
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
    """Admit a request that an agent placed.

    Attributes
    ----------
    anew
        Whether the request was refused before.
    planner
        The agent to ask again if machines cannot hold the placement; None asks no agent.
    note
        An additional sentence for its history.
    hold
        Until when it is held unless accepted, and for whom; None for no hold.
    slots
        Slots of each atom, if the caller has found them; the Plan finds others if those have no
        free capacity.
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
    """Record that a request was refused; nothing is reserved.

    With `anew` it replaces the earlier refusal of the same request.
    """

    request: Request | UncompiledRequest
    code: Code
    detail: str = ""
    binding: Binding | None = None
    offers: tuple[dict[str, Any], ...] = ()
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the allocation of a reservation, or change nothing.

    `result` holds everything from the request's first step on; rows before the Plan's present step
    must be those the reservation already has. `cause` is the word in the history. `slots` are those
    of each atom of the new allocation, if the caller has found them; else the Plan finds them. A
    request without a level keeps the reservation's level. `planner` is the agent to ask again if
    machines cannot hold the placement; None asks no agent. `reason` is an additional sentence for
    the history.
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
    """Reduce a reservation to the part that still fits; the Plan owes it the rest.

    Attributes
    ----------
    kept
        The remaining allocation: its past, and at most the previous future. A reservation that is
        already degraded may get some of it back. If all atoms have slots, they are taken as they
        are.
    reason, offers
        For the notification of its owner.
    cause
        The word in the history. With `MISSED`, part of its past went by without work: `kept` may
        hold less of the past than before, and its window may have ended.
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
    """Move bundles of a reservation to other machines; amounts and times stay the same.

    Attributes
    ----------
    slots
        Slots of each atom, in the order of the holding; a started slot stays on its machine.
    """

    id: str
    revision: int
    slots: tuple[Slots, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Add an entry to the history of a reservation; its allocation stays the same."""

    id: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail a degraded reservation: it no longer fits its window."""

    id: str
    revision: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a reservation; its past stays."""

    id: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Release the rest of a reservation whose work is done."""

    id: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Release some future rows: their work was done early or is not needed.

    Attributes
    ----------
    released
        int64[m, 3] rows in steps by atom path, from the Plan's present step on and part of what the
        atom holds. The rest of each atom is 0 or at least g at every step.
    reason
        For the history.
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
    """Remove ended reservations, and refusals, from the Plan."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Replace the description of the cluster: machines, outages, policies."""

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
    """A change that is in the record.

    Attributes
    ----------
    result
        The placement of an admission or update if it differs from its agent's, for lack of
        machines.
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
        The place of a shortage, if there is one.
    """

    index: int
    id: str | None
    code: Code
    detail: str
    binding: Binding | None = None

    @property
    def lacks_machines(self) -> bool:
        """Whether it fits the totals but not the machines."""
        return self.binding is not None and self.binding.kind == MACHINES


Outcome: TypeAlias = Committed | Conflict


@dataclass(frozen=True, slots=True)
class Prepared:
    """The outcome of a batch of changes.

    Attributes
    ----------
    record
        The changes that can be made; None if there are none.
    outcomes
        One per change, in order.
    takings
        What a record of admissions only takes, for `Plan.apply`; None for other records.
    """

    record: CommitRecord | None
    outcomes: tuple[Outcome, ...] = ()
    takings: tuple[Taking, ...] | None = None

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The outcomes that are conflicts."""
        return tuple(one for one in self.outcomes if isinstance(one, Conflict))
