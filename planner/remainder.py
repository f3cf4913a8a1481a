"""The fixed part of a started request, and its remainder as a request of its own.

The past, leases in force, and parts that a caller leaves in place are fixed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from zoneinfo import ZoneInfo

import numpy as np

from planner.explain import bundles_text
from planner.request import Request
from planner.reservations.reservation import AtomAllocation, Rows
from planner.reservations.rows import merge
from rdl.compile.civil_time import (
    ORIGIN,
    day_start_ms,
    instant_ms,
    periods,
    window_ms,
)
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compile.recurrences import passed_over
from rdl.compile.shapes import is_reachable
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
    TimeOfDay,
    Together,
    Void,
    Window,
    children_of,
)
from rdl.names import part_name


@dataclass(frozen=True, slots=True)
class Remainder:
    """The remainder of a request, compiled.

    Attributes
    ----------
    request
        The remainder as a request, None if nothing is left.
    paths
        (path in the remainder, path in the whole) of atoms and of unchanged parts.
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
    begun: Mapping[str, FixedAtom],
    context: CompileContext,
    now: int,
    held: frozenset[str] = frozenset(),
) -> Remainder:
    """Return the part of a request that is left to place.

    Parameters
    ----------
    begun
        Fixed atoms, by path.
    held
        Paths of all atoms held for the same request, with occurrences: free occurrences of a
        recurrence can then be placed one by one.

    Raises
    ------
    PastChangedError
        If the new request requires something before a part that has already started.
    RdlError
        If the remainder is unsatisfiable.
    """
    cutter = _Cutter(begun, context, now, held)
    part = cutter.cut(request.graph.expression, "", "0", None)
    if part is None:
        return Remainder(None, tuple(cutter.paths))
    horizon = Offset(context.grid.horizon_ms)
    whole = Window(Offset(context.grid.ms(now)), horizon, part)
    graph = compile_expression(whole, context)
    return Remainder(replace(request, graph=graph), tuple(cutter.paths))


class _Cutter:
    """Rewrites an expression without its fixed parts, and records the new path of each part."""

    def __init__(
        self,
        begun: Mapping[str, FixedAtom],
        context: CompileContext,
        now: int,
        held: frozenset[str],
    ) -> None:
        self.begun = begun
        self.grid = context.grid
        self.submitted_ms = context.submitted_ms
        self.now = now
        self.held = held
        self.paths: list[tuple[str, str]] = []

    def cut(
        self, expression: Expression, old: str, new: str, anchor: Instant | None
    ) -> Expression | None:
        """Return the remainder of one part, or None; `anchor` is the enclosing window's start."""
        if not self._has_begun(old):
            if isinstance(expression, Every) and isinstance(expression.anchor, TimeOfDay):
                # It counts from the last such time before its context: keep that.
                self.paths.append((_child(new, 0), old))
                return self._from(anchor or AfterSubmission(0), expression)
            self.paths.append((new, old))
            return self._anchored(expression, anchor)
        match expression:
            case Atom():
                return self._atom(expression, old, new)
            case Window(of=of):
                start = self._start_of(expression) or anchor
                inner = self.cut(of, _child(old, 0), _child(new, 0), start)
                return None if inner is None else replace(expression, of=inner)
            case AnyOf(options=options):
                index = self._option(old, len(options))
                return self.cut(options[index], _child(old, index), new, anchor)
            case Together():
                if self._is_done(expression, old):
                    return None
                raise PastChangedError(
                    "has begun in part, and must run together or not at all", old
                )
            case AllOf(children=children):
                return self._group(children, old, new, anchor, ())
            case Order(children=children, gap=gap):
                edges = tuple(Edge(i, i + 1, gap) for i in range(len(children) - 1))
                return self._group(children, old, new, anchor, edges)
            case Graph(children=children, edges=edges):
                return self._group(children, old, new, anchor, edges)
            case Every(same_offset=False) if self.held:
                return self._every(expression, old, new, anchor)
            case Every() | Void():
                raise PastChangedError("has begun and keeps its rows", old)

    def _every(self, every: Every, old: str, new: str, anchor: Instant | None) -> Expression | None:
        """Return the occurrences that are not fixed, each as a recurrence with one occurrence."""
        child = _child(old, 0)
        if "@" in child:
            raise PastChangedError("is inside another recurrence and keeps its rows", old)
        numbers = {int(one[len(child) + 1 :].partition(".")[0]) for one in self._under(child)}
        by_clock = isinstance(every.anchor, TimeOfDay)
        base = every.anchor if every.anchor is not None and not by_clock else anchor
        start_ms = instant_ms(base or AfterSubmission(0), ORIGIN, self.grid, self.submitted_ms)
        parts: list[Expression] = []
        counted = (
            period
            for period in periods(every, start_ms, self.grid)
            if not passed_over(every, period, self.grid, self.submitted_ms)
        )
        for k, period in enumerate(islice(counted, max(numbers) + 1)):
            path = f"{child}@{k}"
            if not self._has_begun(path):
                begin = Offset(period.start_ms)
                once = replace(every, times=1, until=None, same_offset=True)
                if by_clock:
                    self.paths.append((f"{_child(new, len(parts))}.0.0@0", path))
                    parts.append(self._from(begin, once))
                else:
                    self.paths.append((f"{_child(new, len(parts))}.0@0", path))
                    parts.append(replace(once, anchor=begin))
            elif not self._all_fixed(path):
                raise PastChangedError("has begun and keeps its rows", path)
        return AllOf(tuple(parts)) if parts else None

    def _from(self, start: Instant, expression: Expression) -> Window:
        """Return an expression from `start` to the end of the plan."""
        return Window(start, Offset(self.grid.horizon_ms), expression)

    def _start_of(self, window: Window) -> Instant | None:
        """Return the start of a window outside recurrences, with a time of day as an offset."""
        if not isinstance(window.start, TimeOfDay):
            return window.start
        start, _ = window_ms(window, ORIGIN, self.grid, self.submitted_ms)
        return None if start is None else Offset(start)

    def _under(self, path: str) -> list[str]:
        """Return the held atoms of all occurrences of a recurrence's child."""
        return [one for one in self.held if one.startswith(f"{path}@")]

    def _all_fixed(self, path: str) -> bool:
        under = [one for one in self.held if one == path or one.startswith(f"{path}.")]
        return all(one in self.begun and not self.begun[one].left for one in under)

    def _atom(self, atom: Atom, old: str, new: str) -> Expression | None:
        one = self.begun[old]
        if not one.left:
            return None
        lease = max(1, self.grid.ceil(atom.lease_ms))
        rest = replace(
            atom, lease_ms=self.grid.ms(lease), work_ms=self.grid.ms(one.left), span=None
        )
        if one.beside:
            self.paths.append((new, old))
            # The limits of the atom are those of the request, not of the remainder.
            return replace(
                rest, maximum=one.beside, handover=atom.hands_over, credit=atom.is_credited
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
        """Return the remaining children as a graph; finished ones bound their successors."""
        before = [self._is_done(child, _child(old, i)) for i, child in enumerate(children)]
        bounds = self._bounds(old, edges, before)
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
            parts.append(self._after(part, *bounds.get(index, (0, None))))
        arrows = tuple(
            Edge(place[e.before], place[e.after], e.gap)
            for e in edges
            if e.before in place and e.after in place
        )
        names = tuple(f"c{index}" for index in kept)
        return Graph(names, tuple(parts), arrows) if arrows else AllOf(tuple(parts))

    def _bounds(
        self, old: str, edges: tuple[Edge, ...], done: list[bool]
    ) -> dict[int, tuple[int, int | None]]:
        """Return (first step, end step) of each child, as fixed neighbours allow."""
        found: dict[int, tuple[int, int | None]] = {}
        for edge in edges:
            first, second = _child(old, edge.before), _child(old, edge.after)
            gap = self.grid.ceil((edge.gap or Gap()).minimum_ms)
            if done[edge.before]:
                start, end = found.get(edge.after, (0, None))
                found[edge.after] = (max(start, self._end(first) + gap), end)
            elif self._has_begun(second):
                begins = self._begin(second)
                if begins < self.now:
                    raise PastChangedError("has begun, and its predecessor is not done", second)
                start, end = found.get(edge.before, (0, None))
                latest = begins - gap if end is None else min(end, begins - gap)
                found[edge.before] = (start, latest)
        return found

    def _after(self, expression: Expression, step: int, end: int | None = None) -> Expression:
        """Bound an expression to start at or after a step, and to end by `end`."""
        last = self.grid.horizon_ms if end is None else max(0, self.grid.ms(end))
        return Window(Offset(self.grid.ms(step)), Offset(last), expression)

    def _anchored(
        self, expression: Expression, anchor: Instant | None, *, kept: bool = False
    ) -> Expression:
        """Give recurrences an explicit anchor, since they move into other windows.

        `kept`: the nearest window with a start is part of the expression.
        """
        match expression:
            case Every(anchor=None, zone=zone):
                begin = anchor or AfterSubmission(0)
                if zone is not None:  # without an anchor, its periods are days of the zone
                    ms = instant_ms(begin, ORIGIN, self.grid, self.submitted_ms)
                    if expression.months:  # ... or start at its day of the month
                        whole = replace(expression, without=())
                        begin = Offset(next(periods(whole, ms, self.grid)).start_ms)
                    else:
                        begin = Offset(day_start_ms(ms, ZoneInfo(zone), self.grid))
                return replace(expression, anchor=begin)
            case Every(anchor=TimeOfDay()) if not kept:
                raise PastChangedError(
                    "a recurrence by time of day is nested too deeply to be moved"
                )
            case Window(of=of):
                start = self._start_of(expression)
                inside = self._anchored(of, start or anchor, kept=kept or start is not None)
                return replace(expression, of=inside)
            case AnyOf(options=options):
                parts = tuple(self._anchored(one, anchor, kept=kept) for one in options)
                return replace(expression, options=parts)
            case AllOf() | Order() | Graph() | Together():
                parts = tuple(self._anchored(one, anchor, kept=kept) for one in expression.children)
                return replace(expression, children=parts)
            case _:
                return expression

    def _has_begun(self, path: str) -> bool:
        return any(_is_under(one, path) for one in self.begun)

    def _option(self, path: str, count: int) -> int:
        """Return the started option of an `any`."""
        begun = [index for index in range(count) if self._has_begun(_child(path, index))]
        if len(begun) != 1:
            raise PastChangedError("more than one option of an any has an allocation")
        return begun[0]

    def _is_done(self, expression: Expression, path: str) -> bool:
        """Return whether a part has no remainder."""
        if not self._has_begun(path):
            return False
        match expression:
            case Atom():
                return not self.begun[path].left
            case AnyOf(options=options):
                index = self._option(path, len(options))
                return self._is_done(options[index], _child(path, index))
            case Every():
                return self._all_fixed_under(path)
            case _:
                kids = children_of(expression)
                return all(self._is_done(kid, _child(path, i)) for i, kid in enumerate(kids))

    def _all_fixed_under(self, path: str) -> bool:
        under = self._under(_child(path, 0))
        return bool(under) and all(one in self.begun and not self.begun[one].left for one in under)

    def _end(self, path: str) -> int:
        return max(one.end for at, one in self.begun.items() if _is_under(at, path))

    def _begin(self, path: str) -> int:
        return min(one.first for at, one in self.begun.items() if _is_under(at, path))


def _is_under(path: str, above: str) -> bool:
    """Return whether a path is `above` or inside it, in any occurrence."""
    if not above or path == above:
        return True
    return path.startswith((f"{above}.", f"{above}@"))


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)


#: g, h, multiple, lease and work of an atom, in steps and bundle-steps.
Numbers = tuple[int, int, int, int, int]


class PastChangedError(ValueError):
    """The past of a reservation contradicts the new request.

    Parameters
    ----------
    path
        The part that the message is about but does not name; None if it names it.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path

    def detail(self, expression: Expression) -> str:
        """Return the message with the request's name of the part."""
        if self.path is None:
            return str(self)
        return f"{part_name(expression, self.path) or 'the request'} {self}"


@dataclass(frozen=True, slots=True)
class FixedAtom:
    """An atom that has started, or that must stay where it is.

    Attributes
    ----------
    held
        The fixed part, as an atom: the past, and bundles held now until their leases end; or all of
        it.
    left
        Remaining bundle-steps of the new work; possible on their own, or 0.
    first, end
        First step held, and first step past `rows`.
    beside
        Bundles that may be held in addition to `rows` at any step: the remainder is placed anywhere
        in the window with at most this many. 0: the remainder comes after `end`.
    """

    held: AtomAllocation
    left: int
    first: int
    end: int
    beside: int = 0

    @property
    def rows(self) -> Rows:
        """The fixed rows."""
        return self.held.rows

    @classmethod
    def whole(cls, atom: AtomAllocation, rows: Rows) -> FixedAtom:
        """Return an occurrence of an atom that does not change."""
        return cls(atom.part(atom.path, rows), 0, int(rows[0, 0]), int(rows[-1, 1]))

    @classmethod
    def of(cls, atom: AtomAllocation, past: Rows, numbers: Numbers, now: int) -> FixedAtom:
        """Return the shortest continuation of `past` after which the rest can be held separately.

        Bundles are released first in, first out; those that are held now are kept for `d` more
        steps, and then until their leases end, for the smallest d >= 0 with a possible rest.

        Raises
        ------
        PastChangedError
            If there is no such d: more is held already than the new work needs.
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
    """Return (step taken, bundles) of the bundles held at `now`, oldest first."""
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
    """Return rows from `now` on that keep all bundles `delay` steps, then to the end of leases."""
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
