"""What of a reservation is fixed: its past, leases in force, and what a caller leaves in place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from planner.explain import bundles_text
from planner.reservations.reservation import AtomAllocation, Rows
from planner.reservations.rows import merge
from rdl.compile.shapes import is_reachable
from rdl.expressions import Expression
from rdl.names import part_name

#: g, h, multiple, lease and work of an atom, in steps and bundle-steps.
Numbers = tuple[int, int, int, int, int]


class PastChangedError(ValueError):
    """What was held before now contradicts the new request.

    Parameters
    ----------
    path
        The part that the message speaks of and does not name; None where it names it.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path

    def detail(self, expression: Expression) -> str:
        """Return the message with what a request calls the part."""
        if self.path is None:
            return str(self)
        return f"{part_name(expression, self.path) or 'the request'} {self}"


@dataclass(frozen=True, slots=True)
class FixedAtom:
    """An atom that has begun, or that is to stay where it is.

    Attributes
    ----------
    held
        What is fixed, as an atom: the past, and what is taken then kept until its leases end; or
        all of it.
    left
        Bundle-steps of the new work that are not held yet; reachable by themselves, or 0.
    first, end
        First step held, and first step past `rows`.
    beside
        Bundles that may be held beside `rows` at any step: what is left is placed anywhere in the
        window with at most so many. 0: what is left comes after `end`.
    """

    held: AtomAllocation
    left: int
    first: int
    end: int
    beside: int = 0

    @property
    def rows(self) -> Rows:
        """Rows that are fixed."""
        return self.held.rows

    @classmethod
    def whole(cls, atom: AtomAllocation, rows: Rows) -> FixedAtom:
        """Return an occurrence of an atom that stays as it is, all of it."""
        return cls(atom.part(atom.path, rows), 0, int(rows[0, 0]), int(rows[-1, 1]))

    @classmethod
    def of(cls, atom: AtomAllocation, past: Rows, numbers: Numbers, now: int) -> FixedAtom:
        """Return the least continuation of `past` after which the rest can be held by itself.

        Bundles are released first in, first out; those that are held now are kept `d` steps more,
        and then until their leases end, for the least d >= 0 that leaves a reachable rest.

        Raises
        ------
        PastChangedError
            If no d does: more is held already than the new work asks for.
        """
        g, h, multiple, lease, work = numbers
        alive = _alive(past, now)
        height = sum(count for _, count in alive)
        if int(past[:, 2].max()) > h:
            raise PastChangedError(f"has held {bundles_text(int(past[:, 2].max()))}", atom.path)
        delay = 0
        while True:
            rows = merge(np.concatenate([past, _continuation(alive, now, delay, numbers)]))
            held = int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())
            left = work - held
            if left == 0 or (left > 0 and is_reachable(g, h, multiple, lease, left)):
                first, end = int(rows[0, 0]), int(rows[-1, 1])
                return cls(atom.part(atom.path, rows), left, first, end)
            if left < 0 or not height:
                raise PastChangedError(
                    f"holds {held} bundle-steps until its leases end; the new work of {work} "
                    "cannot be made of that",
                    atom.path,
                )
            delay += 1


def _alive(past: Rows, now: int) -> list[tuple[int, int]]:
    """Return (step taken, bundles) of what is held at `now`, oldest first."""
    taken: deque[list[int]] = deque()
    before, last_end = 0, -1
    for start, end, bundles in past.tolist():
        if start != last_end:
            taken.clear()  # everything was released in between
            before = 0
        if bundles > before:
            taken.append([start, bundles - before])
        gone = before - bundles
        while gone > 0:
            part = min(gone, taken[0][1])
            taken[0][1] -= part
            gone -= part
            if not taken[0][1]:
                taken.popleft()
        before, last_end = bundles, end
    return [(step, count) for step, count in taken] if last_end == now else []


def _continuation(alive: list[tuple[int, int]], now: int, delay: int, numbers: Numbers) -> Rows:
    """Return rows from `now` on that keep what is alive: `delay` steps all, then to its leases."""
    g, _, multiple, lease, _ = numbers
    releases = [max(now + delay, step + lease) for step, _ in alive]
    rows: list[list[int]] = []
    start = now
    for end in sorted(set(releases)):
        count = sum(n for (_, n), release in zip(alive, releases, strict=True) if release >= end)
        height = -(-max(g, count) // multiple) * multiple
        if end > start:
            rows.append([start, end, height])
        start = end
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
