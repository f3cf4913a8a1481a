"""Commands to the planner and its answers, as plain data without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from planner.adaptation.result import Affected
from planner.agents import QUICK_AGENTS
from planner.cluster.cluster import Cluster
from planner.optimization.undo import CompiledRequests, Staying
from planner.placement import Code
from planner.plan.records.changes import Change, Conflict, Degrade, Note, Release
from planner.plan.records.reservation_records import Hold
from planner.request import Request
from planner.reservations.reservation import Refusal, Reservation
from rdl.expressions import Expression
from rdl.time_grid import TimeGrid
from service.problems import ApiError, ProblemDocument
from service.store import IdempotentAnswer
from service.windows import HeldTimes


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a reservation, compiled when it arrived.

    Attributes
    ----------
    expression
        As submitted; compiled again if the grid has changed before its turn.
    source
        Its text, which spans point into, or None for JSON.
    request
        The compiled request, which the agent places.
    agent
        Name of the agent that places it.
    pointer
        JSON pointer of its RDL in the body, for problems.
    offers
        Most offers in its refusal.
    notes
        Notes for its answer in addition to those of the compiler.
    allow_start
        Whether the policy included start delays when it was read; None if it does not matter.
    has_made_id
        Whether the server generated its id: a repetition is then another reservation.
    """

    expression: Expression
    source: str | None
    request: Request
    agent: str
    pointer: str
    offers: int = 0
    notes: tuple[str, ...] = ()
    allow_start: bool | None = None
    has_made_id: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """Reserve one or several requests, several either independently or all or nothing."""

    asks: tuple[Ask, ...]
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class HoldPlacing:
    """Reserve for a short time; a refusal is not stored.

    Attributes
    ----------
    most
        Most concurrent holds of its holder for one tenant.
    """

    ask: Ask
    hold: Hold
    most: int


@dataclass(frozen=True, slots=True)
class HoldAcceptance:
    """Accept a hold."""

    id: str


@dataclass(frozen=True, slots=True)
class HoldEnding:
    """Release a hold; with `when_over` only if it has expired."""

    id: str
    reason: str
    when_over: bool = False


@dataclass(frozen=True, slots=True)
class Renegotiation:
    """Replace a reservation by another request with the same id, or change nothing."""

    ask: Ask
    revision: int | None


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Cancel a reservation: the future is released, the past kept."""

    id: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class Closure:
    """End a reservation that needs no more capacity: the rest is released.

    Attributes
    ----------
    tenure
        Tenure of the dispatch leader that does so; None for a client.
    """

    id: str
    revision: int | None
    tenure: int | None = None


@dataclass(frozen=True, slots=True)
class DispatchChange:
    """Change of a reservation by the dispatch leader of a tenure.

    Attributes
    ----------
    change
        `Release`: future rows whose work was done early. `Degrade`: past time without work, which
        is owed again. `Note`: an entitlement that passed while its application waited, or the
        outcome of work in an engine.
    """

    change: Release | Degrade | Note
    tenure: int | None = None


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Change the cluster: policies, queues, prices, outages, machines.

    Attributes
    ----------
    tag
        Tag of the description that it applies to; None for any.
    version
        Version of the Plan that it applies to; None for any.
    """

    cluster: Cluster
    tag: str | None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class AdaptationCommand:
    """Repair the Plan for its current machines by the adapter.

    Attributes
    ----------
    since
        The version that changed the machines; the answer has all repairs after it, by any process.
    """

    since: int


@dataclass(frozen=True, slots=True)
class OptimizationCommand:
    """Apply the result of an optimisation, if it still fits.

    Attributes
    ----------
    written
        The changes, as `planner.optimization.codec` wrote them.
    read, grid
        The parsed changes for a Plan with that grid, and conflicts of those that do not apply. They
        are parsed before this job's turn, because compiling many requests takes long.
    based_on
        The version on which they were found.
    id
        Id of the optimisation.
    partial
        Whether to apply the part that still fits if not all of it does.
    """

    id: str
    written: Sequence[Mapping[str, Any]]
    read: tuple[Sequence[Change], Sequence[Conflict]]
    grid: TimeGrid
    based_on: int
    partial: bool = False


@dataclass(frozen=True, slots=True)
class UndoCommand:
    """Undo an optimisation's changes, except those that have begun.

    Attributes
    ----------
    id
        Id of the optimisation.
    entries
        The inverse changes, written by `planner.optimization.undo`.
    version
        Version of the Plan that the changes created.
    compiled
        The requests that it needs, compiled before this job's turn.
    """

    id: str
    entries: Sequence[Mapping[str, Any]]
    version: int
    compiled: CompiledRequests


Command: TypeAlias = (
    Admission
    | HoldPlacing
    | HoldAcceptance
    | HoldEnding
    | Renegotiation
    | Cancellation
    | Closure
    | DispatchChange
    | Reconfiguration
    | AdaptationCommand
    | OptimizationCommand
    | UndoCommand
)


def is_quick_agent(name: str) -> bool:
    """Return whether an agent is fast enough for other changes to wait for it."""
    return name in QUICK_AGENTS


def is_quick(command: Command) -> bool:
    """Return whether others may wait for a command: it uses no solver and no portfolio."""
    match command:
        case Admission(asks=asks):
            return all(is_quick_agent(ask.agent) for ask in asks)
        case Renegotiation(ask=ask) | HoldPlacing(ask=ask):
            return is_quick_agent(ask.agent)
        case _:
            return True


@dataclass(frozen=True, slots=True)
class ReservationAnswer:
    """A change of a reservation that is in the log.

    Attributes
    ----------
    reservation
        As the change made it.
    grid
        Grid of its times.
    version
        The version of the Plan that holds it.
    times
        Its allocated times, and its window.
    known
        Whether the same request was granted before, and nothing was changed.
    displaced
        The reservations that it displaced; without id and tenant if the caller may not see them.
    """

    reservation: Reservation
    grid: TimeGrid
    version: int
    times: HeldTimes
    known: bool = False
    displaced: tuple[Affected, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the JSON for the client."""
        shown = self.times.beside(self.reservation.to_json(self.grid), self.grid)
        if self.displaced:
            shown["displaced"] = [one.to_json() for one in self.displaced]
        return {**shown, "version": self.version}


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """A change of the cluster that is in the log."""

    cluster: Cluster
    version: int


@dataclass(frozen=True, slots=True)
class AdaptationAnswer:
    """Repair after a change of machines; it is in the log if anything was changed.

    Attributes
    ----------
    summary
        The affected reservations, in the form of `Adaptation.to_json`.
    version
        Version of the Plan with the repair.
    pending
        Whether the repair continues after this answer.
    """

    summary: Mapping[str, Any]
    version: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class OptimizationAnswer:
    """The outcome of applying or undoing an optimisation.

    Attributes
    ----------
    version
        Version of the Plan with the changes; None if it rejects them because of `conflicts`.
    merged
        Whether the Plan had changed since they were found.
    newcomers
        Ids of reservations that were admitted meanwhile with an allocation at the first conflict.
    left_out
        The conflicts of skipped changes, if a part was requested and only a part fits.
    staying
        Reservations that an undo does not change.
    """

    version: int | None
    merged: bool
    conflicts: tuple[Conflict, ...] = ()
    newcomers: tuple[str, ...] = ()
    left_out: tuple[Conflict, ...] = ()
    staying: tuple[Staying, ...] = ()


Answer: TypeAlias = (
    ReservationAnswer | ClusterAnswer | AdaptationAnswer | OptimizationAnswer | ProblemDocument
)

#: The answer to good requests of an all-or-nothing batch in which others were refused.
SPOILT: Final = ProblemDocument(Code.CONFLICT, "other requests of the batch were refused")


@dataclass(frozen=True, slots=True)
class Key:
    """An Idempotency-Key and the fingerprint of its request."""

    text: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Keyed:
    """Idempotency data of a change, so that repeated calls have one effect.

    Attributes
    ----------
    key
        The key of the call.
    row_of
        Makes the row to store under the key, from the answers and the current time (Unix ms). It is
        called before the commit.
    """

    key: Key
    row_of: Callable[[Sequence[Answer], int], IdempotentAnswer]


_TOO_BUSY: Final = "the Plan kept changing during this request"

#: Fields of a refused request that are copied to the requests of its offers.
_KEPT: Final = ("id", "tenant", "queue", "weight", "priority", "promise")


def with_requests(
    offers: Iterable[Mapping[str, Any]], asked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return offers, each with the body for ``POST /v1/reservations`` that accepts it.

    Parameters
    ----------
    asked
        Fields of the refused request, named as in answers.
    """
    kept = {name: asked[name] for name in _KEPT if asked.get(name) is not None}
    return [{**one, "request": {**kept, "rdl": one["expression"]}} for one in offers]


def refusal_with_requests(refusal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a refusal in the form of files, with a request for each offer."""
    return {**refusal, "offers": with_requests(refusal["offers"], refusal)}


def refused_problem(
    code: str,
    detail: str,
    pointer: str,
    refusal: Refusal | None = None,
    grid: TimeGrid | None = None,
    *,
    field: str = "",
) -> ProblemDocument:
    """Return the answer to a refused request; `field` is the field at fault."""
    kept = None
    if refusal is not None and grid is not None:
        kept = refusal_with_requests(refusal.to_json(grid))
    # A compiled request that is malformed names a queue that takes no reservations.
    known = {Code.DUPLICATE_ID.value: "id", Code.MALFORMED.value: "queue"}.get(code, "rdl")
    error = ApiError(detail, code, pointer=f"{pointer}/{field or known}")
    return ProblemDocument(code, detail, (error,), kept)


def conflict_problem(conflict: Conflict | None, pointer: str) -> ProblemDocument:
    """Return the answer to a rejected change; `conflict` is None if it ran out of time."""
    if conflict is None:
        return refused_problem("conflict", _TOO_BUSY, pointer)
    return refused_problem(conflict.code, conflict.detail, pointer)
