"""The result of an adaptation: changes to commit, and the affected reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from planner.adaptation.repair import Cost
from planner.plan.records.changes import Change, Conflict


class Effect(StrEnum):
    """The outcome of a reservation when capacity changes."""

    MOVED = "moved"
    DEGRADED = "degraded"
    RESTORED = "restored"
    REGAINED = "regained"
    """Still degraded, but more of it is restored."""

    FAILED = "failed"
    RELOCATED = "relocated"
    """Its allocation is the same, with some of it on other machines."""


@dataclass(frozen=True, slots=True)
class Affected:
    """One reservation that a change of capacity affects.

    Attributes
    ----------
    value
        Value of keeping it (weight x size x preferences).
    moved
        Work that moved in time, in steps of the whole cluster.
    reason
        One sentence for its owner, empty if it only moved.
    """

    id: str
    tenant: str
    fate: Effect
    value: float
    moved: float = 0.0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        entry = {"id": self.id, "tenant": self.tenant, "fate": self.fate.value}
        numbers = {"value": round(self.value, 6), "moved": round(self.moved, 6)}
        return entry | numbers | {"reason": self.reason}


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The changes to make, and their effects.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`; may be empty.
    affected
        The affected reservations, dropped ones first, in order of value.
    cost
        Value dropped and work moved in time.
    relocated
        Work that moved to other machines at the same times, in steps of the whole cluster.
    short
        The remaining shortage of machines, if even breaking leases in force does not resolve it;
        else empty.
    refused
        Changes that the Plan did not accept: these are degraded instead. This is a bug.
    failed
        Why the Plan does not accept the adaptation at all, which is a bug; else empty.
    """

    changes: tuple[Change, ...] = ()
    affected: tuple[Affected, ...] = ()
    cost: Cost = field(default_factory=Cost)
    based_on: int = 0
    short: str = ""
    relocated: float = 0.0
    refused: tuple[Conflict, ...] = ()
    failed: str = ""

    def of(self, fate: Effect) -> tuple[Affected, ...]:
        """Return the reservations with this effect."""
        return tuple(one for one in self.affected if one.fate is fate)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for notifications."""
        return {
            "affected": [one.to_json() for one in self.affected],
            "dropped": self.cost.dropped,
            "moved": self.cost.moved,
            "relocated": round(self.relocated, 6),
            "short": self.short,
        }


def join_adaptations(written: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of several adaptations in order, with the last effect of each id.

    Parameters
    ----------
    written
        The `Adaptation.to_json` of each, oldest first.
    """
    affected: dict[str, Any] = {}
    whole = Adaptation().to_json()
    for one in written:
        for entry in one["affected"]:
            before = affected.pop(entry["id"], None)
            if before is not None and before["fate"] == Effect.DEGRADED:
                whole["dropped"] -= before["value"]
            affected[entry["id"]] = entry
        whole["dropped"] += one["dropped"]
        whole["moved"] += one["moved"]
        whole["relocated"] += one.get("relocated", 0.0)  # earlier records have none
        whole["short"] = one["short"]
    return whole | {"affected": list(affected.values())}
