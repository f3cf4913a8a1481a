"""What is left of a request once part of it has been held, as a request of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.holding import merged
from planner.request import Request
from planner.reservation import AtomAllocation, Rows
from rdl.compile_context import CompileContext
from rdl.compiler import compile_expression
from rdl.expressions import (
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Instant,
    Offset,
    Order,
    Void,
    Window,
    children_of,
)
from rdl.resources import Resources
from rdl.shapes import is_reachable
from rdl.time_grid import TimeGrid

#: g, h, multiple, lease and work of an atom, in steps and bundle-steps.
Numbers = tuple[int, int, int, int, int]


class PastChangedError(ValueError):
    """What was held before now contradicts the new request."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An atom that has begun.

    Attributes
    ----------
    rows
        What is fixed: the past, and what is taken then kept until its leases end.
    left
        Bundle-steps of the new work that are not held yet; reachable by themselves, or 0.
    first, end
        First step held, and first step past `rows`.
    """

    bundle: Resources
    label: str | None
    rows: Rows
    left: int
    first: int
    end: int

    @classmethod
    def of(cls, atom: AtomAllocation, past: Rows, numbers: Numbers, now: int) -> Begun:
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
            raise PastChangedError(f"atom {atom.path} has held {int(past[:, 2].max())} bundles")
        delay = 0
        while True:
            rows = merged(np.concatenate([past, _continuation(alive, now, delay, numbers)]))
            held = int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())
            left = work - held
            if left == 0 or (left > 0 and is_reachable(g, h, multiple, lease, left)):
                first, end = int(rows[0, 0]), int(rows[-1, 1])
                return cls(atom.bundle, atom.label, rows, left, first, end)
            if left < 0 or not height:
                raise PastChangedError(
                    f"atom {atom.path} holds {held} bundle-steps until its leases end; the new "
                    f"work of {work} cannot be made of that"
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


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left, compiled.

    Attributes
    ----------
    request
        The remainder as a request, None when nothing is left.
    paths
        (path in the remainder, path in the whole) of atoms and of parts taken over unchanged.
    """

    request: Request | None
    paths: tuple[tuple[str, str], ...]

    def old_path(self, path: str) -> str:
        """Return the path in the whole request."""
        for new, old in self.paths:
            if path == new:
                return old
            head = f"{new}." if new else ""
            if path.startswith(head):
                rest = path[len(head) :]
                return f"{old}.{rest}" if old and rest else old or rest
        raise KeyError(path)


def remainder_of(
    request: Request,
    begun: Mapping[str, Begun],
    choices: Mapping[str, int],
    context: CompileContext,
    now: int,
) -> Remainder:
    """Return what is left to place.

    Raises
    ------
    PastChangedError
        If the new request asks for something before what has begun already.
    RdlError
        If what is left cannot be planned in any way.
    """
    cutter = _Cutter(begun, choices, context.grid)
    part = cutter.cut(request.graph.expression, "", "0", None)
    if part is None:
        return Remainder(None, tuple(cutter.paths))
    horizon = Offset(context.grid.horizon_ms)
    whole = Window(Offset(context.grid.ms(now)), horizon, part)
    graph = compile_expression(whole, context)
    return Remainder(replace(request, graph=graph), tuple(cutter.paths))


class _Cutter:
    """Rewrites an expression without what is held, remembering where each path went."""

    def __init__(
        self, begun: Mapping[str, Begun], choices: Mapping[str, int], grid: TimeGrid
    ) -> None:
        self.begun = begun
        self.known = choices
        self.grid = grid
        self.paths: list[tuple[str, str]] = []

    def cut(
        self, expression: Expression, old: str, new: str, anchor: Instant | None
    ) -> Expression | None:
        """Return what is left of one part, or None; `anchor` is the enclosing window's start."""
        if not self._has_begun(old):
            self.paths.append((new, old))
            return _anchored(expression, anchor)
        match expression:
            case Atom():
                return self._atom(expression, old, new)
            case Window(start=start, of=of):
                inner = self.cut(of, _child(old, 0), _child(new, 0), start)
                return None if inner is None else replace(expression, of=inner)
            case AnyOf(options=options):
                index = self.known[old]
                return self.cut(options[index], _child(old, index), new, anchor)
            case AllOf(children=children):
                return self._group(children, old, new, anchor, ())
            case Order(children=children, gap=gap):
                edges = tuple(Edge(i, i + 1, gap) for i in range(len(children) - 1))
                return self._group(children, old, new, anchor, edges)
            case Graph(children=children, edges=edges):
                return self._group(children, old, new, anchor, edges)
            case Every() | Void():
                raise PastChangedError(f"the recurrence at {old} has begun and keeps its rows")

    def _atom(self, atom: Atom, old: str, new: str) -> Expression | None:
        one = self.begun[old]
        if not one.left:
            return None
        lease = max(1, self.grid.ceil(atom.lease_ms))
        rest = replace(
            atom, lease_ms=self.grid.ms(lease), work_ms=self.grid.ms(one.left), span=None
        )
        self.paths.append((_child(new, 0), old))
        return self._after(rest, one.end)

    def _group(
        self,
        children: tuple[Expression, ...],
        old: str,
        new: str,
        anchor: Instant | None,
        edges: tuple[Edge, ...],
    ) -> Expression | None:
        """Return the children that are left as a graph; what is done bounds what follows it."""
        before = [self._is_done(child, _child(old, i)) for i, child in enumerate(children)]
        earliest: dict[int, int] = {}
        for edge in edges:
            self._check_edge(edge, old, done=before[edge.before])
            if before[edge.before]:
                gap = edge.gap or Gap()
                end = self._end(_child(old, edge.before)) + self.grid.ceil(gap.minimum_ms)
                earliest[edge.after] = max(end, earliest.get(edge.after, 0))
        kept = [index for index in range(len(children)) if not before[index]]
        if not kept:
            return None
        place = {index: position for position, index in enumerate(kept)}
        parts: list[Expression] = []
        for index, child in enumerate(children):
            if index not in place:
                continue
            inner = _child(_child(new, place[index]), 0)
            part = self.cut(child, _child(old, index), inner, anchor)
            assert part is not None
            parts.append(self._after(part, earliest.get(index, 0)))
        arrows = tuple(
            Edge(place[e.before], place[e.after], e.gap)
            for e in edges
            if e.before in place and e.after in place
        )
        names = tuple(f"c{index}" for index in kept)
        return Graph(names, tuple(parts), arrows) if arrows else AllOf(tuple(parts))

    def _check_edge(self, edge: Edge, old: str, *, done: bool) -> None:
        if not done and self._has_begun(_child(old, edge.after)):
            first, second = _child(old, edge.before), _child(old, edge.after)
            raise PastChangedError(f"{second} has begun, and {first} before it is not done")

    def _after(self, expression: Expression, step: int) -> Expression:
        """Bound an expression to start at or after a step."""
        return Window(Offset(self.grid.ms(step)), Offset(self.grid.horizon_ms), expression)

    def _has_begun(self, path: str) -> bool:
        head = f"{path}." if path else ""
        return any(one == path or one.startswith(head) for one in self.begun)

    def _is_done(self, expression: Expression, path: str) -> bool:
        """Return whether nothing is left of a part."""
        if not self._has_begun(path):
            return False
        match expression:
            case Atom():
                return not self.begun[path].left
            case AnyOf(options=options):
                index = self.known[path]
                return self._is_done(options[index], _child(path, index))
            case _:
                kids = children_of(expression)
                return all(self._is_done(kid, _child(path, i)) for i, kid in enumerate(kids))

    def _end(self, path: str) -> int:
        head = f"{path}." if path else ""
        return max(one.end for at, one in self.begun.items() if at == path or at.startswith(head))


def _anchored(expression: Expression, anchor: Instant | None) -> Expression:
    """Say where recurrences count from, since they will stand inside other windows."""
    match expression:
        case Every(anchor=None):
            return replace(expression, anchor=anchor or AfterSubmission(0))
        case Window(start=start, of=of):
            return replace(expression, of=_anchored(of, start))
        case AnyOf(options=options):
            return replace(expression, options=tuple(_anchored(one, anchor) for one in options))
        case AllOf(children=children) | Order(children=children) | Graph(children=children):
            return replace(expression, children=tuple(_anchored(one, anchor) for one in children))
        case _:
            return expression


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)
