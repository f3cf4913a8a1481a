"""What an adaptation answers: changes to commit, and who is affected how."""

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
    """Still degraded, and more of it is held again."""

    FAILED = "failed"
    RELOCATED = "relocated"
    """It holds what it held, at the same times, and some of it on other machines."""


@dataclass(frozen=True, slots=True)
class Affected:
    """One reservation that a change of capacity does something to.

    Attributes
    ----------
    value
        What keeping it is worth (weight x size x preferences).
    moved
        Work that now stands elsewhere, in steps of the whole cluster.
    reason
        One sentence for its owner, empty if it is only moved.
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
    """What is to be done.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`; empty when nothing need be done.
    affected
        Those it touches, dropped ones first, in order of value.
    cost
        Value dropped and work moved in time.
    relocated
        Work that stands on other machines at the same times, in steps of the whole cluster.
    short
        What machines are still short of, where even the leases in force of no one could be moved;
        empty otherwise.
    refused
        What the Plan did not take as it was found: these are degraded instead. A fault of ours.
    failed
        Why the Plan takes no answer at all, a fault of ours; empty if it does.
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
        """Return those who meet a fate."""
        return tuple(one for one in self.affected if one.fate is fate)

    def to_json(self) -> dict[str, Any]:
        """Return what is notified of it, as plain JSON."""
        return {
            "affected": [one.to_json() for one in self.affected],
            "dropped": self.cost.dropped,
            "moved": self.cost.moved,
            "relocated": round(self.relocated, 6),
            "short": self.short,
        }


def join_adaptations(written: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several adaptations, one after the other, come to; of each id the last fate.

    Parameters
    ----------
    written
        What `Adaptation.to_json` wrote of each, oldest first.
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
