"""Records of the outcome of one request: admitted, refused, changed, released, ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from planner.placement import Binding, Code
from planner.promise import PromiseLevel, asked_level
from planner.reservations.reservation import Holding, Refusal, RequestDetails, Rows, rows_of
from planner.reservations.slots import Slots, slots_of
from planner.reservations.state import State
from rdl.time_grid import seconds_of

#: Cause of an update that the owner requested; other causes have their own word in the history.
RENEGOTIATED = "renegotiated"

#: Cause of a change that takes away part of what was promised.
DEGRADED = "degraded"

#: Cause of a change that takes away past time without work: that work is owed again.
MISSED = "missed"

#: Word of a note: the entitlement passed unused although an application waited for it.
UNUSED = "unused"

#: Word of a note: a stage of its job has not started, or has not ended, in its slots.
STAGE_LATE = "stage_late"

#: Words of notes on work that an engine runs for a reservation: why it waits in its time, that it
#: runs past it, and how it ended.
WORK_WAITS, WORK_RUNS_ON, WORK_ENDED = "work_waits", "work_runs_on", "work_ended"


def promise_entry(level: PromiseLevel) -> dict[str, Any]:
    """Return the entry of a record for the level; empty for `pooled`."""
    return {} if level is PromiseLevel.POOLED else {"promise": level.value}


def promise_of_entry(entry: Mapping[str, Any]) -> PromiseLevel:
    """Return the level of a record."""
    return PromiseLevel(entry.get("promise", PromiseLevel.POOLED))


@dataclass(frozen=True, slots=True)
class Admitted:
    """A reservation was made.

    Attributes
    ----------
    note
        An additional sentence for its history; usually empty.
    hold
        Until when it is held unless accepted; None for no hold.
    """

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    agent: str
    details: RequestDetails
    holding: Holding
    promise: PromiseLevel = PromiseLevel.POOLED
    note: str = ""
    hold: Hold | None = None
    op: ClassVar[str] = "admit"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry = {
            "op": self.op,
            "id": self.id,
            "tenant": self.tenant,
            "queue": self.queue,
            "submitted_ms": self.submitted_ms,
            "weight": self.weight,
            "priority": self.priority,
            "agent": self.agent,
            **self.details.to_json(),
            **self.holding.to_json(),
            **promise_entry(self.promise),
        }
        if self.note:
            entry["note"] = self.note
        return entry if self.hold is None else entry | {"hold": self.hold.to_json()}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Admitted:
        """Read the output of :meth:`to_json`."""
        return cls(
            entry["id"],
            entry["tenant"],
            entry["queue"],
            entry["submitted_ms"],
            entry["weight"],
            entry["priority"],
            entry["agent"],
            RequestDetails.from_json(entry),
            Holding.from_json(entry),
            promise_of_entry(entry),
            entry.get("note", ""),
            Hold.from_json(entry["hold"]) if "hold" in entry else None,
        )


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused."""

    refusal: Refusal
    op: ClassVar[str] = "refuse"

    @property
    def id(self) -> str:
        """Id of the request."""
        return self.refusal.id

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        one = self.refusal
        entry: dict[str, Any] = {
            "op": self.op,
            "id": one.id,
            "tenant": one.tenant,
            "queue": one.queue,
            "submitted_ms": one.submitted_ms,
            "weight": one.weight,
            "priority": one.priority,
            "expression": one.expression,
            "code": one.code.value,
            "detail": one.detail,
        }
        if one.binding is not None:
            b = one.binding
            entry["binding"] = [b.path, b.kind, b.at, b.resource, b.needed, b.free, b.policy]
            if b.name is not None:
                entry["binding"].append(b.name)
        if one.promise is not None:
            entry["promise"] = one.promise.value
        if one.written:
            entry["written"] = one.written
        return entry | {"offers": list(one.offers)} if one.offers else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Refused:
        """Read the output of :meth:`to_json`."""
        binding = Binding(*entry["binding"]) if "binding" in entry else None
        refusal = Refusal(
            entry["id"],
            entry["tenant"],
            entry["queue"],
            entry["submitted_ms"],
            entry["weight"],
            entry["priority"],
            entry["expression"],
            Code(entry["code"]),
            entry["detail"],
            binding,
            tuple(entry.get("offers", ())),
            asked_level(entry),
            entry.get("written", ""),
        )
        return cls(refusal)


@dataclass(frozen=True, slots=True)
class Updated:
    """The allocation of a reservation was replaced."""

    id: str
    revision: int
    agent: str
    weight: float
    priority: int
    details: RequestDetails
    holding: Holding
    cause: str = RENEGOTIATED
    promise: PromiseLevel = PromiseLevel.POOLED
    reason: str = ""
    op: ClassVar[str] = "update"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry = {
            "op": self.op,
            "id": self.id,
            "revision": self.revision,
            "agent": self.agent,
            "weight": self.weight,
            "priority": self.priority,
            **self.details.to_json(),
            **self.holding.to_json(),
            **promise_entry(self.promise),
        }
        if self.cause != RENEGOTIATED:
            entry["cause"] = self.cause
        return entry | {"reason": self.reason} if self.reason else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Updated:
        """Read the output of :meth:`to_json`."""
        return cls(
            entry["id"],
            entry["revision"],
            entry["agent"],
            entry["weight"],
            entry["priority"],
            RequestDetails.from_json(entry),
            Holding.from_json(entry),
            entry.get("cause", RENEGOTIATED),
            promise_of_entry(entry),
            entry.get("reason", ""),
        )


@dataclass(frozen=True, slots=True)
class Degraded:
    """A reservation lost capacity: `holding` is all that it still holds."""

    id: str
    holding: Holding
    reason: str
    offers: tuple[dict[str, Any], ...] = ()
    cause: str = DEGRADED
    op: ClassVar[str] = "degrade"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry = {"op": self.op, "id": self.id, "reason": self.reason, **self.holding.to_json()}
        if self.offers:
            entry["offers"] = list(self.offers)
        return entry if self.cause == DEGRADED else entry | {"cause": self.cause}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Degraded:
        """Read the output of :meth:`to_json`."""
        offers = tuple(entry.get("offers", ()))
        cause = entry.get("cause", DEGRADED)
        return cls(entry["id"], Holding.from_json(entry), entry["reason"], offers, cause)


@dataclass(frozen=True, slots=True)
class Relocated:
    """Bundles of a reservation moved to other machines; amounts and times stay the same.

    Attributes
    ----------
    slots
        Slots of each atom, in the order of the holding.
    """

    id: str
    slots: tuple[Slots, ...]
    reason: str = ""
    op: ClassVar[str] = "relocate"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        slots = [held.tolist() for held in self.slots]
        entry: dict[str, Any] = {"op": self.op, "id": self.id, "slots": slots}
        return entry | {"reason": self.reason} if self.reason else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Relocated:
        """Read the output of :meth:`to_json`."""
        slots = tuple(slots_of(held) for held in entry["slots"])
        return cls(entry["id"], slots, entry.get("reason", ""))


@dataclass(frozen=True, slots=True)
class Noted:
    """Something happened to a reservation that does not change its allocation.

    Attributes
    ----------
    what
        The word in the history and in the event.
    """

    id: str
    what: str
    reason: str = ""
    op: ClassVar[str] = "note"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "id": self.id, "what": self.what, "reason": self.reason}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Noted:
        """Read the output of :meth:`to_json`."""
        return cls(entry["id"], entry["what"], entry["reason"])


@dataclass(frozen=True, slots=True)
class Released:
    """Future rows were released, by atom path; the reservation continues."""

    id: str
    released: tuple[tuple[str, Rows], ...]
    reason: str = ""
    op: ClassVar[str] = "release"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        rows = [[path, given.tolist()] for path, given in self.released]
        entry: dict[str, Any] = {"op": self.op, "id": self.id, "released": rows}
        return entry | {"reason": self.reason} if self.reason else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Released:
        """Read the output of :meth:`to_json`."""
        released = tuple((path, rows_of(given)) for path, given in entry["released"])
        return cls(entry["id"], released, entry.get("reason", ""))


@dataclass(frozen=True, slots=True)
class Ended:
    """A reservation was cancelled or closed, or failed: rows from `from_step` on are released."""

    id: str
    state: State
    from_step: int
    reason: str = ""
    op: ClassVar[str] = "end"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry: dict[str, Any] = {
            "op": self.op,
            "id": self.id,
            "state": self.state.value,
            "from_step": self.from_step,
        }
        return entry | {"reason": self.reason} if self.reason else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Ended:
        """Read the output of :meth:`to_json`."""
        reason = entry.get("reason", "")
        return cls(entry["id"], State(entry["state"]), entry["from_step"], reason)


@dataclass(frozen=True, slots=True)
class Hold:
    """Until when a reservation is held, and for whom.

    Attributes
    ----------
    until_ms
        First instant at which it can no longer be accepted, ms from the origin.
    holder
        Name of the user that holds it.
    """

    until_ms: int
    holder: str

    def to_json(self) -> list[Any]:
        """Return plain JSON."""
        return [self.until_ms, self.holder]

    @classmethod
    def from_json(cls, entry: list[Any]) -> Hold:
        """Read the output of :meth:`to_json`."""
        return cls(entry[0], entry[1])

    @property
    def until(self) -> int | float:
        """`until_ms` in seconds."""
        return seconds_of(self.until_ms)


@dataclass(frozen=True, slots=True)
class AcceptHold:
    """Accept a hold: from now on it is an ordinary reservation."""

    id: str


@dataclass(frozen=True, slots=True)
class EndHold:
    """End a hold and release its allocation.

    Attributes
    ----------
    when_over
        Only if the hold has expired.
    """

    id: str
    reason: str
    when_over: bool = False


@dataclass(frozen=True, slots=True)
class HoldAccepted:
    """A hold was accepted."""

    id: str
    op: ClassVar[str] = "hold_accepted"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "id": self.id}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> HoldAccepted:
        """Read the output of :meth:`to_json`."""
        return cls(entry["id"])
