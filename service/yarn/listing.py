"""YARN's list call: the reservations of a queue in a time, with their allocations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

from planner.reservations.reservation import Reservation
from planner.reservations.state import State
from rdl.durations import epoch_ms
from rdl.resources import CPU, MEMORY, Resources
from rdl.time_grid import TimeGrid
from service.runtime import Runtime
from service.store import YarnReservationRow
from service.yarn.caller import YarnCaller
from service.yarn.definition import decode, one_or_many, read_id
from service.yarn.faults import YarnFault
from service.yarn.submissions import require_plan, standing_row

_CORE: Final = 1000
_LONGEST: Final = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class YarnQuery:
    """The query of a list call.

    Attributes
    ----------
    queue, name
        The queue, and the id of a reservation in it or None.
    start_ms, end_ms
        Unix ms; negative values mean no limit.
    allocations
        Whether entries include their allocations.
    """

    queue: str
    name: str | None
    start_ms: int
    end_ms: int
    allocations: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    """A reservation to list; pieces are [start, end) in Unix ms with allocated amounts."""

    row: YarnReservationRow
    pieces: tuple[tuple[int, int, Resources], ...]
    live: bool

    def touches(self, start_ms: int, end_ms: int | None) -> bool:
        """Return whether an occurrence begins by `end_ms` and ends after `start_ms`.

        A recurrence has a first occurrence but no last one.
        """
        begin, finish, period = self.pieces[0][0], self.pieces[-1][1], self.row.period_ms
        if period and self.live and finish <= start_ms:
            begin += ((start_ms - finish) // period + 1) * period
        elif finish <= start_ms:
            return False
        return end_ms is None or begin <= end_ms


def list_reservations(runtime: Runtime, caller: YarnCaller, query: YarnQuery) -> dict[str, Any]:
    """Return the answer to a list call; as in YARN, a single entry is not wrapped in a list.

    Raises
    ------
    YarnFault
        404 or 400 for an invalid id, 400 for a time that ends before it starts or a queue that
        accepts no reservations.
    """
    name = None if query.name is None else read_id(query.name)
    start_ms = max(query.start_ms, 0)
    end_ms = None if query.end_ms < 0 else query.end_ms
    if end_ms is not None and end_ms < start_ms:
        raise YarnFault("The specified end time must be greater than the specified start time.")
    queue = require_plan(runtime, query.queue)
    if name is not None:
        row = standing_row(runtime, name)
        entries = _entries(runtime, caller, [row] if row and row.queue == queue else [])
    else:
        rows = runtime.yarn.between(queue, start_ms, end_ms)
        entries = [e for e in _entries(runtime, caller, rows) if e.touches(start_ms, end_ms)]
    told = [_in_yarn_form(entry, allocations=query.allocations) for entry in entries]
    return {"reservations": one_or_many(told)} if told else {}


#: Reservations that are read while holding the Plan's lock once; a long list releases it often.
_READ: Final = 100


def _entries(runtime: Runtime, caller: YarnCaller, rows: list[YarnReservationRow]) -> list[_Entry]:
    """Return the entries of current reservations among `rows` that the caller may see."""
    found: list[_Entry] = []
    for first in range(0, len(rows), _READ):
        part = rows[first : first + _READ]
        with runtime.reading() as plan:
            read = [(row, plan.reservation(row.id)) for row in part]
            grid = plan.grid
        found += [entry for row, one in read if (entry := _entry(caller, row, one, grid))]
    return found


def _entry(
    caller: YarnCaller, row: YarnReservationRow, reservation: Reservation | None, grid: TimeGrid
) -> _Entry | None:
    if reservation is None or reservation.state in (State.CANCELLED, State.FAILED):
        return None
    if not caller.user.acts_for(reservation.tenant):
        return None
    pieces = tuple(_pieces(reservation, row, grid))
    live = reservation.state != State.COMPLETED
    return _Entry(row, pieces, live) if pieces else None


def _pieces(
    reservation: Reservation, row: YarnReservationRow, grid: TimeGrid
) -> Iterator[tuple[int, int, Resources]]:
    """Yield the allocation of the first occurrence, from its arrival on and without gaps."""
    held = [
        (start + atom.shifts[0], end + atom.shifts[0], atom.bundle, bundles)
        for atom in reservation.atoms
        if atom.shifts
        for start, end, bundles in atom.rows.tolist()
    ]
    if not held:
        return
    assert grid.origin is not None
    origin_ms = epoch_ms(grid.origin)
    first = min(start for start, _, _, _ in held)
    arrival = min(first, grid.ceil(row.arrival_ms - origin_ms))
    ends = {arrival, *(step for start, end, _, _ in held for step in (start, end))}
    steps = sorted(ends)
    sums = ((start, end, _sum(held, start)) for start, end in pairwise(steps))
    for amount, parts in groupby(sums, key=itemgetter(2)):
        together = list(parts)
        begin, finish = together[0][0] * grid.step_ms, together[-1][1] * grid.step_ms
        yield origin_ms + begin, origin_ms + finish, amount


def _sum(held: list[tuple[int, int, Resources, int]], step: int) -> Resources:
    amounts = {MEMORY: 0, CPU: 0}
    for start, end, bundle, bundles in held:
        if start <= step < end:
            for name in amounts:
                amounts[name] += bundle.get(name, 0) * bundles
    return Resources.of(amounts)


def _in_yarn_form(entry: _Entry, *, allocations: bool) -> dict[str, Any]:
    """Return an entry in YARN's format, with numbers as strings."""
    row = entry.row
    told: dict[str, Any] = {
        "acceptance-time": str(row.accepted_ms),
        "user": row.submitter,
        "reservation-id": row.name,
    }
    if allocations:
        told["resource-allocations"] = one_or_many([_allocation(*one) for one in entry.pieces])
    told["reservation-definition"] = decode(row.definition).to_wire()
    return told


def _allocation(start_ms: int, end_ms: int, amount: Resources) -> dict[str, Any]:
    memory, cores = amount.get(MEMORY, 0), amount.get(CPU, 0) // _CORE
    kinds = [_kind("memory-mb", "Mi", memory), _kind("vcores", "", cores)]
    return {
        "resource": {
            "memory": str(memory),
            "vCores": str(cores),
            "resourceInformations": {"resourceInformation": kinds},
        },
        "startTime": str(start_ms),
        "endTime": str(end_ms),
    }


def _kind(name: str, units: str, value: int) -> dict[str, str]:
    """Return one amount in the format of newer YARN servers, next to memory and vCores."""
    return {
        "maximumAllocation": _LONGEST,
        "minimumAllocation": "0",
        "name": name,
        "resourceType": "COUNTABLE",
        "units": units,
        "value": str(value),
    }
