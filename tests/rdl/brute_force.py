"""What satisfies a tiny expression, by enumeration from the definition alone.

Nothing here is clever: bundles are taken and released one by one, windows and orders are read off
the spans, and only the instances are small. Times are steps: expressions must be written on a grid
of 1 ms steps, with submission at 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    Together,
    Void,
    Window,
)

#: Bundles held in each step from 0 to the horizon.
Held = tuple[int, ...]
#: Bundles held, by atom path, and options taken, by path of the `any`; both sorted.
Allocation = tuple[tuple[tuple[str, Held], ...], tuple[tuple[str, int], ...]]

_NOTHING: Allocation = ((), ())


@cache
def holdings(g: int, h: int, multiple: int, lease: int, steps: int) -> dict[int, frozenset[Held]]:
    """Return all ways to hold an atom in `steps` steps, by work: every bundle kept >= lease."""
    found: dict[int, set[Held]] = {}
    heights = [n for n in range(g, h + 1) if n % multiple == 0]
    # ages[a] = bundles held for a + 1 steps so far, the last entry for `lease` or more.
    frontier: set[tuple[Held, tuple[int, ...]]] = {((), (0,) * lease)}
    for _ in range(steps):
        frontier = {
            ((*held, height), ages)
            for held, known in frontier
            for height, ages in _next_steps(known, [0, *heights])
        }
    for held, ages in frontier:
        if not any(ages[:-1]):  # what is still held at the end is released there
            found.setdefault(sum(held), set()).add(held)
    return {work: frozenset(ways) for work, ways in found.items()}


def _next_steps(ages: tuple[int, ...], heights: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Release any number of bundles that are old enough, take any number of new ones."""
    for released in range(ages[-1] + 1):
        kept = sum(ages) - released
        for height in heights:
            taken = height - kept
            if taken < 0:
                continue
            if len(ages) == 1:
                yield height, (height,)
            else:
                older = ages[:-1]
                last = ages[-1] - released + older[-1]
                yield height, (taken, *older[:-1], last)


def shortest_lengths(g: int, h: int, multiple: int, lease: int, steps: int) -> dict[int, int]:
    """Return the works that can be held in at most `steps` steps, and the least steps of each."""
    heights = [n for n in range(g, h + 1) if n % multiple == 0]
    shortest: dict[int, int] = {}
    frontier = {((height, *(0,) * (lease - 1)), height) for height in heights}
    for length in range(1, steps + 1):
        for ages, work in frontier:
            if not any(ages[:-1]):
                shortest.setdefault(work, length)
        frontier = {
            (later, work + height)
            for ages, work in frontier
            for height, later in _next_steps(ages, [0, *heights])
        }
    return shortest


def span(held: Held) -> tuple[int, int]:
    """Return the first step held and the first past the last."""
    used = [t for t, height in enumerate(held) if height]
    return used[0], used[-1] + 1


def hull(allocation: Allocation) -> tuple[int, int] | None:
    """Return the span of all atoms, or None if nothing is held."""
    spans = [span(held) for _, held in allocation[0]]
    return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None


@dataclass(frozen=True)
class Around:
    """What surrounds an expression: the steps left to it, and what its times count from."""

    start: int
    end: int
    frame: int = 0
    anchor: int = 0


def satisfying(
    expression: Expression, horizon: int, path: str = "", around: Around | None = None
) -> set[Allocation]:
    """Return every allocation over [0, horizon) that satisfies `expression` (paths as files.md)."""
    around = around or Around(0, horizon)
    match expression:
        case Atom(minimum=g, maximum=h, multiple=k, lease_ms=lease, work_ms=work):
            ways = holdings(g, h, k, lease, horizon).get(work, frozenset())
            return {(((path, held),), ()) for held in ways if _is_inside(held, around)}
        case Void():
            return {_NOTHING}
        case AnyOf(options=options):
            return {
                (held, tuple(sorted((*choices, (path, i)))))
                for i, option in enumerate(options)
                for held, choices in satisfying(option, horizon, _child(path, i), around)
            }
        case AllOf(children=children):
            return _together(children, horizon, path, around, ())
        case Order(children=children):
            pairs = [(i, j) for j in range(len(children)) for i in range(j)]
            edges = [(i, j, expression.gap if j == i + 1 else None) for i, j in pairs]
            return _together(children, horizon, path, around, tuple(edges))
        case Graph(children=children):
            arrows = tuple((e.before, e.after, e.gap) for e in expression.edges)
            return _together(children, horizon, path, around, arrows)
        case Together(children=children):
            every = _together(children, horizon, path, around, ())
            return {one for one in every if len({_steps(held) for _, held in one[0]}) == 1}
        case Window():
            assert isinstance(expression.start, Offset)
            assert isinstance(expression.end, Offset)
            start, end = (around.frame + t.ms for t in (expression.start, expression.end))
            inside = Around(max(start, around.start), min(end, around.end), around.frame, start)
            return satisfying(expression.of, horizon, _child(path, 0), inside)
        case Every():
            return _recurring(expression, horizon, path, around)


def _together(
    children: tuple[Expression, ...],
    horizon: int,
    path: str,
    around: Around,
    edges: tuple[tuple[int, int, Gap | None], ...],
) -> set[Allocation]:
    sets = [satisfying(c, horizon, _child(path, i), around) for i, c in enumerate(children)]
    return {_joined(parts) for parts in product(*sets) if all(_holds(parts, e) for e in edges)}


def _holds(parts: tuple[Allocation, ...], edge: tuple[int, int, Gap | None]) -> bool:
    before, after = hull(parts[edge[0]]), hull(parts[edge[1]])
    if before is None or after is None:
        return True
    between = after[0] - before[1]
    gap = edge[2] or Gap()
    return between >= gap.minimum_ms and (gap.maximum_ms is None or between <= gap.maximum_ms)


def _recurring(every: Every, horizon: int, path: str, around: Around) -> set[Allocation]:
    """`times` periods from the anchor, or the window or period around; no zone."""
    assert every.times is not None
    assert every.anchor is None or isinstance(every.anchor, Offset)
    anchor = around.frame + every.anchor.ms if every.anchor else around.anchor
    child = _child(path, 0)
    copies: list[set[Allocation]] = []
    for k in range(every.times):
        start = anchor + k * every.period_ms
        end = start + every.period_ms
        inside = Around(max(start, around.start), min(end, around.end), start, start)
        copies.append(satisfying(every.of, horizon, f"{child}@{k}", inside))
    if not every.same_offset:
        return {_joined(parts) for parts in product(*copies)}
    together: set[Allocation] = set()
    for first in copies[0]:
        moved = [_moved(first, child, k, k * every.period_ms) for k in range(every.times)]
        if all(copy in found for copy, found in zip(moved, copies, strict=True)):
            rows = [copy[0] for copy in moved if copy is not None]
            together.add((tuple(sorted(row for part in rows for row in part)), first[1]))
    return together


def _moved(first: Allocation, child: str, k: int, by: int) -> Allocation | None:
    """Return occurrence 0 moved to occurrence `k`, or None if it leaves the horizon."""
    old, new = f"{child}@0", f"{child}@{k}"
    rows = []
    for path, held in first[0]:
        if by and any(held[len(held) - by :]):
            return None
        rows.append((new + path.removeprefix(old), ((0,) * by + held)[: len(held)]))
    choices = tuple(sorted((new + path.removeprefix(old), i) for path, i in first[1]))
    return tuple(sorted(rows)), choices


def _joined(parts: tuple[Allocation, ...]) -> Allocation:
    rows = sorted(row for part in parts for row in part[0])
    choices = sorted(choice for part in parts for choice in part[1])
    return tuple(rows), tuple(choices)


def _steps(held: Held) -> tuple[bool, ...]:
    """Return at which steps anything is held."""
    return tuple(height > 0 for height in held)


def _is_inside(held: Held, around: Around) -> bool:
    first, last = span(held)
    return first >= around.start and last <= around.end


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)
