"""Convert changes of an optimisation to JSON, and back on a Plan that may have changed since.

A placement is written as rows by the path of each atom, in steps; the request itself is compiled
again on the Plan that applies the change, because its grid may have advanced. Slots are written
with a digest of the machines, and dropped if the machines have changed since: the Plan then finds
new slots. A change that is no longer applicable (the reservation is gone) is a `Conflict`, as is a
change that no longer fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from planner.cluster.cluster import Cluster
from planner.optimization.candidates import refused_request
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Degrade, Relocate, Update
from planner.renegotiation import result_of_rows
from planner.replanning.commitment import commitment_of
from planner.request import Request
from planner.reservations.reservation import Holding, rows_of
from planner.reservations.slots import Slots, slots_of
from rdl.compound import parts_of, vertices_by_path


def change_to_json(change: Change, cluster: Cluster | None = None) -> dict[str, Any]:
    """Return a change of an optimisation as plain JSON.

    Parameters
    ----------
    cluster
        The cluster whose machines the slots use; None writes no slots.

    Raises
    ------
    TypeError
        If the optimiser does not make this kind of change.
    """
    match change:
        case Update():
            return {
                "change": "update",
                "id": change.id,
                "revision": change.revision,
                "agent": change.agent,
                "cause": change.cause,
                "rows": _rows_by_path(change.request, change.result),
                **_slots_to_json(change.slots, cluster),
            }
        case Admit():
            request = change.request
            rows = _rows_by_path(request, change.result)
            slots = _slots_to_json(change.slots, cluster)
            return {
                "change": "admit",
                "id": request.id,
                "agent": change.agent,
                "rows": rows,
                **slots,
            }
        case Degrade():
            return {
                "change": "degrade",
                "id": change.id,
                "revision": change.revision,
                "kept": change.kept.to_json(),
                "reason": change.reason,
                "cause": change.cause,
            }
        case Relocate():
            return {
                "change": "relocate",
                "id": change.id,
                "revision": change.revision,
                "reason": change.reason,
                **_slots_to_json(change.slots, cluster),
            }
    raise TypeError(f"an optimisation makes no {type(change).__name__}")


def _slots_to_json(slots: Sequence[Slots | None] | None, cluster: Cluster | None) -> dict[str, Any]:
    """Return each atom's slots with the names of their machines; empty without slots."""
    if slots is None or cluster is None:
        return {}
    told = [None if one is None else one.tolist() for one in slots]
    return {"slots": told, "machines": machines_digest(cluster)}


def _read_slots(plan: Plan, entry: Mapping[str, Any]) -> tuple[Slots | None, ...] | None:
    told = entry.get("slots")
    if told is None or entry.get("machines") != machines_digest(plan.cluster):
        return None
    return tuple(None if one is None else slots_of(one) for one in told)


def machines_digest(cluster: Cluster) -> str:
    """Return a digest that changes with the machines of a cluster."""
    return sha256(repr(cluster.machines).encode()).hexdigest()[:16]


def changes_from_json(
    entries: Sequence[Mapping[str, Any]], plan: Plan, first: int = 0
) -> tuple[list[Change], list[Conflict]]:
    """Return the changes of `entries` on a Plan, and conflicts for inapplicable ones.

    Conflicts are numbered from `first` on.
    """
    changes: list[Change] = []
    conflicts: list[Conflict] = []
    for index, entry in enumerate(entries, first):
        read = _READERS[entry["change"]](plan, entry)
        if isinstance(read, str):
            conflicts.append(Conflict(index, entry["id"], Code.CONFLICT, read))
        else:
            changes.append(read)
    return changes, conflicts


def _rows_by_path(request: Request, result: PlacementResult) -> dict[str, list[list[int]]]:
    return {
        path: (rows * [1, 1, member.count]).tolist()
        for vertex, rows in result.atoms()
        for path, member in parts_of(request.graph, vertex)
    }


def _read_update(plan: Plan, entry: Mapping[str, Any]) -> Change | str:
    number = plan.table.number_of(entry["id"])
    if number is None:
        return "there is no such reservation any more"
    commitment = commitment_of(plan, number)
    if commitment.request is None:
        return f"its request can no longer be planned: {commitment.why}"
    result = _result(commitment.request, entry["rows"])
    if isinstance(result, str):
        return result
    revision, agent, cause = entry["revision"], entry["agent"], entry["cause"]
    slots = _read_slots(plan, entry)
    return Update(entry["id"], revision, commitment.request, result, agent, cause, slots)


def _read_admit(plan: Plan, entry: Mapping[str, Any]) -> Change | str:
    refusal = plan.refusal(entry["id"])
    if refusal is None:
        return "it is no longer among the refused requests"
    request = refused_request(plan, refusal)
    if request is None:
        return "its request can no longer be planned"
    result = _result(request, entry["rows"])
    if isinstance(result, str):
        return result
    return Admit(request, result, entry["agent"], anew=True, slots=_read_slots(plan, entry))


def _read_degrade(_plan: Plan, entry: Mapping[str, Any]) -> Change | str:
    kept = Holding.from_json(entry["kept"])
    cause = entry["cause"]
    return Degrade(entry["id"], entry["revision"], kept, entry["reason"], (), cause)


def _read_relocate(plan: Plan, entry: Mapping[str, Any]) -> Change | str:
    slots = _read_slots(plan, entry)
    if slots is None:
        return "the machines of the cluster have changed"
    placed = tuple(one for one in slots if one is not None)
    return Relocate(entry["id"], entry["revision"], placed, entry["reason"])


def _result(request: Request, rows: Mapping[str, Sequence[Sequence[int]]]) -> PlacementResult | str:
    """Return rows by path as a placement of a request, or why they are not one."""
    if not vertices_by_path(request.graph).keys() >= rows.keys():
        return "the request has changed"
    return result_of_rows(request.graph, {path: rows_of(one) for path, one in rows.items()})


_READERS = {
    "update": _read_update,
    "admit": _read_admit,
    "degrade": _read_degrade,
    "relocate": _read_relocate,
}
