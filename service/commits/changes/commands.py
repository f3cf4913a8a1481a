"""Commands to the planner and its answers: plain data between calls and the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from planner.adaptation.result import Affected
from planner.agents import QUICK_AGENTS
from planner.cluster.cluster import Cluster
from planner.optimization.undo import CompiledRequests, Staying
from planner.placement import Code
from planner.plan.records.changes import Change, Conflict, Degrade, Note, Release
from planner.plan.records.holds import Hold
from planner.request import Request
from planner.reservations.reservation import Reservation
from rdl.expressions import Expression
from rdl.time_grid import TimeGrid
from service.access.actor import Actor, present_actor
from service.commits.changes.completion import Completion
from service.problems import ProblemDocument
from service.response import Response
from service.store import YarnReservationRow
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
        What its answer is to say besides what compiling it says.
    allow_start
        Whether the policy allowed for start delays when it was read; None where that is nothing to
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
    """Give back what is held; `when_over` only if its time has run out."""

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
        Of the leader of the dispatch that does so; None where a client asks for it.
    """

    id: str
    revision: int | None
    tenure: int | None = None


@dataclass(frozen=True, slots=True)
class RowRelease:
    """Give back rows of the future whose work was done early, by the leader of a tenure."""

    change: Release
    tenure: int | None = None

    @property
    def id(self) -> str:
        """Id of the reservation."""
        return self.change.id


@dataclass(frozen=True, slots=True)
class MissedTime:
    """Take back time that passed without its work, by the leader of a tenure: it is owed again."""

    change: Degrade
    tenure: int | None = None

    @property
    def id(self) -> str:
        """Id of the reservation."""
        return self.change.id


@dataclass(frozen=True, slots=True)
class UnusedTime:
    """Report that an entitlement passed while its application waited, by the leader of a tenure."""

    change: Note
    tenure: int | None = None

    @property
    def id(self) -> str:
        """Id of the reservation."""
        return self.change.id


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
    | RowRelease
    | MissedTime
    | UnusedTime
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
        What becomes of the reservations that it displaced; those that the caller may not see have
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
        Whether more will be done: whoever asked waits no longer.
    """

    summary: Mapping[str, Any]
    version: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class OptimizationAnswer:
    """What became of an optimisation's changes, or of taking them back.

    Attributes
    ----------
    version
        Of the Plan that holds them; None where it does not take them, for `conflicts`.
    merged
        Whether the Plan had moved on since they were found.
    newcomers
        Ids of reservations that were admitted meanwhile and hold something where the first
        conflict is.
    left_out
        The conflicts of changes that are not made, where only a part fits and a part was asked
        for.
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


#: Makes one response of the answers to a command.
Render: TypeAlias = Callable[[Sequence[Answer]], Response]


@dataclass(frozen=True, slots=True)
class Key:
    """An Idempotency-Key and the fingerprint of the request it came with."""

    text: str
    fingerprint: bytes


@dataclass(slots=True)
class QueuedChange:
    """A command that waits for the planner.

    Attributes
    ----------
    arrived
        Reading of the process's steady clock, for the wait metric.
    actor
        Who asks for it: whoever makes the call of the thread that queues it.
    key, render
        Of a call with an Idempotency-Key: the key, and what makes the response that is stored
        with the change. It is called before the commit.
    companion
        A row that is kept in the transaction of the change, where it is made.
    answers
        Set before `finished`: one for each request of an admission, else one; none where the key
        was answered before.
    response
        The response that is stored under the key; None without one.
    failure
        Why there is no answer.
    goes_on
        Whether another lane has taken it over, and finishes it.
    """

    command: Command
    arrived: float
    key: Key | None = None
    render: Render | None = None
    companion: YarnReservationRow | None = None
    answers: tuple[Answer, ...] = ()
    response: Response | None = None
    failure: BaseException | None = None
    goes_on: bool = False
    finished: Completion = field(default_factory=Completion)
    actor: Actor = field(default_factory=present_actor)

    @property
    def needs_own_record(self) -> bool:
        """Whether it must be committed in a record of its own.

        All or nothing; a batch whose whole answer is remembered; a change of the cluster, on
        which everything after it is to be planned; a change that counts for one tenure alone.
        """
        if self.tenure is not None:
            return True
        match self.command:
            case Admission(asks=asks, atomic=atomic):
                return atomic or (self.key is not None and len(asks) > 1)
            case _:
                return isinstance(self.command, Reconfiguration | OptimizationCommand | UndoCommand)

    @property
    def tenure(self) -> int | None:
        """The tenure in which it may be committed; None: at any time."""
        match self.command:
            case Closure() | RowRelease() | MissedTime() | UnusedTime() as by_leader:
                return by_leader.tenure
            case _:
                return None

    @property
    def size(self) -> int:
        """How many requests it holds."""
        return len(self.command.asks) if isinstance(self.command, Admission) else 1
