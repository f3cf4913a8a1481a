"""The oracle: does this allocation satisfy this expression?

Written only from the definition of the language (docs/rdl.md, Rayon 3.1), without code of the
compiler or the planners, so that they can be compared with it. It ignores resources: it checks
bundles over time. Rows name no machines, so it checks only the heights of a spread, and no
handovers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn, TypeAlias

from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Gap,
    Graph,
    Order,
    TimeOfDay,
    Together,
    Void,
    Window,
)
from rdl.oracle.atoms import Row, lease_and_work, shortest_lease
from rdl.oracle.periods import (
    OracleFrame,
    OraclePeriod,
    PeriodError,
    instant_ms,
    is_over,
    periods_of,
    window_of,
)
from rdl.time_grid import TimeGrid

#: Number of machines with a label (None: all machines), or of values of a domain among them.
Places: TypeAlias = Callable[[str | None, str | None], int]
#: First step and end step of an allocation; None without one.
_Span: TypeAlias = "tuple[int, int] | None"
#: Visited atoms and their rows, in written order.
_Held: TypeAlias = list[tuple[str, Sequence[Row]]]


@dataclass(frozen=True, slots=True)
class Violation:
    """The first broken rule.

    Attributes
    ----------
    path
        Source path of the expression that is not satisfied (files.md).
    rule
        One word: ``rows path choice height spread multiple work lease window order gap together
        period offset``.
    detail
        One sentence with the numbers, in steps and bundle-steps.
    """

    path: str
    rule: str
    detail: str


class _BrokenError(Exception):
    """Carries the violation to `check`; private to this module."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation


@dataclass(frozen=True, slots=True)
class _Scope:
    """The context of an expression: the steps it may use, and the reference of its times."""

    first: int
    end: int
    frame: OracleFrame
    anchor_ms: int


def check(
    expression: Expression,
    grid: TimeGrid,
    submitted_ms: int,
    allocation: Mapping[str, Sequence[Row]],
    choices: Mapping[str, int],
    *,
    max_period_ms: int = 86_400_000,
    places: Places | None = None,
    closed: bool = False,
) -> Violation | None:
    """Return None if `allocation` satisfies `expression`, else the first rule it breaks.

    Parameters
    ----------
    expression
        As submitted.
    grid
        Rounds the client's numbers; rows must be before its horizon.
    submitted_ms
        Rows must not be before it (rounded up to a step).
    allocation
        Rows (first step, first step past the last, bundles) of each atom by source path, sorted and
        disjoint. Occurrence k of an `every` has ``@k`` after the path of its child.
    choices
        Index of the chosen option, by path of the `any`. Occurrences with one offset share the
        choice of occurrence 0.
    max_period_ms
        Upper bound of the period of endless recurrences, which must divide it.
    places
        ``places(label, None)`` is the number of machines, ``places(label, domain)`` that of values
        of a domain, to spread bundles over; None = unknown, then heights are not checked against
        them.
    closed
        Whether its owner ended the request: an endless recurrence then has no occurrences after the
        last one in `allocation`.
    """
    judge = _Judge(grid, submitted_ms, allocation, choices, max_period_ms)
    judge.places, judge.closed = places, closed
    scope = _Scope(grid.ceil(submitted_ms), grid.horizon, OracleFrame(), submitted_ms)
    try:
        judge.span(expression, "", scope)
        judge.nothing_left_over()
    except _BrokenError as broken:
        return broken.violation
    return None


class _Judge:
    """Walks one expression once; `held` lists the visited atoms, in written order."""

    def __init__(
        self,
        grid: TimeGrid,
        submitted_ms: int,
        allocation: Mapping[str, Sequence[Row]],
        choices: Mapping[str, int],
        max_period_ms: int,
    ) -> None:
        self.grid = grid
        self.submitted_ms = submitted_ms
        self.allocation = allocation
        self.choices = choices
        self.max_period_ms = max_period_ms
        self.places: Places | None = None
        self.closed = False
        self.held: _Held = []
        self.chosen: set[str] = set()
        # Occurrences whose choices apply to others: (path of the visited one, path with choices).
        self.stand_ins: list[tuple[str, str]] = []

    def span(self, expression: Expression, path: str, scope: _Scope) -> _Span:
        """Check one expression and return the steps it spans."""
        match expression:
            case Atom():
                return self._atom(expression, path, scope)
            case Void():
                return None
            case AllOf(children=children):
                return _hull([self.span(c, _child(path, i), scope) for i, c in enumerate(children)])
            case Order():
                return self._order(expression, path, scope)
            case Graph():
                return self._graph(expression, path, scope)
            case Together():
                return self._together(expression, path, scope)
            case AnyOf():
                return self._any(expression, path, scope)
            case Window():
                return self._window(expression, path, scope)
            case Every():
                return self._every(expression, path, scope)

    def nothing_left_over(self) -> None:
        """Check that every row and every choice belongs to a visited part of the request."""
        met = {path for path, _ in self.held}
        for path, rows in self.allocation.items():
            if path not in met and len(rows):
                _violation(path, "path", "rows for a path that is not an atom of a chosen option")
        for path in self.choices:
            if path not in self.chosen:
                _violation(
                    path, "choice", "a choice for a path that is not an any of a chosen option"
                )

    def _atom(self, atom: Atom, path: str, scope: _Scope) -> tuple[int, int]:
        rows = self.allocation.get(path, ())
        lease, work = lease_and_work(atom, self.grid.step_ms)
        if work is None:
            _violation(
                path, "multiple", f"no height from min to max is divisible by {atom.multiple}"
            )
        spread = self._most_spread(atom)
        total = 0
        last = None
        for start, end, bundles in rows:
            if end <= start or bundles <= 0 or (last is not None and start < last):
                _violation(
                    path, "rows", f"row [{start}, {end}) x {bundles} is empty or out of order"
                )
            if not atom.minimum <= bundles <= atom.maximum:
                heights = f"{atom.minimum}..{atom.maximum}"
                _violation(path, "height", f"{bundles} bundles at step {start}, not {heights}")
            if spread is not None and bundles > spread:
                where = f"a {atom.domain}" if atom.domain is not None else "a machine"
                detail = f"at step {start}, not {spread}: {atom.spread} on {where} at most"
                _violation(path, "spread", f"{bundles} bundles {detail}")
            if bundles % atom.multiple:
                _violation(path, "multiple", f"{bundles} at step {start}, not {atom.multiple} n")
            total += (end - start) * bundles
            last = end
        if last is None or total != work:
            _violation(path, "work", f"{total} bundle-steps, not {work}")
        first = rows[0][0]
        if first < scope.first or last > scope.end:
            inside = f"[{scope.first}, {scope.end})"
            _violation(path, "window", f"steps [{first}, {last}) are not inside {inside}")
        shortest = shortest_lease(rows)
        if shortest < lease:
            _violation(path, "lease", f"a bundle is kept for {shortest} steps, not {lease} or more")
        self.held.append((path, rows))
        return first, last

    def _most_spread(self, atom: Atom) -> int | None:
        """Return the most concurrent bundles under the spread; None: no limit."""
        if not atom.spread or self.places is None:
            return None
        return atom.spread * self.places(atom.on, atom.domain)

    def _order(self, order: Order, path: str, scope: _Scope) -> _Span:
        spans = [self.span(c, _child(path, i), scope) for i, c in enumerate(order.children)]
        whole: _Span = None
        for i, span in enumerate(spans):
            # Compare with all earlier ones, not only the neighbour, which may be empty (void).
            self._follows(whole, span, None, _child(path, i))
            if i and order.gap is not None:
                self._follows(spans[i - 1], span, order.gap, _child(path, i))
            whole = _hull([whole, span])
        return whole

    def _graph(self, graph: Graph, path: str, scope: _Scope) -> _Span:
        spans = [self.span(c, _child(path, i), scope) for i, c in enumerate(graph.children)]
        for edge in graph.edges:
            self._follows(spans[edge.before], spans[edge.after], edge.gap, _child(path, edge.after))
        return _hull(spans)

    def _together(self, together: Together, path: str, scope: _Scope) -> _Span:
        """Check that all children hold bundles over exactly the same steps, without a break."""
        spans = [self.span(c, _child(path, i), scope) for i, c in enumerate(together.children)]
        for i, child in enumerate(together.children):
            here = _child(path, i)
            rows = self.allocation.get(here, ())
            alike = isinstance(child, Atom) and child.minimum == child.maximum
            if not alike or len({tuple(row)[2] for row in rows}) > 1:
                _violation(here, "together", "its bundles do not start and end at the same time")
            if any(after[0] != before[1] for before, after in pairwise(rows)):
                _violation(here, "together", "there is a break in the allocation of a together")
            if spans[i] != spans[0]:
                _violation(here, "together", f"holds steps {spans[i]}, the first {spans[0]}")
        return _hull(spans)

    def _follows(self, before: _Span, after: _Span, gap: Gap | None, path: str) -> None:
        if before is None or after is None:
            return
        between = after[0] - before[1]
        if between < 0:
            _violation(path, "order", f"starts at step {after[0]}, before {before[1]}")
        if gap is None:
            return
        most = None if gap.maximum_ms is None else self.grid.floor(gap.maximum_ms)
        least = self.grid.ceil(gap.minimum_ms)
        if between < least or (most is not None and between > most):
            _violation(path, "gap", f"{between} steps after what precedes, not {least}..{most}")

    def _any(self, choice: AnyOf, path: str, scope: _Scope) -> _Span:
        known = path
        for occurrence, first in reversed(self.stand_ins):
            if known not in self.choices and known.startswith(occurrence):
                known = first + known[len(occurrence) :]
        taken = self.choices.get(known)
        if taken is None:
            _violation(path, "choice", "no option is chosen")
        if not 0 <= taken < len(choice.options):
            _violation(path, "choice", f"there is no option {taken} among {len(choice.options)}")
        self.chosen.add(known)
        return self.span(choice.options[taken], _child(path, taken), scope)

    def _window(self, window: Window, path: str, scope: _Scope) -> _Span:
        """Check that the part lies in the whole steps of its window, or is as long as the window.

        A part as long as its window starts at the first whole step in it, and so may end less than
        a step after it.
        """
        frame = scope.frame
        try:
            start, end = window_of(window, frame, self.grid, self.submitted_ms)
        except (PeriodError, OverflowError) as error:
            _violation(path, "window", str(error))
        inside = scope
        if start is not None:
            inside = _Scope(max(self.grid.ceil(start), scope.first), scope.end, frame, start)
        else:
            start = frame.start_ms if frame.repeats else self.submitted_ms
        last = self.grid.floor(end)
        longest = max(last, self.grid.ceil(start) + self.grid.floor(end - start))
        inside = replace(inside, end=min(longest, scope.end))
        span = self.span(window.of, _child(path, 0), inside)
        if span is not None and span[1] > last and span != (inside.first, longest):
            _violation(path, "window", f"ends at step {span[1]}, after {last}")
        return span

    def _every(self, every: Every, path: str, scope: _Scope) -> _Span:
        try:
            periods = self._periods(every, path, scope)
        except (PeriodError, OverflowError) as error:
            _violation(path, "period", str(error))
        if not periods:
            _violation(path, "period", "no whole period lies before the horizon")
        child = _child(path, 0)
        starts = [self.grid.ceil(period.start_ms) for period in periods]
        spans: list[_Span] = []
        model: _Held = []
        for k, period in enumerate(periods):
            here, mark = f"{child}@{k}", len(self.held)
            inside = replace(
                scope,
                first=max(scope.first, starts[k]),
                end=min(scope.end, self.grid.floor(period.end_ms)),
                frame=period.frame,
                anchor_ms=period.start_ms,
            )
            if not every.same_offset:
                spans.append(self.span(every.of, here, inside))
                continue
            self.stand_ins.append((here, f"{child}@0"))
            spans.append(self.span(every.of, here, inside))
            self.stand_ins.pop()
            model = model or self.held[mark:]
            self._same_offset(model, self.held[mark:], child, k, starts[k] - starts[0])
        return _hull(spans)

    def _periods(self, every: Every, path: str, scope: _Scope) -> list[OraclePeriod]:
        """Return the periods that must hold an occurrence."""
        anchor = scope.anchor_ms
        if every.anchor is not None and not isinstance(every.anchor, TimeOfDay):
            anchor = instant_ms(every.anchor, scope.frame, self.grid, self.submitted_ms)
        until: int | None = None
        if every.until is not None:
            until = instant_ms(every.until, scope.frame, self.grid, self.submitted_ms)
        ends_by_itself = bool(every.dates) and every.days is None
        endless = every.times is None and until is None and not ends_by_itself
        if endless and self._is_forbidden(every.period_ms):
            _violation(path, "period", f"an endless period of {every.period_ms} ms is not admitted")
        if endless:
            until = self.grid.horizon_ms
        kept: list[OraclePeriod] = []
        for period in periods_of(every, anchor, self.grid):
            if not kept and is_over(every, period, self.grid, self.submitted_ms):
                continue
            if every.times is not None and len(kept) == every.times:
                break
            if until is not None and period.end_ms > until:
                break
            if period.start_ms >= self.grid.horizon_ms:
                _violation(path, "period", f"occurrence {len(kept)} lies past the horizon")
            kept.append(period)
        return kept[: self._last_held(_child(path, 0))] if endless and self.closed else kept

    def _last_held(self, child: str) -> int:
        """Return the number of occurrences up to the last with an allocation, at least 1."""
        numbers = [
            int(path[len(child) + 1 :].partition(".")[0].partition("@")[0])
            for path, rows in self.allocation.items()
            if path.startswith(f"{child}@") and len(rows)
        ]
        return max(numbers, default=0) + 1

    def _is_forbidden(self, period_ms: int) -> bool:
        if period_ms > 0 and self.max_period_ms % period_ms == 0:
            return False
        return period_ms % self.max_period_ms != 0 or period_ms > self.grid.horizon_ms

    def _same_offset(self, model: _Held, held: _Held, child: str, k: int, shift: int) -> None:
        """Check that the atoms of occurrence `k` are those of the first, moved by `shift`."""
        known = {path.removeprefix(f"{child}@0"): rows for path, rows in model}
        moved = {path.removeprefix(f"{child}@{k}"): (path, rows) for path, rows in held}
        if known.keys() != moved.keys():
            _violation(f"{child}@{k}", "choice", "has other options than occurrence 0")
        for suffix, rows in known.items():
            path, copies = moved[suffix]
            wanted = [(start + shift, end + shift, bundles) for start, end, bundles in rows]
            if wanted != [tuple(row) for row in copies]:
                _violation(path, "offset", f"is not occurrence 0 moved by {shift} steps")


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)


def _hull(spans: Sequence[_Span]) -> _Span:
    held = [span for span in spans if span is not None]
    if not held:
        return None
    return min(start for start, _ in held), max(end for _, end in held)


def _violation(path: str, rule: str, detail: str) -> NoReturn:
    raise _BrokenError(Violation(path, rule, detail))
