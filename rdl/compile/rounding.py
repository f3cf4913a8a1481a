"""Atoms and gaps on the grid, and notes for the client about the rounding."""

from __future__ import annotations

from rdl.compile.parts import FAR, Numbers
from rdl.compile.shapes import greatest_reachable, heights_of, round_up
from rdl.expressions import AllOf, AnyOf, Atom, Expression, Gap, Order, Together, Void, children_of
from rdl.time_grid import TimeGrid, seconds_of


class WorkBeyondSpreadError(Exception):
    """No allocation low enough for the machines has exactly the work of an atom.

    Attributes
    ----------
    near
        The next works that can be held, in bundle-steps.
    """

    def __init__(self, near: list[int]) -> None:
        self.near = near
        super().__init__()


def numbers_of(atom: Atom, grid: TimeGrid, most: int | None = None) -> tuple[Numbers, int]:
    """Return the atom's numbers in steps and bundles, and its shortest length in steps.

    Lease and work round together, then the work rises to the least that can be reached. The
    machines bound the heights of an atom, but never change its work.

    Parameters
    ----------
    most
        Bundles that fit on machines at the same time under the rule of the atom; at least the least
        height. None: no limit.

    Raises
    ------
    WorkBeyondSpreadError
        If `most` leaves no allocation of exactly its work.
    """
    asked = grid.lease_and_work(atom.lease_ms, atom.work_ms)
    lease, multiple, g, h = asked.lease, atom.multiple, atom.minimum, atom.maximum
    work, shortest = round_up((g, h, multiple), lease, asked.work)
    if most is not None and most < h:
        h = most
        reached, shortest = round_up((g, h, multiple), lease, work)
        if reached != work:
            below = greatest_reachable(g, h, multiple, lease, work)
            raise WorkBeyondSpreadError([*([] if below is None else [below]), reached])
    if multiple > 1:
        low, high = heights_of(g, h, multiple)
        g, h = low * multiple, high * multiple
    # Two blocks hold 2 g l at least; a single one has g bundles or more in each of its steps.
    longest = work // g if work < 2 * g * lease else FAR
    rule = (atom.spread, atom.domain, atom.hands_over, atom.within, atom.values)
    numbers = Numbers(atom.bundle, atom.on, g, h, multiple, lease, work, longest, *rule)
    return numbers, min(shortest, FAR)


def rounding_note(atom: Atom, numbers: Numbers, step_ms: int) -> str | None:
    """Return notes on the rounding of lease and work, or None if they are unchanged."""
    lease, work = numbers.lease, numbers.work
    said = []
    if lease * step_ms != atom.lease_ms:
        said.append(f"lease {seconds_of(atom.lease_ms)}s -> {lease} step{'s' * (lease != 1)}")
    if work * step_ms != atom.work_ms:
        kept = seconds_of(work * step_ms)
        said.append(f"work {seconds_of(atom.work_ms)} -> {kept} bundle-seconds")
    return ", ".join(said) or None


def gap_steps(gap: Gap | None, grid: TimeGrid) -> tuple[int, int]:
    """Return (least, largest or -1) in steps.

    Raises
    ------
    TimeGridError
        If no whole number of steps lies in the gap.
    """
    if gap is None:
        return 0, -1
    low, high = grid.gap(gap.minimum_ms, gap.maximum_ms)
    # No gap within the horizon is longer than it; past that, numbers would only overflow.
    low = min(low, grid.horizon + 1)
    return low, -1 if high is None else max(low, min(high, grid.horizon + 1))


def least_steps(expression: Expression, grid: TimeGrid) -> int | None:
    """Return the least steps of atoms joined by any, all, order, together; None of anything else.

    Whether they fit on machines is not checked.
    """
    match expression:
        case Atom():
            return numbers_of(expression, grid)[1]
        case Void():
            return 0
        case AnyOf() | AllOf() | Order() | Together():
            lengths = [least_steps(child, grid) for child in children_of(expression)]
            known = [length for length in lengths if length is not None]
            if len(known) < len(lengths):
                return None
            if isinstance(expression, AnyOf):
                return min(known)
            if isinstance(expression, AllOf | Together):
                return max(known, default=0)
            return sum(known) + gap_steps(expression.gap, grid)[0] * (len(known) - 1)
        case _:
            return None
