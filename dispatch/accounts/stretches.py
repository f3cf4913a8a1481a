"""Stretches: time that an atom of a reservation holds in a row, found and taken out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dispatch.accounts.promises import tolerance_ms
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, subtract
from rdl.time_grid import TimeGrid


class HeldStretch(NamedTuple):
    """Time that an atom holds in a row, in steps, and in ms from the origin."""

    path: str
    start: int
    end: int
    start_ms: int
    end_ms: int

    @property
    def tolerance_ms(self) -> int:
        """For how long its work may lack machines."""
        return tolerance_ms(self.end_ms - self.start_ms)


class Cut(NamedTuple):
    """Steps [start, end) that are taken out of what an atom holds."""

    path: str
    start: int
    end: int


def stretches_of(atom: AtomAllocation, grid: TimeGrid, now: int) -> Iterator[HeldStretch]:
    """Yield the stretches of an atom that does not recur, those that have begun before `now`."""
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
    """Yield the stretches of an atom, of all its occurrences, that are over at step `now`.

    Those that ended at `since_ms` or before are left out.
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
    """Return what is taken out of a stretch that was missed until `now`; None: not yet.

    All of one that is over. Of one that goes on whole leases, at least up to now, and all where
    less than a lease would be left: what is kept of the past must be whole leases. It goes on
    where its window holds no lease any more.

    Parameters
    ----------
    lease, window_end
        Of its atom, in steps.
    """
    if stretch.end <= now:
        return Cut(stretch.path, stretch.start, stretch.end)
    if window_end - now < lease:
        return None
    until = stretch.start - (stretch.start - now) // lease * lease
    return Cut(stretch.path, stretch.start, stretch.end if stretch.end - until < lease else until)


def without(holding: Holding, cuts: Iterable[Cut]) -> Holding:
    """Return a holding without some steps of its atoms.

    Machines are left out: the Plan keeps those of what stays.
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
