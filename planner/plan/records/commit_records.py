"""Records of changes made, with all that `Plan.apply` needs, to plain JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    HoldAccepted,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.reservations.slots import Slots, slots_of


@dataclass(frozen=True, slots=True)
class Advanced:
    """The present moved; endless recurrences got the occurrences that fit in the new horizon.

    `extended` maps a reservation to the shifts of its atoms, one list per atom. `laid` maps a
    placed reservation to the slots of its atoms: new occurrences that found no machine have none
    until they are relocated.
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
        """Read the output of :meth:`to_json`."""
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
    """Ended reservations, and refusals, were removed from the Plan."""

    ids: tuple[str, ...]
    op: ClassVar[str] = "archive"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "ids": list(self.ids)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Archived:
        """Read the output of :meth:`to_json`."""
        return cls(tuple(entry["ids"]))


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The description of the cluster was replaced."""

    cluster: Cluster
    op: ClassVar[str] = "cluster"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "cluster": cluster_to_json(self.cluster)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Reconfigured:
        """Read the output of :meth:`to_json`."""
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
    """All changes of one commit, and the version of the Plan that they make.

    Attributes
    ----------
    adapted
        If the commit adapts the Plan to lost or returned machines: the affected reservations, as
        reported to clients (`planner.adaptation.result`). It changes nothing.
    """

    version: int
    at_ms: int
    changes: tuple[RecordedChange, ...]
    adapted: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with all that is needed to make the same Plan."""
        changes = [change.to_json() for change in self.changes]
        entry = {"version": self.version, "at_ms": self.at_ms, "changes": changes}
        return entry if self.adapted is None else entry | {"adapted": self.adapted}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> CommitRecord:
        """Read the output of :meth:`to_json`.

        Raises
        ------
        KeyError
            If a change is of an unknown kind.
        """
        changes = tuple(_KINDS[one["op"]].from_json(one) for one in entry["changes"])
        return cls(entry["version"], entry["at_ms"], changes, entry.get("adapted"))
