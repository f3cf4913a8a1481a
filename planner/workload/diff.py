"""Differences of two plans: added, lost and moved requests, and amounts moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from planner.files.plan_document import PlanDocument
from planner.reservations.state import State

#: Metrics shown in a comparison, in order.
COMPARED = (
    "acceptance", "accepted", "value", "falls", "falls_inner", "cost", "uniformity",
)  # fmt: skip

#: States in which the whole promise is, or was, kept.
_WHOLE = frozenset({State.ACCEPTED, State.ACTIVE, State.COMPLETED})


class ChangeKind(StrEnum):
    """The outcome of a request between two plans."""

    GAINED = "gained"  # refused before, accepted now
    LOST = "lost"  # accepted before, refused or failed now
    DEGRADED = "degraded"  # whole promise before, only a part now
    RESTORED = "restored"  # degraded before, whole promise now
    ADDED = "added"  # not in the plan before
    GONE = "gone"  # not in the plan now
    MOVED = "moved"  # other rows
    RELOCATED = "relocated"  # same rows, other machines
    CHANGED = "changed"  # same rows, another state, code or choice


@dataclass(frozen=True, slots=True)
class RequestDiff:
    """The outcome of one request.

    Attributes
    ----------
    before, after
        State, or code of the refusal, or None if it is not in the plan.
    start_s, end_s
        Start and end of the allocation, before and after; None without one.
    moved
        Bundle-seconds allocated now that were not allocated at the same time before: the sum over
        atoms and time of max(0, new - old).
    relocated
        Bundle-seconds allocated at the same time before and now, but on other machines.
    """

    id: str
    fate: ChangeKind
    before: str | None
    after: str | None
    start_s: tuple[float | None, float | None]
    end_s: tuple[float | None, float | None]
    moved: float
    relocated: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "id": self.id,
            "fate": self.fate.value,
            "before": self.before,
            "after": self.after,
            "start": list(self.start_s),
            "end": list(self.end_s),
            "moved": self.moved,
            "relocated": self.relocated,
        }


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """All differences between two plans.

    Attributes
    ----------
    requests
        Requests that differ, in the order of the later plan, then those that are gone.
    same
        Number of requests that do not differ.
    metrics
        Name -> (before, after).
    """

    requests: tuple[RequestDiff, ...]
    same: int
    metrics: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def count(self, fate: ChangeKind) -> int:
        """Return the number of requests with an outcome."""
        return sum(one.fate is fate for one in self.requests)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "same": self.same,
            "counts": {fate.value: self.count(fate) for fate in ChangeKind},
            "metrics": {name: list(pair) for name, pair in self.metrics.items()},
            "requests": [one.to_json() for one in self.requests],
        }


def plan_diff(before: PlanDocument, after: PlanDocument) -> PlanDiff:
    """Return the differences between two plans."""
    old, new = _entries(before), _entries(after)
    found: list[RequestDiff] = []
    for id_ in (*new, *(one for one in old if one not in new)):
        difference = difference_of(id_, old.get(id_), new.get(id_))
        if difference is not None:
            found.append(difference)
    metrics = {name: (before.metrics.get(name), after.metrics.get(name)) for name in COMPARED}
    if metrics["cost"] == (None, None):  # neither plan has prices
        del metrics["cost"]
    same = len(old.keys() | new.keys()) - len(found)
    return PlanDiff(tuple(found), same, metrics)


def _entries(document: PlanDocument) -> dict[str, Mapping[str, Any]]:
    return {one["id"]: one for one in (*document.reservations, *document.refusals)}


def difference_of(
    id_: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> RequestDiff | None:
    """Return the difference for one request, or None if there is none.

    Parameters
    ----------
    old, new
        Its entries in two plan files (reservation or refusal), None if it is not in the plan.
    """
    moved = work_moved(_atoms(old), _atoms(new))
    relocated = _moved_machines(old, new, moved)
    before, after = _state_of(old), _state_of(new)
    fate = _fate(old, new, moved > 0 or work_moved(_atoms(new), _atoms(old)) > 0)
    if relocated > 0 and fate in (None, ChangeKind.CHANGED):
        fate = ChangeKind.RELOCATED
    if fate is None:
        return None
    start, end = _span(old), _span(new)
    starts, ends = (start[0], end[0]), (start[1], end[1])
    return RequestDiff(id_, fate, before, after, starts, ends, moved, relocated)


def _moved_machines(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, moved: float
) -> float:
    """Return the bundle-seconds on other machines, without those at new times."""
    before, after = _by_machine(old), _by_machine(new)
    return max(0.0, work_moved(before, after) - moved) if before and after else 0.0


def _by_machine(entry: Mapping[str, Any] | None) -> dict[str, Sequence[Sequence[float]]]:
    """Return the rows on each machine, for each atom."""
    found: dict[str, list[Sequence[float]]] = {}
    for atom in () if entry is None else entry.get("atoms", ()):
        for start, end, bundles, machine in atom.get("slots", ()):
            found.setdefault(f"{atom['path']} {machine}", []).append((start, end, bundles))
    return dict(found)


def _fate(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, moved: bool
) -> ChangeKind | None:
    if old is None or new is None:
        return ChangeKind.ADDED if old is None else ChangeKind.GONE
    if ("code" in old) != ("code" in new):
        return ChangeKind.GAINED if "code" in old else ChangeKind.LOST
    kept = None if "code" in old else _promise_change(old["state"], new["state"])
    if kept is not None:
        return kept
    if moved:
        return ChangeKind.MOVED
    same = _state_of(old) == _state_of(new) and old.get("choices") == new.get("choices")
    return None if same else ChangeKind.CHANGED


def _promise_change(old: str | None, new: str | None) -> ChangeKind | None:
    """Return the outcome of a promise by its two states; None if it is unchanged.

    This has priority over moved rows: losing a part of a promise is more important than a move.
    """
    if old == new:
        return None
    if new == State.FAILED:
        return ChangeKind.LOST
    if new == State.DEGRADED:
        return ChangeKind.DEGRADED
    return ChangeKind.RESTORED if old == State.DEGRADED and new in _WHOLE else None


def _state_of(entry: Mapping[str, Any] | None) -> str | None:
    if entry is None:
        return None
    if "degradation" in entry:
        return State.DEGRADED  # also if its owner closed it
    state: str = entry["code"] if "code" in entry else entry["state"]
    return state


def _atoms(entry: Mapping[str, Any] | None) -> dict[str, Sequence[Sequence[float]]]:
    if entry is None:
        return {}
    return {atom["path"]: atom["allocation"] for atom in entry.get("atoms", ())}


def _span(entry: Mapping[str, Any] | None) -> tuple[float | None, float | None]:
    rows = [row for atom in _atoms(entry).values() for row in atom]
    if not rows:
        return None, None
    return min(row[0] for row in rows), max(row[1] for row in rows)


def work_moved(
    old: Mapping[str, Sequence[Sequence[float]]], new: Mapping[str, Sequence[Sequence[float]]]
) -> float:
    """Return the bundle-seconds of `new` that `old` does not have at the same time."""
    return sum(_gain(old.get(path, ()), rows) for path, rows in new.items())


def _gain(old: Sequence[Sequence[float]], new: Sequence[Sequence[float]]) -> float:
    changes = sorted(
        [(start, 1, n) for start, _, n in new]
        + [(end, 1, -n) for _, end, n in new]
        + [(start, 0, n) for start, _, n in old]
        + [(end, 0, -n) for _, end, n in old]
    )
    total: float = 0
    held: list[float] = [0, 0]
    last: float = 0
    for at, which, change in changes:
        total += max(0, held[1] - held[0]) * (at - last)
        held[which] += change
        last = at
    return total
