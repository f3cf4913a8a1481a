"""Records of changes made: all that `Plan.apply` needs, as plain JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.plan.records.holds import HoldAccepted
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.reservations.slots import Slots, slots_of


@dataclass(frozen=True, slots=True)
class Advanced:
    """The present moved; endless recurrences got the occurrences that fit the new horizon.

    `extended` maps a reservation to the shifts its atoms have now, one list an atom, and `laid` one
    that is promised machines to the slots of its atoms: new occurrences that found no machine, or
    are not there, have none until they are relocated.
    """

    now_step: int
    horizon: int
    extended: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()
    laid: tuple[tuple[str, tuple[Slots, ...]], ...] = ()
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
        if self.laid:
            entry["laid"] = [[one, [s.tolist() for s in lists]] for one, lists in self.laid]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Advanced:
        """Read what :meth:`to_json` wrote."""
        extended = tuple(
            (one, tuple(tuple(shifts) for shifts in lists))
            for one, lists in entry.get("extended", ())
        )
        laid = tuple(
            (one, tuple(slots_of(slots) for slots in lists)) for one, lists in entry.get("laid", ())
        )
        return cls(entry["now_step"], entry["horizon"], extended, laid)


@dataclass(frozen=True, slots=True)
class Archived:
    """Reservations that had ended, and refusals, left the Plan."""

    ids: tuple[str, ...]
    op: ClassVar[str] = "archive"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "ids": list(self.ids)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Archived:
        """Read what :meth:`to_json` wrote."""
        return cls(tuple(entry["ids"]))


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The cluster is described again."""

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
    Admitted
    | HoldAccepted
    | Refused
    | Updated
    | Degraded
    | Released
    | Relocated
    | Noted
    | Ended
    | Advanced
    | Archived
    | Reconfigured
)
_KINDS: dict[str, Any] = {
    kind.op: kind
    for kind in (
        Admitted,
        HoldAccepted,
        Refused,
        Updated,
        Degraded,
        Released,
        Relocated,
        Noted,
        Ended,
        Advanced,
        Archived,
        Reconfigured,
    )
}


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One step of the Plan: all changes of one commit, and the version they make.

    Attributes
    ----------
    adapted
        Of an answer to lost or returned machines: who is affected, as reported to clients
        (`planner.adaptation.result`); it changes nothing.
    """

    version: int
    at_ms: int
    changes: tuple[RecordedChange, ...]
    adapted: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, enough to make the same Plan again."""
        changes = [change.to_json() for change in self.changes]
        entry = {"version": self.version, "at_ms": self.at_ms, "changes": changes}
        return entry if self.adapted is None else entry | {"adapted": self.adapted}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> CommitRecord:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        KeyError
            If a change is of a kind that is not known.
        """
        changes = tuple(_KINDS[one["op"]].from_json(one) for one in entry["changes"])
        return cls(entry["version"], entry["at_ms"], changes, entry.get("adapted"))
