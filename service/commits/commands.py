"""Commands to the planner and its answers: plain data, without HTTP."""

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
from planner.plan.records.holds import Hold
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
        As submitted; compiled again when the grid has moved on before its turn.
    source
        Its text, which spans point into, or None for JSON.
    request
        What the agent places.
    agent
        Name of the agent that is to place it.
    pointer
        Where its RDL stands in the body, for problems.
    offers
        Most offers that a refusal of it carries.
    notes
        What its answer is to say apart from what compiling it says.
    allow_start
        Whether the policy allowed for start delays when it was read; None if that is nothing to
        it.
    has_made_id
        Whether the server made its id: the same request again is then another reservation.
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
    """Reserve; several together either each on its own or all or nothing."""

    asks: tuple[Ask, ...]
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class HoldPlacing:
    """Reserve for a short while; a refusal is not kept.

    Attributes
    ----------
    most
        Most holds that its holder may have at once for one tenant.
    """

    ask: Ask
    hold: Hold
    most: int


@dataclass(frozen=True, slots=True)
class HoldAcceptance:
    """Keep what is held."""

    id: str


@dataclass(frozen=True, slots=True)
class HoldEnding:
    """Release what is held; `when_over` only if its time has run out."""

    id: str
    reason: str
    when_over: bool = False


@dataclass(frozen=True, slots=True)
class Renegotiation:
    """Swap a reservation for another request under the same id, or leave all as it was."""

    ask: Ask
    revision: int | None


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Give up a reservation: the future is released, the past kept."""

    id: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class Closure:
    """End a reservation that needs no more: the rest is released.

    Attributes
    ----------
    tenure
        Of the leader of the dispatch that does so; None if a client asks for it.
    """

    id: str
    revision: int | None
    tenure: int | None = None


@dataclass(frozen=True, slots=True)
class DispatchChange:
    """What the leader of a tenure of the dispatch reports of a reservation.

    Attributes
    ----------
    change
        `Release`: rows of the future whose work was done early. `Degrade`: time that passed without
        its work, which is owed again. `Note`: an entitlement that passed while its application
        waited, or the outcome of work in an engine.
    """

    change: Release | Degrade | Note
    tenure: int | None = None


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Change the cluster: policies, queues, prices, outages, machines.

    Attributes
    ----------
    tag
        Of the description that it is meant for; None for any.
    version
        The Plan's version that it is meant for; None for any.
    """

    cluster: Cluster
    tag: str | None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class AdaptationCommand:
    """Let the adapter repair the Plan for the machines that it has now.

    Attributes
    ----------
    since
        The version that changed the machines; the answer tells all that was done after it, by any
        process.
    """

    since: int


@dataclass(frozen=True, slots=True)
class OptimizationCommand:
    """Take over what an optimisation found, if it still fits.

    Attributes
    ----------
    written
        The changes, as `planner.optimization.codec` wrote them.
    read, grid
        What they are on a Plan of that grid; changes, and those that mean nothing there. Read
        before it is this job's turn, since compiling many requests takes long.
    based_on
        The version they were found on.
    id
        Of the optimisation.
    partial
        Whether what still fits is taken where not all of it does.
    """

    id: str
    written: Sequence[Mapping[str, Any]]
    read: tuple[Sequence[Change], Sequence[Conflict]]
    grid: TimeGrid
    based_on: int
    partial: bool = False


@dataclass(frozen=True, slots=True)
class UndoCommand:
    """Take an optimisation's changes back, as far as nothing of them has begun.

    Attributes
    ----------
    id
        Of the optimisation.
    entries
        What takes them back, as `planner.optimization.undo` wrote it.
    version
        Of the Plan that they made.
    compiled
        The requests that it needs, read before it is this job's turn.
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
    """Return whether other changes may wait for an agent."""
    return name in QUICK_AGENTS


def is_quick(command: Command) -> bool:
    """Return whether others may wait for a command: no solver and no portfolio works on it."""
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
        For its times.
    version
        The version of the Plan that holds it.
    times
        When it holds something, and its window.
    known
        Whether it was made of the same request before, and nothing was changed.
    displaced
        The outcome of the reservations that it displaced; those that the caller may not see have
        no id and no tenant.
    """

    reservation: Reservation
    grid: TimeGrid
    version: int
    times: HeldTimes
    known: bool = False
    displaced: tuple[Affected, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return what the client is sent."""
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
    """What was done about a change of machines; it is in the log if anything was done.

    Attributes
    ----------
    summary
        Which reservations are affected, as `Adaptation.to_json` writes it.
    version
        Version of the Plan that holds it.
    pending
        Whether more will be done: anyone who asked waits no longer.
    """

    summary: Mapping[str, Any]
    version: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class OptimizationAnswer:
    """The outcome of an optimisation's changes, or of taking them back.

    Attributes
    ----------
    version
        Of the Plan that holds them; None if it does not take them, for `conflicts`.
    merged
        Whether the Plan had moved on since they were found.
    newcomers
        Ids of reservations that were admitted meanwhile and hold something where the first
        conflict is.
    left_out
        The conflicts of changes that are not made, where only a part fits and a part was
        requested.
    staying
        What an undo leaves as it is.
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
    """An Idempotency-Key and the fingerprint of the request it came with."""

    text: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Keyed:
    """What makes a change happen once, however often its call is repeated.

    Attributes
    ----------
    key
        The key that the call came with.
    row_of
        Makes the row that is stored under the key with the change, from its answers and the time of
        now (Unix ms). It is called before the commit.
    """

    key: Key
    row_of: Callable[[Sequence[Answer], int], IdempotentAnswer]


_TOO_BUSY: Final = "the Plan changed under this request again and again"

#: Fields of a refused request that the request of its offers keeps, where it has them.
_KEPT: Final = ("id", "tenant", "queue", "weight", "priority", "promise")


def with_requests(
    offers: Iterable[Mapping[str, Any]], asked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return offers, each with the body for ``POST /v1/reservations`` that accepts it.

    Parameters
    ----------
    asked
        What was refused: its fields, as answers name them.
    """
    kept = {name: asked[name] for name in _KEPT if asked.get(name) is not None}
    return [{**one, "request": {**kept, "rdl": one["expression"]}} for one in offers]


def refusal_with_requests(refusal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a refusal as files write it, its offers with their requests."""
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
    """Return the answer to a request that planning refused; `field` is that at fault."""
    kept = None
    if refusal is not None and grid is not None:
        kept = refusal_with_requests(refusal.to_json(grid))
    # What compiled and is still malformed names a queue that takes no reservations.
    known = {Code.DUPLICATE_ID.value: "id", Code.MALFORMED.value: "queue"}.get(code, "rdl")
    error = ApiError(detail, code, pointer=f"{pointer}/{field or known}")
    return ProblemDocument(code, detail, (error,), kept)


def conflict_problem(conflict: Conflict | None, pointer: str) -> ProblemDocument:
    """Return the answer to a change that the log does not take; None: it had no time to."""
    if conflict is None:
        return refused_problem("conflict", _TOO_BUSY, pointer)
    return refused_problem(conflict.code, conflict.detail, pointer)
