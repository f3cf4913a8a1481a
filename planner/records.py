"""Records of changes made: all that `Plan.apply` needs, as plain JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from planner.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.placement import Binding, Code
from planner.reservation import AtomAllocation, Refusal, Rows
from planner.states import State
from rdl.expressions import Expression
from rdl.resources import Resources

#: Where a reservation without an end ends: past every horizon.
NEVER = 2**31 - 1

#: Cause of an update that its owner asked for; others are told in the history in their own word.
RENEGOTIATED = "renegotiated"

#: Cause of a change that takes part of what was promised away.
DEGRADED = "degraded"


class Details:
    """Expression text, choices, notes and flags of a request; the text is written when needed."""

    __slots__ = ("_text", "choices", "creditable", "expression", "notes")

    def __init__(
        self,
        expression: Expression | str,
        choices: tuple[tuple[str, int], ...] = (),
        notes: tuple[str, ...] = (),
        *,
        creditable: bool = False,
    ) -> None:
        self.expression = None if isinstance(expression, str) else expression
        self._text = expression if isinstance(expression, str) else None
        self.choices = choices
        self.notes = notes
        self.creditable = creditable

    @property
    def text(self) -> str:
        """The canonical text of the expression as submitted."""
        if self._text is None:
            from rdl.formatter import format_expression

            assert self.expression is not None
            self._text = format_expression(self.expression)
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Details):
            return NotImplemented
        mine = (self.text, self.choices, self.notes, self.creditable)
        return mine == (other.text, other.choices, other.notes, other.creditable)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """Return what a record carries of it; what is empty is left out."""
        entry: dict[str, Any] = {"expression": self.text}
        if self.choices:
            entry["choices"] = dict(self.choices)
        if self.notes:
            entry["notes"] = list(self.notes)
        if self.creditable:
            entry["creditable"] = True
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Details:
        """Read what :meth:`to_json` wrote."""
        choices = tuple(entry.get("choices", {}).items())
        notes, creditable = tuple(entry.get("notes", ())), entry.get("creditable", False)
        return cls(entry["expression"], choices, notes, creditable=creditable)


@dataclass(frozen=True, slots=True)
class Holding:
    """All that a reservation holds, and from when to when.

    Attributes
    ----------
    begin, finish
        First step of any row and first step past the last; `NEVER` for what ends only when it is
        cancelled (endless recurrences, best-effort sessions).
    endless
        Period in steps of an endless recurrence, or 0.
    """

    atoms: tuple[AtomAllocation, ...]
    begin: int
    finish: int
    endless: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what a record carries of it."""
        entry: dict[str, Any] = {
            "begin": self.begin,
            "finish": self.finish,
            "atoms": [_atom_record(atom) for atom in self.atoms],
        }
        return entry | {"endless": self.endless} if self.endless else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Holding:
        """Read what :meth:`to_json` wrote."""
        atoms = tuple(_atom_from_record(one) for one in entry["atoms"])
        return cls(atoms, entry["begin"], entry["finish"], entry.get("endless", 0))


def _atom_record(atom: AtomAllocation) -> list[Any]:
    """Return ``[path, {resource: amount}, label, rows, shifts, released, inner]``, cut short."""
    released = [] if atom.released is None else atom.released.tolist()
    record: list[Any] = [atom.path, dict(atom.bundle), atom.label, atom.rows.tolist()]
    if atom.shifts != (0,) or released or atom.inner:
        record.append(list(atom.shifts))
    if released or atom.inner:
        record.append(released)
    if atom.inner:
        record.append(list(atom.inner))
    return record


def _atom_from_record(record: Sequence[Any]) -> AtomAllocation:
    path, bundle, label, rows = record[:4]
    shifts = tuple(record[4]) if len(record) > 4 else (0,)
    released = rows_of(record[5]) if len(record) > 5 and record[5] else None
    inner = tuple(record[6]) if len(record) > 6 else ()
    return AtomAllocation(path, Resources.of(bundle), label, rows_of(rows), shifts, released, inner)


def rows_of(rows: Sequence[Sequence[int]]) -> Rows:
    """Return rows as int64[m, 3]."""
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A reservation was made."""

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    agent: str
    details: Details
    holding: Holding
    op: ClassVar[str] = "admit"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
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
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Admitted:
        """Read what :meth:`to_json` wrote."""
        return cls(
            entry["id"],
            entry["tenant"],
            entry["queue"],
            entry["submitted_ms"],
            entry["weight"],
            entry["priority"],
            entry["agent"],
            Details.from_json(entry),
            Holding.from_json(entry),
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
        return entry | {"offers": list(one.offers)} if one.offers else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Refused:
        """Read what :meth:`to_json` wrote."""
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
        )
        return cls(refusal)


@dataclass(frozen=True, slots=True)
class Updated:
    """A reservation holds something else now."""

    id: str
    revision: int
    agent: str
    weight: float
    priority: int
    details: Details
    holding: Holding
    cause: str = RENEGOTIATED
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
        }
        return entry if self.cause == RENEGOTIATED else entry | {"cause": self.cause}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Updated:
        """Read what :meth:`to_json` wrote."""
        return cls(
            entry["id"],
            entry["revision"],
            entry["agent"],
            entry["weight"],
            entry["priority"],
            Details.from_json(entry),
            Holding.from_json(entry),
            entry.get("cause", RENEGOTIATED),
        )


@dataclass(frozen=True, slots=True)
class Degraded:
    """Capacity under a reservation was lost: `holding` is all that it still holds."""

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
        """Read what :meth:`to_json` wrote."""
        offers = tuple(entry.get("offers", ()))
        cause = entry.get("cause", DEGRADED)
        return cls(entry["id"], Holding.from_json(entry), entry["reason"], offers, cause)


@dataclass(frozen=True, slots=True)
class Released:
    """Rows of the future were given back, by atom path; the reservation goes on."""

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
        """Read what :meth:`to_json` wrote."""
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
        """Read what :meth:`to_json` wrote."""
        reason = entry.get("reason", "")
        return cls(entry["id"], State(entry["state"]), entry["from_step"], reason)


@dataclass(frozen=True, slots=True)
class Advanced:
    """The present moved; endless recurrences got the occurrences that fit the new horizon.

    `extended` maps a reservation to the shifts its atoms have now, one list an atom.
    """

    now_step: int
    horizon: int
    extended: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()
    op: ClassVar[str] = "advance"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry: dict[str, Any] = {
            "op": self.op,
            "now_step": self.now_step,
            "horizon": self.horizon,
        }
        if self.extended:
            entry["extended"] = [[one, [list(s) for s in lists]] for one, lists in self.extended]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Advanced:
        """Read what :meth:`to_json` wrote."""
        extended = tuple(
            (one, tuple(tuple(shifts) for shifts in lists))
            for one, lists in entry.get("extended", ())
        )
        return cls(entry["now_step"], entry["horizon"], extended)


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The cluster is described anew."""

    cluster: Cluster
    op: ClassVar[str] = "cluster"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "cluster": cluster_to_json(self.cluster)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Reconfigured:
        """Read what :meth:`to_json` wrote."""
        return cls(cluster_from_json(entry["cluster"], "commit record"))


RecordedChange: TypeAlias = (
    Admitted | Refused | Updated | Degraded | Released | Ended | Advanced | Reconfigured
)
_KINDS: dict[str, Any] = {
    kind.op: kind
    for kind in (
        Admitted,
        Refused,
        Updated,
        Degraded,
        Released,
        Ended,
        Advanced,
        Reconfigured,
    )
}


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One step of the Plan: all changes of one commit, and the version they make."""

    version: int
    at_ms: int
    changes: tuple[RecordedChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, enough to make the same Plan again."""
        changes = [change.to_json() for change in self.changes]
        return {"version": self.version, "at_ms": self.at_ms, "changes": changes}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> CommitRecord:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        KeyError
            If a change is of a kind that is not known.
        """
        changes = tuple(_KINDS[one["op"]].from_json(one) for one in entry["changes"])
        return cls(entry["version"], entry["at_ms"], changes)
