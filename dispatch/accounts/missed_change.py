"""What the Plan is told of stretches that were missed: they are taken out, and owed again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from dispatch.accounts.stretches import Cut, HeldStretch, missed_part, without
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade
from planner.plan.records.reservation_records import MISSED
from planner.replanning.commitment import commitment_of
from planner.reservations.state import State, Transition, may
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, LEASE


class LeaseBook:
    """Leases of reservations, remembered for as long as these do not change and are asked for."""

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
    """Return whether a reservation can be owed something: one that its owner closed cannot."""
    meta, state = plan.table.meta[number], plan.table.state(number)
    if int(meta["begin"]) >= plan.now or not may(state, Transition.MISS):
        return False
    if state is not State.COMPLETED:
        return True
    return all(atom.released is None for atom in plan.table.holding(number).atoms)


def missed_change(
    plan: Plan, number: int, missed: Sequence[tuple[HeldStretch, int]]
) -> Degrade | None:
    """Return what takes stretches out of a reservation; None where none is to be taken out yet.

    Parameters
    ----------
    missed
        Stretches, and until when each was missed, in ms from the origin.
    """
    cuts = _cuts(plan, number, [stretch for stretch, _ in missed])
    if not cuts:
        return None
    told = [one for one in missed if any(cut[:2] == one[0][:2] for cut in cuts)]
    revision = int(plan.table.meta[number]["revision"])
    kept = without(plan.table.holding(number), cuts)
    reason = _reason(told, plan.grid)
    return Degrade(plan.table.id_of(number), revision, kept, reason, cause=MISSED)


def _cuts(plan: Plan, number: int, missed: Iterable[HeldStretch]) -> list[Cut]:
    """Return what is to be taken out of a reservation of stretches that were missed."""
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
        graph.paths[atom]: (
            max(1, int(graph.vertices[atom, LEASE])),
            int(graph.vertices[atom, END]),
        )
        for atom in graph.atoms.tolist()
    }


def _reason(missed: Sequence[tuple[HeldStretch, int]], grid: TimeGrid) -> str:
    """Return what its owner is told."""
    start = time_text(min(one.start for one, _ in missed), grid)
    end = time_text(grid.floor(max(until_ms for _, until_ms in missed)), grid)
    return f"its work did not run from {start} to {end}, and is owed that time again"
