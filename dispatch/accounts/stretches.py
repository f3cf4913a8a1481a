"""Stretches: uninterrupted allocations of an atom of a reservation; finding and removing them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dispatch.accounts.promises import tolerance_ms
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade
from planner.plan.records.reservation_records import MISSED
from planner.replanning.commitment import commitment_of
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, subtract
from planner.reservations.state import State, Transition, may
from rdl.compound import parts_of
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, LEASE


class HeldStretch(NamedTuple):
    """Uninterrupted allocation of an atom, in steps, and in ms from the origin."""

    path: str
    start: int
    end: int
    start_ms: int
    end_ms: int

    @property
    def tolerance_ms(self) -> int:
        """The time that its work may lack machines."""
        return tolerance_ms(self.end_ms - self.start_ms)


class Cut(NamedTuple):
    """Steps [start, end) to remove from an atom's allocation."""

    path: str
    start: int
    end: int


def stretches_of(atom: AtomAllocation, grid: TimeGrid, now: int) -> Iterator[HeldStretch]:
    """Yield the stretches of a non-recurring atom that have begun before `now`."""
    start = end = -1
    for first, last, _ in atom.rows.tolist():
        if first != end:
            if end > start:
                yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))
            if first >= now:
                return
            start = first
        end = last
    if end > start:
        yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))


def past_stretches(
    atom: AtomAllocation, grid: TimeGrid, now: int, since_ms: int
) -> Iterator[HeldStretch]:
    """Yield the stretches of all occurrences of an atom that have ended by step `now`.

    Those that ended at `since_ms` or earlier are left out.
    """
    rows = atom.all_rows()
    rows = rows[(rows[:, 1] > max(since_ms, 0) // grid.step_ms) & (rows[:, 0] < now)]
    start = end = -1
    for first, last, _ in [*rows[np.argsort(rows[:, 0], kind="stable")].tolist(), (now + 1, 0, 0)]:
        if first > end:
            if start < end <= now and grid.ms(end) > since_ms:
                yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))
            start = first
        end = max(end, last)


def missed_part(stretch: HeldStretch, now: int, lease: int, window_end: int) -> Cut | None:
    """Return the steps to remove from a stretch that was missed until `now`; None if none yet.

    A stretch that has ended is removed entirely. A current one loses whole leases, at least up to
    now, or everything if less than a lease would be left: the past must consist of whole leases.
    Nothing is removed if its window has no time for another lease.

    Parameters
    ----------
    lease, window_end
        Lease and end of the window of its atom, in steps.
    """
    if stretch.end <= now:
        return Cut(stretch.path, stretch.start, stretch.end)
    if window_end - now < lease:
        return None
    until = stretch.start - (stretch.start - now) // lease * lease
    return Cut(stretch.path, stretch.start, stretch.end if stretch.end - until < lease else until)


def without(holding: Holding, cuts: Iterable[Cut]) -> Holding:
    """Return a holding without some steps of its atoms.

    Machines are left out: the Plan keeps those of the remaining rows.
    """
    gone = list(cuts)
    atoms = [
        replace(atom, rows=_cut(atom.rows, [one for one in gone if one.path == atom.path]))
        for atom in holding.atoms
    ]
    left = tuple(replace(atom, slots=None) for atom in atoms if len(atom.rows))
    finish = max((int(atom.rows[-1, 1]) for atom in left), default=holding.begin)
    return Holding(left, holding.begin, finish)


def _cut(rows: Rows, cuts: Iterable[Cut]) -> Rows:
    for _, start, end in cuts:
        inside = rows[(rows[:, 1] > start) & (rows[:, 0] < end)].copy()
        inside[:, :2] = np.clip(inside[:, :2], start, end)
        rows = add_up(subtract(rows, inside))
    return rows


class LeaseBook:
    """Cache of the leases of reservations, valid until a reservation changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}

    def is_broken(self, plan: Plan, number: int, stretch: HeldStretch) -> bool:
        """Return whether a stretch was cut to less than a lease of its atom."""
        name, revision = plan.table.id_of(number), int(plan.table.meta[number]["revision"])
        if name not in self._known or self._known[name][0] != revision:
            self._known[name] = revision, _lease_and_end(plan, number)
        lease, _ = self._known[name][1].get(stretch.path, (1, 0))
        return stretch.end - stretch.start < lease

    def keep(self, reservations: Container[str]) -> None:
        """Forget all other reservations."""
        self._known = {name: one for name, one in self._known.items() if name in reservations}


def may_miss(plan: Plan, number: int) -> bool:
    """Return whether a reservation can have missed work: not if its owner closed it."""
    meta, state = plan.table.meta[number], plan.table.state(number)
    if int(meta["begin"]) >= plan.now or not may(state, Transition.MISS):
        return False
    if state is not State.COMPLETED:
        return True
    is_closed = number in plan.table.degradations
    return not is_closed and all(atom.released is None for atom in plan.table.holding(number).atoms)


def missed_change(
    plan: Plan, number: int, missed: Sequence[tuple[HeldStretch, int]], why: str = ""
) -> Degrade | None:
    """Return the change that removes missed stretches from a reservation; None if none yet.

    Parameters
    ----------
    missed
        Stretches, each with the end of the missed time, in ms from the origin.
    why
        Why the work did not run, if known.
    """
    cuts = _cuts(plan, number, [stretch for stretch, _ in missed])
    if not cuts:
        return None
    told = [one for one in missed if any(cut[:2] == one[0][:2] for cut in cuts)]
    revision = int(plan.table.meta[number]["revision"])
    kept = without(plan.table.holding(number), cuts)
    reason = _reason(told, plan.grid) + (f"; {why}" if why else "")
    return Degrade(plan.table.id_of(number), revision, kept, reason, cause=MISSED)


def _cuts(plan: Plan, number: int, missed: Iterable[HeldStretch]) -> list[Cut]:
    """Return the cuts for the missed stretches of a reservation."""
    numbers: dict[str, tuple[int, int]] = {}
    found: list[Cut] = []
    for stretch in missed:
        if stretch.end > plan.now and not numbers:
            numbers = _lease_and_end(plan, number)
        lease, window_end = numbers.get(stretch.path, (1, 0))
        cut = missed_part(stretch, plan.now, lease, window_end)
        if cut is not None:
            found.append(cut)
    return found


def _lease_and_end(plan: Plan, number: int) -> dict[str, tuple[int, int]]:
    """Return the lease and the end of the window of every atom, in steps; none without a plan."""
    request = commitment_of(plan, number).request
    if request is None:
        return {}
    graph = request.graph
    return {
        path: (
            max(1, int(graph.vertices[atom, LEASE])),
            int(graph.vertices[atom, END]),
        )
        for atom in graph.atoms.tolist()
        for path, _ in parts_of(graph, atom)
    }


def _reason(missed: Sequence[tuple[HeldStretch, int]], grid: TimeGrid) -> str:
    """Return the reason for its owner."""
    start = time_text(min(one.start for one, _ in missed), grid)
    end = time_text(grid.floor(max(until_ms for _, until_ms in missed)), grid)
    return f"its work did not run from {start} to {end}, and is owed that time again"
