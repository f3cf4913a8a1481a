"""Expression to parts: windows folded, nested operators flattened, recurrences laid out.

Every step keeps the set of satisfying allocations. An `any` stays a choice: distributing it would
copy its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Final, NoReturn, assert_never

from rdl.compile.civil_time import window_ms
from rdl.compile.context import CompileContext
from rdl.compile.machine_fit import MachineFit
from rdl.compile.parts import Finding, Numbers, VertexDraft, blame, settle, topological
from rdl.compile.recurrences import (
    Copy,
    Occurrences,
    Recurrence,
    RecurrenceError,
    Surroundings,
    lay_out,
)
from rdl.compile.rounding import (
    WorkBeyondSpreadError,
    gap_steps,
    least_steps,
    numbers_of,
    rounding_note,
)
from rdl.compound import compound_of
from rdl.errors import BEYOND_HORIZON, MALFORMED, UNSATISFIABLE
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
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
    members_of,
)
from rdl.local_time import span_words, time_words
from rdl.names import PartNames
from rdl.time_grid import TimeGrid, TimeGridError, duration_text, seconds_of
from rdl.work_graph import ALL, ANY, ATOM, EVERY

#: Civil times that one request may ask for (windows times occurrences in a zone): half a second.
_MOST_CIVIL_TIMES: Final = 200_000


class TooLargeError(Exception):
    """The request grew beyond a bound; the trouble that says so is in `Normalizer.malformed`."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The context of an expression.

    Attributes
    ----------
    start, end
        Steps that all windows around leave, for the first occurrence.
    limit
        `end` as it would be on a plan without a horizon; None if no enclosing window ends.
    layout
        The occurrences of one part: a single one outside `every`.
    shifts
        Index of the layout's shifts in the normaliser's table.
    window
        The nearest window with a start, inside the nearest `every`.
    """

    start: int
    end: int
    layout: Occurrences
    limit: int | None = None
    shifts: int = 0
    window: Window | None = None


class Normalizer:
    """Builds the parts of one expression.

    Attributes
    ----------
    malformed
        Troubles that no other option makes good.
    notes
        Numbers that were rounded to the grid.
    shifts
        Table of shifts that parts index; 0 is the single shift outside `every`.
    endless
        Period in steps of the endless recurrences met, or 0.
    """

    def __init__(self, context: CompileContext, broken: frozenset[int]) -> None:
        self.malformed: list[Finding] = []
        self.notes: list[str] = []
        self.shifts: list[tuple[int, ...]] = [(0,)]
        self.endless = 0
        self._context = context
        self._grid = context.grid
        self._broken = broken
        self._machines = MachineFit(context.machines)
        self._first = context.first
        self._leaves = self._occurrences = self._civil_times = 0

    def build(self, expression: Expression) -> VertexDraft | None:
        """Return the part of a whole request, or None for a void.

        Raises
        ------
        StoppedError
            If recurrences unroll beyond the limits.
        """
        self._names = PartNames(expression)
        scope = Enclosure(self._first, self._grid.horizon, Occurrences())
        part = self._lower(expression, "", scope)
        if part is not None and not part.failed:
            self._fit(part, scope, expression, "")
        return part

    def _lower(self, here: Expression, path: str, scope: Enclosure) -> VertexDraft | None:
        if isinstance(here, Atom):
            return self._atom(here, path, scope)
        if id(here) in self._broken:
            return self._opaque(here, path)
        match here:
            case Void():
                return None
            case AnyOf():
                return self._any(here, path, scope)
            case AllOf(children=children):
                return self._group(here, "all", children, path, scope)
            case Order(children=children):
                return self._group(here, "order", children, path, scope)
            case Graph(children=children):
                return self._group(here, "graph", children, path, scope)
            case Together():
                return self._together(here, path, scope)
            case Window():
                return self._window(here, path, scope)
            case Every():
                return self._every(here, path, scope)
            case _:
                assert_never(here)

    def _opaque(self, here: Expression, path: str) -> VertexDraft:
        """Return a part without times, for a malformed expression."""
        part = VertexDraft(ATOM, here, path, self._first, self._grid.horizon)
        part.failed = True
        return part

    def _atom(self, atom: Atom, path: str, scope: Enclosure) -> VertexDraft:
        self._leaves += 1
        if self._leaves > self._context.limits.max_atoms:
            limit = f"more than {self._context.limits.max_atoms} atoms once every is unrolled"
            self._stop(atom, path, limit)
        if id(atom) in self._broken:
            return self._opaque(atom, path)
        unfit = self._machines.why_not(atom)
        most = None if unfit is not None else self._machines.most_bundles(atom)
        try:
            numbers, shortest = numbers_of(atom, self._grid, most)
        except WorkBeyondSpreadError as error:
            unfit = self._beyond_spread(atom, error)
            numbers, shortest = numbers_of(atom, self._grid)
        part = VertexDraft(ATOM, atom, path, scope.start, scope.end, shortest)
        part.numbers, part.shifts = numbers, scope.shifts
        note = rounding_note(atom, numbers, self._grid.step_ms)
        if note is not None:
            called = self._names.at(path)
            self.notes.append(note if called is None else f"{called}: {note}")
        if unfit is not None:
            blame(part, Finding(atom, path, UNSATISFIABLE, *unfit))
        return part

    def _together(self, here: Together, path: str, scope: Enclosure) -> VertexDraft:
        """Return the single part for all members (`rdl.compound`)."""
        atoms = members_of(here)
        members = [self._atom(one, _child(path, i), scope) for i, one in enumerate(atoms)]
        if any(one.numbers is None for one in members):
            return self._opaque(here, path)
        if len(members) == 1:
            return members[0]
        first = members[0].numbers
        assert first is not None
        lease = first.lease
        part = VertexDraft(ATOM, here, path, scope.start, scope.end, members[0].shortest)
        part.numbers = Numbers(compound_of(here), None, 1, 1, 1, lease, lease, lease)
        part.shifts = scope.shifts
        unfit = next((one.trouble for one in members if one.trouble is not None), None)
        apart = self._machines.why_not_together(atoms) if here.within is not None else None
        if unfit is None and apart is not None:
            unfit = Finding(here, path, UNSATISFIABLE, *apart)
        if unfit is not None:
            blame(part, unfit)
        return part

    def _beyond_spread(self, atom: Atom, error: WorkBeyondSpreadError) -> tuple[str, str]:
        """Return message and fix for an atom whose work needs more bundles at the same time."""
        works = [seconds_of(self._grid.ms(work)) for work in error.near]
        message = f"{self._machines.what_rule_leaves(atom)}, and so few cannot hold its work"
        return message, f"write work={' or '.join(map(str, works))}"

    def _any(self, choice: AnyOf, path: str, scope: Enclosure) -> VertexDraft:
        part = VertexDraft(ANY, choice, path, scope.start, scope.end)
        for index, option in enumerate(choice.options):
            worth = 1.0 if choice.prefer is None else choice.prefer[index]
            child = self._lower(option, _child(path, index), scope)
            if child is None:  # a misplaced void, already said
                continue
            if scope.start < scope.end:
                self._fit(child, scope, option, child.path)
            taken = ((path, index),)
            if child.kind == ANY and child.trouble is None:
                for inner in child.children:
                    inner.options = (*taken, *child.options, *inner.options)
                    inner.prefer *= worth
                    part.children.append(inner)
            else:
                child.options = (*taken, *child.options)
                child.prefer = worth
                part.children.append(child)
        if len(part.children) == 1 and part.children[0].prefer == 1:
            return self._stands_for(part.children[0], part)
        settle(part)
        return part

    def _group(
        self,
        here: Expression,
        form: str,
        children: tuple[Expression, ...],
        path: str,
        scope: Enclosure,
    ) -> VertexDraft | None:
        part = VertexDraft(ALL, here, path, scope.start, scope.end, form=form)
        #: First and last child that each written child became; a void became none.
        places: list[tuple[int, int]] = []
        for index, expression in enumerate(children):
            first = len(part.children)
            child = self._lower(expression, _child(path, index), scope)
            if child is None:
                places.append((-1, -1))
            elif child.form == form != "graph" and child.trouble is None:
                part.edges.extend((a + first, b + first, lo, hi) for a, b, lo, hi in child.edges)
                part.children.extend(child.children)
                part.options += child.options
                places.append((first, len(part.children) - 1))
            else:
                part.children.append(child)
                places.append((first, first))
        if not part.children:
            return None
        if form != "all":
            self._arrows(here, part, path, places)
        if len(part.children) == 1:
            return self._stands_for(part.children[0], part)
        settle(part)
        return part

    def _arrows(
        self, here: Expression, part: VertexDraft, path: str, places: list[tuple[int, int]]
    ) -> None:
        """Set the edges of an order or a graph between the children that hold something."""
        if isinstance(here, Order):
            low, high = self._gap(here.gap, here, path)
            arrows = [(i, i + 1, low, high) for i in range(len(places) - 1)]
        elif isinstance(here, Graph):
            arrows = [(e.before, e.after, *self._gap(e.gap, here, path)) for e in here.edges]
        for before, after, low, high in arrows:
            last, first = places[before][1], places[after][0]
            if last < 0 or first < 0:
                continue
            if part.children[last].endless:
                message = "nothing can come after an endless every"
                self._report(here, path, message, "write times= or until=")
            part.edges.append((last, first, low, high))
        if isinstance(here, Order):
            part.edges.sort()
            part.by_before = part.by_after = part.edges
            return
        order = topological(len(part.children), [(a, b) for a, b, _, _ in part.edges])
        rank = {child: at for at, child in enumerate(order)}
        part.topological = order
        part.by_before = sorted(part.edges, key=lambda edge: rank[edge[0]])
        part.by_after = sorted(part.edges, key=lambda edge: rank[edge[1]])

    def _gap(self, gap: Gap | None, here: Expression, path: str) -> tuple[int, int]:
        try:
            return gap_steps(gap, self._grid)
        except TimeGridError as error:
            self._report(here, path, error.message, "write a wider gap")
            return 0, -1

    def _stands_for(self, child: VertexDraft, group: VertexDraft) -> VertexDraft:
        """Return the only child instead of its group."""
        child.options = (*group.options, *child.options)
        if child.kind != ATOM and child.kind != EVERY:
            child.source, child.path = group.source, group.path
        return child

    def _window(self, window: Window, path: str, scope: Enclosure) -> VertexDraft | None:
        grid, layout = self._grid, scope.layout
        try:
            first, last, moved = self._pulled_back(window, layout)
        except TimeGridError as error:
            self._report(window, path, error.message, error.fix)
            return self._opaque(window, path)
        lost = moved > last
        if lost and not self._broken and least_steps(window.of, grid) == moved - first:
            last = moved
            begins, ends = (time_words(grid.ms(step), grid) for step in (first, last))
            note = "the window is as long as what is in it and begins and ends with a step of "
            note += f"{duration_text(grid.step_ms)}: from {begins} to {ends}"
            called = self._names.at(path) if path else None
            self.notes.append(note if called is None else f"{called}: {note}")
        limit = last if scope.limit is None else min(scope.limit, last)
        beyond = grid.horizon <= first < limit
        if last > grid.horizon and not beyond:
            end = seconds_of(grid.horizon_ms)
            called = self._names.at(path) if path else None
            self.notes.append(f"{_CUT} {end} s" if called is None else f"{called}: {_CUT} {end} s")
        inside = replace(
            scope,
            start=max(scope.start, first),
            end=min(scope.end, last),
            limit=limit,
            window=scope.window if window.start is None else window,
        )
        part = self._lower(window.of, _child(path, 0), inside)
        if part is None or part.failed:
            return part
        if part.kind != ATOM and part.kind != EVERY:
            part.source, part.path = window, path
        if beyond:
            horizon = f"the plan's horizon, {time_words(grid.horizon_ms, grid)}"
            message = f"the window starts at or past {horizon}"
            blame(part, Finding(window, path, BEYOND_HORIZON, message, "reserve it later"))
        else:
            if last - first < part.shortest and not part.failed:
                self._blame_clocks(part, window, path, layout, last - first)
            self._fit(part, inside, window, path, lost=lost)
        return part

    def _blame_clocks(
        self, part: VertexDraft, window: Window, path: str, layout: Occurrences, left: int
    ) -> None:
        """Blame a change of clocks where one offset for all runs leaves less than each run has."""
        day = next((frame for frame in layout.frames if frame.changes(self._grid)), None)
        if len(layout.frames) == 1 or day is None or day.day is None or day.zone is None:
            return
        first, last, _ = self._pulled_back(window, layout.first())
        if last - first < part.shortest:
            return
        grid = self._grid
        has, need = (duration_text(grid.ms(max(0, steps))) for steps in (left, part.shortest))
        message = (
            f"clocks change on {day.day.date()} ({day.zone.key}): with one offset for all runs its "
            f"windows have {has} in common, and it takes at least {need}"
        )
        fix = "write same_offset=false, or leave an hour more in the window"
        blame(part, Finding(window, path, UNSATISFIABLE, message, fix))

    def _pulled_back(self, window: Window, layout: Occurrences) -> tuple[int, int, int]:
        """Return [start, end) that holds for all occurrences moved to the first.

        The third number is where it ends if it begins with a step and keeps its written length.
        """
        if isinstance(window.start, TimeOfDay) or isinstance(window.end, TimeOfDay):
            starts = ends = layout
        else:
            starts = _telling(window.start, layout, late=False)
            ends = _telling(window.end, layout, late=True)
        bounds = self._bounds(window, starts)
        first = max((start for start, _, _ in bounds if start is not None), default=self._first)
        if ends != starts:
            bounds = self._bounds(window, ends)
        return first, min(end for _, end, _ in bounds), min(moved for _, _, moved in bounds)

    def _bounds(self, window: Window, layout: Occurrences) -> list[tuple[int | None, int, int]]:
        """Return [start, end) in steps in each occurrence, moved to the first.

        The third is where the window ends if it begins with a step and keeps its length.
        """
        self._civil_times += len(layout.frames) - 1
        if self._civil_times > _MOST_CIVIL_TIMES:
            raise TimeGridError("too many windows in too many occurrences")
        grid, submitted = self._grid, self._context.submitted_ms
        found: list[tuple[int | None, int, int]] = []
        for frame, shift in zip(layout.frames, layout.shifts, strict=True):
            start, end = window_ms(window, frame, grid, submitted)
            moved = None if start is None else grid.ceil(start) - shift
            base = (frame.start_ms if frame.in_period else submitted) if start is None else start
            whole = grid.ceil(base) + grid.floor(end - base) - shift
            found.append((moved, grid.floor(end) - shift, whole))
        return found

    def _fit(
        self,
        part: VertexDraft,
        scope: Enclosure,
        here: Expression,
        path: str,
        *,
        lost: bool = False,
    ) -> None:
        if part.failed or 0 < scope.end - scope.start >= part.shortest:
            return  # nearly always: no capacity is worth building
        frame = scope.layout.frames[0]
        begun = frame.in_period and frame.start_ms < self._context.submitted_ms
        begun = begun and scope.start == self._first
        room = TimeSpan(scope.start, scope.end, here, path, scope.limit, lost, begun)
        fit(part, room, self._context)

    def _every(self, every: Every, path: str, scope: Enclosure) -> VertexDraft | None:
        limits = self._context.limits
        around = Surroundings(scope.layout, scope.limit, scope.window)
        try:
            laid = lay_out(every, around, self._context)
        except RecurrenceError as error:
            return self._not_laid(every, path, error)
        except TimeGridError as error:
            self._report(every, path, error.message, error.fix)
            return self._opaque(every, path)
        self._occurrences += laid.occurrences
        if self._occurrences > limits.max_occurrences:
            self._stop(every, path, f"more than {limits.max_occurrences} occurrences")
        if every.same_offset:
            part = self._shift_pattern(every, path, scope, laid)
        else:
            part = self._unroll(every, path, scope, laid.copies)
        if part is not None and laid.endless:
            part.endless = True
            self.endless = lcm(self.endless or 1, laid.endless)
        return part

    def _occurrence(
        self, every: Every, path: str, scope: Enclosure, copy: Copy, last_shift: int
    ) -> VertexDraft | None:
        """Return the part of the occurrences in `copy`, found in their own periods."""
        shifts = scope.shifts
        if copy.layout.shifts != self.shifts[shifts]:
            shifts = self._shifts_of(copy.layout.shifts)
        start, end = max(scope.start, copy.start), min(scope.end - last_shift, copy.end)
        limit = copy.end if scope.limit is None else min(scope.limit - last_shift, copy.end)
        inside = Enclosure(start, end, copy.layout, limit, shifts)
        part = self._lower(every.of, path, inside)
        if part is not None:
            self._fit(part, inside, every.of, path)
        return part

    def _shift_pattern(
        self, every: Every, path: str, scope: Enclosure, laid: Recurrence
    ) -> VertexDraft | None:
        own = laid.own_shifts
        child = self._occurrence(every, f"{_child(path, 0)}@0", scope, laid.copies[0], own[-1])
        if child is None:
            return None
        part = VertexDraft(EVERY, every, path, scope.start, scope.end, last_shift=own[-1])
        if len(own) == 1 and not laid.endless:  # an endless one will have more as the plan rolls
            return self._stands_for(child, part)
        part.shifts = self._shifts_of(own)
        part.children.append(child)
        settle(part)
        return part

    def _unroll(
        self, every: Every, path: str, scope: Enclosure, copies: tuple[Copy, ...]
    ) -> VertexDraft | None:
        part = VertexDraft(ALL, every, path, scope.start, scope.end, form="all")
        for k, copy in enumerate(copies):
            child = self._occurrence(every, f"{_child(path, 0)}@{k}", scope, copy, 0)
            if child is None:
                return None
            if child.form == "all" and child.trouble is None:
                part.children.extend(child.children)
                part.options += child.options
            else:
                part.children.append(child)
        if len(part.children) == 1:
            return self._stands_for(part.children[0], part)
        settle(part)
        return part

    def _shifts_of(self, shifts: tuple[int, ...]) -> int:
        """Return the index of a slice in the table, entering it if it is not the last."""
        if self.shifts[-1] != shifts:
            self.shifts.append(shifts)
        return len(self.shifts) - 1

    def _not_laid(self, every: Every, path: str, error: RecurrenceError) -> VertexDraft:
        part = self._opaque(every, path)
        blame(part, Finding(every, path, error.code, error.message, error.fix))
        return part

    def _report(self, here: Expression, path: str, message: str, fix: str | None) -> None:
        self.malformed.append(Finding(here, path, MALFORMED, message, fix))

    def _stop(self, here: Expression, path: str, limit: str) -> NoReturn:
        self._report(here, path, f"the request has {limit}", "ask for less")
        raise TooLargeError


def _telling(instant: Instant | None, layout: Occurrences, *, late: bool) -> Occurrences:
    """Return the occurrences that determine how an instant limits all of them."""
    if len(layout.frames) == 1:
        return layout
    if instant is None or (layout.regular and isinstance(instant, Offset)):
        return layout.first()
    if isinstance(instant, Offset):
        return layout
    return layout.last() if late else layout.first()


_CUT: Final = "the window passes the plan's horizon and is cut at"


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Steps [start, end) available to a part, and the expression that limits them.

    Attributes
    ----------
    limit
        Its end in a plan without a horizon; None if unbounded.
    lost
        Whether rounding to the grid made it a step shorter than written.
    begun
        Whether it is the rest of a recurrence's first period after the submission.
    """

    start: int
    end: int
    here: Expression
    path: str
    limit: int | None = None
    lost: bool = False
    begun: bool = False


def fit(part: VertexDraft, room: TimeSpan, context: CompileContext) -> None:
    """Report parts that are longer than their window, single children before their sum."""
    if part.failed or 0 < room.end - room.start >= part.shortest:
        return
    if room.end <= room.start:
        blame(part, Finding(room.here, room.path, *_no_room(room, context)))
    elif part.kind not in (ANY, ALL) or not _fits_without_long_children(part, room, context):
        message = _too_short(part, room, context.grid)
        need = duration_text(part.shortest * context.grid.step_ms)
        fix = f"leave it at least {need}, or ask for less"
        if room.begun:
            fix = "its first period began before the submission: write anchor= at the next one"
        blame(part, Finding(part.source, part.path, UNSATISFIABLE, message, fix))


def _fits_without_long_children(part: VertexDraft, room: TimeSpan, context: CompileContext) -> bool:
    """Report children that are too long on their own; return whether that explains the misfit."""
    for child in part.children:
        fit(child, room, context)
    settle(part)
    return part.failed or part.shortest <= room.end - room.start


def _no_room(room: TimeSpan, context: CompileContext) -> tuple[str, str, str | None]:
    grid = context.grid
    if room.start >= grid.horizon and (room.limit is None or room.start < room.limit):
        return BEYOND_HORIZON, "it lies past the plan's horizon", "reserve it later"
    if max(room.start, room.end) <= context.first:
        message = f"the window is over before {context.begin_words}"
        return UNSATISFIABLE, message, "write a later end"
    step = duration_text(grid.step_ms)
    return UNSATISFIABLE, f"no whole step of {step} lies in what the windows around it leave", None


def _too_short(part: VertexDraft, room: TimeSpan, grid: TimeGrid) -> str:
    need = duration_text(part.shortest * grid.step_ms)
    window = span_words(grid.ms(room.start), grid.ms(room.end), grid)
    has = duration_text((room.end - room.start) * grid.step_ms)
    limit = "its window"
    if room.end == grid.horizon:
        limit = "the time it has up to the plan's horizon"
    said = f"it takes at least {need}, but {limit}, {window}, is {has}"
    return f"{said} in whole steps of {duration_text(grid.step_ms)}" if room.lost else said
