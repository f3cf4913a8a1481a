"""Undo the changes of an optimisation, unless the reservations have started since.

The inverse of a commit is recorded with the commit, as plain JSON: the previous allocation of each
reservation. Undo cancels an admitted reservation, moves a moved one back, and degrades a restored
one again. Reservations that have started or changed since stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from planner.adaptation.adapter import MOVED
from planner.agent import Limits
from planner.cluster.cluster import Cluster
from planner.optimization.codec import machines_digest
from planner.optimization.feasible_part import FeasiblePart, feasible_part, id_of_change, takes
from planner.optimization.objective import Objective
from planner.optimization.optimizer import Optimization
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import Code
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel, Change, Conflict, Degrade, Relocate, Update
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Degraded, Relocated, Updated
from planner.renegotiation import held_result
from planner.replanning.commitment import commitment_of
from planner.request import Request
from planner.reservations.holding import lost_rows, with_slots, within
from planner.reservations.reservation import NEVER, Holding, Rows
from planner.reservations.rows import subtract
from planner.reservations.slots import Slots
from planner.reservations.state import LIVE, State
from rdl.time_grid import TimeGrid

#: Why a reservation stays as it is.
BEGUN: Final = "begun"
CHANGED: Final = "changed"
GONE: Final = "gone"
PARTIAL: Final = "partial"

_DETAILS: Final = {
    BEGUN: "the part that the optimisation changed has started, or would have by now",
    CHANGED: "it was changed after the optimisation",
    GONE: "it has ended or was cancelled",
    PARTIAL: "its previous allocation is neither its whole request nor a part of the current one",
}

#: Reason in the history of a reservation.
_REASON: Final = "an optimisation was undone"

#: Rows of an atom, or of its slots on one machine, by path and machine.
_ByPlace: TypeAlias = dict[tuple[str, int], Rows]

#: Seconds after which the search for other places ends.
_LONGEST_S: Final = 3.0

#: Consecutive trials without improvement after which the search ends.
_STALL: Final = 400
_NOT_ADMITTED: Final = "its place is in use by now, and there is no other"
_NOT_DEGRADED: Final = "there are machines for it again: it keeps all that it holds"
_NOT_MOVED: Final = (
    "it stays where it is: its new place is in use, or frees capacity for nothing any more"
)


@dataclass(frozen=True, slots=True)
class Staying:
    """A reservation that an undo does not change, with the reason: a code and a sentence."""

    id: str
    code: str

    @property
    def detail(self) -> str:
        """The reason in words."""
        return _DETAILS[self.code]

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"id": self.id, "code": self.code, "detail": self.detail}


def inverse_of(plan: Plan, record: CommitRecord) -> list[dict[str, Any]]:
    """Return the inverse of a commit as plain JSON, one entry per reservation.

    Parameters
    ----------
    plan
        The Plan before the record.
    """
    return [_inverse(plan, one) for one in record.changes]


def _inverse(plan: Plan, change: RecordedChange) -> dict[str, Any]:
    if isinstance(change, Admitted):
        begin = change.holding.begin
        return {"change": "cancel", "id": change.id, "revision": 1, "first": begin}
    if not isinstance(change, Updated | Degraded | Relocated):
        raise TypeError(f"an optimisation makes no {type(change).__name__}")
    number = plan.table.number_of(change.id)
    assert number is not None
    before, revision = plan.table.holding(number), int(plan.table.meta[number]["revision"])
    entry: dict[str, Any] = {"id": change.id, "before": before.to_json()}
    if isinstance(change, Relocated):
        after = with_slots(before, change.slots)
        entry |= {"change": "relocate", "revision": revision}
        entry["slots"] = [held.tolist() for held in change.slots]
    else:
        after = change.holding
        was_whole = plan.table.state(number) is not State.DEGRADED
        entry |= {"change": "update" if was_whole else "degrade", "revision": revision + 1}
        entry["agent"] = plan.table.read(number).agent
    machines = machines_digest(plan.cluster)
    return entry | {"first": _first_difference(before, after), "machines": machines}


def _first_difference(before: Holding, after: Holding) -> int:
    """Return the first step at which rows or slots of two holdings differ."""
    found = [lost_rows(before, after), lost_rows(after, before)]
    one, other = _slots_by_machine(before), _slots_by_machine(after)
    for these, those in ((one, other), (other, one)):
        for place, rows in these.items():
            more = subtract(rows, those[place]) if place in those else rows
            found.append(more[more[:, 2] > 0])
    return int(np.concatenate(found)[:, 0].min(initial=NEVER))


def _slots_by_machine(holding: Holding) -> _ByPlace:
    found: dict[tuple[str, int], list[list[int]]] = {}
    for atom in holding.atoms:
        for (path, _), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True):
            for *row, machine in () if slots is None else slots.tolist():
                found.setdefault((path, machine), []).append(row)
    return {place: np.array(rows, dtype=np.int64) for place, rows in found.items()}


@dataclass(frozen=True, slots=True)
class CompiledRequests:
    """The requests for an undo, compiled before the Plan is locked.

    Attributes
    ----------
    cluster, grid
        The cluster and grid that they were compiled for; not valid on others.
    by_id
        Request by the id of its reservation; None if it cannot be compiled.
    """

    cluster: Cluster
    grid: TimeGrid
    by_id: Mapping[str, Request | None]

    def on(self, plan: Plan) -> Mapping[str, Request | None]:
        """Return the requests if they are valid on a Plan, else none."""
        same = self.cluster is plan.cluster and self.grid == plan.grid
        return self.by_id if same else {}


def requests_of(plan: Plan, entries: Iterable[Mapping[str, Any]]) -> CompiledRequests:
    """Compile the requests for undoing these entries, of reservations that still exist."""
    found: dict[str, Request | None] = {}
    for entry in entries:
        number = plan.table.number_of(entry["id"])
        if entry["change"] == "update" and number is not None and plan.table.state(number) in LIVE:
            found[entry["id"]] = commitment_of(plan, number).request
    return CompiledRequests(plan.cluster, plan.grid, found)


def undo_changes(
    plan: Plan, entries: Sequence[Mapping[str, Any]], compiled: CompiledRequests | None = None
) -> tuple[list[Change], list[Staying]]:
    """Return the changes that undo a commit on a Plan, and the reservations that stay.

    Parameters
    ----------
    entries
        The result of :func:`inverse_of` for the commit.
    compiled
        The result of :func:`requests_of`; None compiles the requests here.
    """
    changes: list[Change] = []
    staying: list[Staying] = []
    known = {} if compiled is None else compiled.on(plan)
    for entry in entries:
        found = _undo(plan, entry, known)
        if isinstance(found, str):
            staying.append(Staying(entry["id"], found))
        else:
            changes.append(found)
    return changes, staying


def _undo(
    plan: Plan, entry: Mapping[str, Any], known: Mapping[str, Request | None]
) -> Change | str:
    """Return the change that undoes one entry, or the code of the reason why it stays."""
    id_, revision = entry["id"], entry["revision"]
    number = plan.table.number_of(id_)
    if number is None or plan.table.state(number) not in LIVE:
        return GONE
    held = plan.table.holding(number)
    if int(plan.table.meta[number]["revision"]) != revision:
        return CHANGED
    if entry["first"] <= plan.now:
        return BEGUN
    if entry["change"] == "cancel":
        return Cancel(id_, revision)
    before = Holding.from_json(entry["before"])
    same_machines = entry["machines"] == machines_digest(plan.cluster)
    if entry["change"] == "relocate":
        if not same_machines or [one.tolist() for one in _slots_of(held)] != entry["slots"]:
            return CHANGED
        return Relocate(id_, revision, tuple(_slots_of(before)), _REASON)
    if entry["change"] == "degrade":
        return Degrade(id_, revision, before, _REASON) if within(before, held) else PARTIAL
    request = known[id_] if id_ in known else commitment_of(plan, number).request
    period = plan.cluster.max_period_ms
    result = None if request is None else held_result(request, before, period)
    if request is None or result is None:
        return PARTIAL
    slots = tuple(_slots_of(before))
    given = slots if same_machines and len(slots) == len(before.atoms) else None
    return Update(id_, revision, request, result, entry["agent"], MOVED, given, reason=_REASON)


def _slots_of(holding: Holding) -> Iterator[Slots]:
    return (atom.slots for atom in holding.atoms if atom.slots is not None)


# It is the optimisation's search, started from its changes applied to the current Plan, and limited
# to the commitments that they change: a reservation whose new place is in use goes elsewhere or
# stays; requests are placed again last, the most valuable first. A loss is kept only if machines
# are still short. The result is prepared jointly.


def replay(plan: Plan, changes: Sequence[Change], frozen_until: int) -> FeasiblePart:
    """Return the part of `changes` that a Plan accepts, some of them at other places.

    Parameters
    ----------
    plan
        A copy that no other thread uses.
    frozen_until
        Rows before this step do not move.
    """
    losing = any(isinstance(one, Degrade) for one in changes)
    if not changes or (not losing and takes(plan, changes)):
        return FeasiblePart(tuple(changes))
    invalid = {
        index: replace(conflict, index=index)
        for index, change in enumerate(changes)
        for conflict in conflicts_but_for_room(plan, [change])
    }
    valid = tuple(one for index, one in enumerate(changes) if index not in invalid)
    starts = valid, feasible_part(plan, changes).kept
    work = Optimization(
        plan,
        Objective(lexicographic=True),
        OptimizeScope(
            frozen_until,
            admit_refused=True,
            only=frozenset(filter(None, map(id_of_change, valid))),
        ),
        OptimizeOptions(Limits(time_s=_LONGEST_S), solver="", starts=starts, stall=_STALL),
    )
    found = work.run()
    made = {id_of_change(one) for one in found.changes}
    left = (
        invalid.get(index) or _not_made(work, index, change)
        for index, change in enumerate(changes)
        if id_of_change(change) not in made
    )
    return FeasiblePart(found.changes, tuple(left))


def _not_made(work: Optimization, index: int, change: Change) -> Conflict:
    """Return why an applicable change is not made."""
    id_ = id_of_change(change)
    refused = None if id_ is None else work.too_many.get(id_)
    if refused is not None and refused.code is not None:
        return Conflict(index, id_, refused.code, refused.detail, refused.binding)
    if isinstance(change, Degrade):
        return Conflict(index, id_, Code.CONFLICT, _NOT_DEGRADED)
    detail = _NOT_ADMITTED if isinstance(change, Admit) else _NOT_MOVED
    return Conflict(index, id_, Code.CAPACITY, detail)
