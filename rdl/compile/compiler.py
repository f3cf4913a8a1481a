"""Expression to WorkGraph: check, normalise, tighten, and lay out as arrays.

All problems that do not depend on a plan are reported here together, each with its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from itertools import accumulate
from math import sqrt
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rdl.codecs.json_codec import pointer_of
from rdl.compile.checker import check
from rdl.compile.civil_time import DAY_MS
from rdl.compile.context import CompileContext
from rdl.compile.normalizer import Normalizer, TooLargeError
from rdl.compile.parts import FAR, Finding, Numbers, VertexDraft, troubles_of
from rdl.compile.plain_graph import plain_graph
from rdl.compile.propagation import tighten
from rdl.compile.source import read_source
from rdl.errors import MALFORMED, Problem, RdlError, did_you_mean, quote
from rdl.expressions import (
    AllOf,
    AnyOf,
    Every,
    Expression,
    Graph,
    Order,
    TimeOfDay,
    Together,
    Window,
    children_of,
)
from rdl.limits import MOST_PROBLEMS
from rdl.local_time import zone_named
from rdl.names import part_name
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.work_graph import ANY, ATOM, COLUMNS, EVERY, PARENT, WorkGraph

_Scalar = TypeVar("_Scalar", bound=np.generic)

#: Columns BUNDLE to LABEL of a group.
_NO_ATOM: Final = (-1, 0, 0, 1, 0, 0, -1)
#: Columns SPREAD to VALUES of a group.
_NO_RULE: Final = (0, -1, 0, -1, 1)
_WORK: Final = 5

#: How messages about a part begin that do not say which it is.
_UNNAMED: Final = "it "

#: Time before the submission for which dates are kept: a period may have started then.
_BEFORE = timedelta(days=8)


def compile_source(source: object, context: CompileContext) -> WorkGraph:
    """Return the WorkGraph of RDL text, RDL as JSON or YARN's JSON.

    Raises
    ------
    RdlError
        With every problem found, each with its span (text) or JSON pointer.
    """
    expression = read_source(source, context.limits)
    text = source if isinstance(source, str) and expression.span is not None else None
    return compile_expression(expression, context, text)


def compile_expression(
    expression: Expression, context: CompileContext, source: str | None = None
) -> WorkGraph:
    """Return the WorkGraph of `expression`.

    Parameters
    ----------
    source
        The text that spans point into; None gives JSON pointers instead.

    Returns
    -------
    WorkGraph
        Its expression has dates instead of the calendars it names, and the cluster's zone where
        times of day have none.

    Raises
    ------
    RdlError
        With every problem found: ``malformed`` by itself, ``unsatisfiable`` on this cluster or
        within its windows, ``beyond_horizon``.
    """
    plain = plain_graph(expression, context)
    return _compiled(expression, context, source) if plain is None else plain


def _compiled(expression: Expression, context: CompileContext, source: str | None) -> WorkGraph:
    """Return the WorkGraph of any expression."""
    of_cluster = context.grid.zone
    completed = of_cluster is not None and _needs_zone(expression)
    if completed:
        assert of_cluster is not None
        expression = with_zone(expression, of_cluster)
    findings = check(expression, context.limits, exact_work=context.exact_work)
    if findings.complete and findings.calendars:
        expression, unknown = with_dates(expression, context)
        findings = check(expression, context.limits, exact_work=context.exact_work)
        if unknown:
            raise _error(expression, [*findings.troubles, *unknown], source)
    troubles = list(findings.troubles)
    if findings.complete and not troubles and findings.written > context.limits.max_source:
        troubles += _too_long(expression, context.limits.max_source)
    if not findings.complete or len(troubles) > len(findings.troubles):
        raise _error(expression, troubles, source)
    zone = zone_named(expression)
    spoken = context if zone is None else replace(context, grid=context.grid.with_zone(zone))
    normalizer = Normalizer(spoken, findings.broken)
    try:
        root = normalizer.build(expression)
    except TooLargeError:
        raise _error(expression, troubles + normalizer.malformed, source) from None
    if root is not None and root.trouble is None:
        tighten(root, spoken.grid)
    troubles += normalizer.malformed
    if root is not None and root.failed:
        troubles += troubles_of(root)
    if troubles:
        raise _error(expression, troubles, source)
    notes = findings.notes
    if completed:
        notes = (f"times of day are read in {of_cluster}, the zone of the cluster", *notes)
    return _Emission(normalizer, notes).graph(expression, context, root)


def _too_long(expression: Expression, most: int) -> list[Finding]:
    """Return the problem of a request whose canonical text could not be read again.

    It is the text that plans keep. Requests as JSON, and with named bundles, can be far shorter.
    """
    length = len(format_expression(expression))
    if length <= most:
        return []
    message = f"written out, with its bundles, the request has {length} characters"
    return [Finding(expression, "", MALFORMED, message, f"write at most {most}")]


def _error(expression: Expression, troubles: list[Finding], source: str | None) -> RdlError:
    problems: dict[Problem, None] = {}
    for trouble in troubles:
        span = trouble.expression.span if source is not None else None
        pointer = pointer_of(expression, trouble.path) if span is None else None
        problems[Problem(trouble.code, _told(trouble, expression), span, pointer, trouble.fix)] = (
            None
        )
    in_order = sorted(problems, key=lambda problem: problem.span or (0, 0))
    return RdlError(tuple(in_order[:MOST_PROBLEMS]), source)


def _told(trouble: Finding, expression: Expression) -> str:
    """Return the message of a problem, with the names of the request's parts."""
    if not trouble.message.startswith(_UNNAMED):
        return trouble.message
    name = part_name(expression, trouble.path)
    return trouble.message if name is None else f"{name} {trouble.message.removeprefix(_UNNAMED)}"


class _Emission:
    """Collects the columns of a WorkGraph while the parts are walked, children first."""

    def __init__(self, normalizer: Normalizer, notes: tuple[str, ...]) -> None:
        self._normalizer = normalizer
        self._notes = [*notes, *normalizer.notes]
        self._slices = [0, *accumulate(len(shifts) for shifts in normalizer.shifts)]
        self._rows: list[tuple[int, ...]] = []
        self._parents: list[int] = []
        self._paths: list[str] = []
        self._children: list[int] = []
        self._edges: list[tuple[int, int, int, int]] = []
        self._prefer: list[float] = []
        self._efforts: list[float] = []
        self._options: list[tuple[int, str, int]] = []
        self._bundles: dict[Resources, int] = {}
        self._labels: dict[str, int] = {}
        self._domains: dict[str, int] = {}

    def graph(
        self, expression: Expression, context: CompileContext, root: VertexDraft | None
    ) -> WorkGraph:
        """Return the WorkGraph; no root is a void."""
        if root is not None:
            self._emit(root, satisfiable=True)
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, COLUMNS)
        rows[:, PARENT] = self._parents
        shifts = [shift for entry in self._normalizer.shifts for shift in entry]
        return WorkGraph(
            expression=expression,
            grid=context.grid,
            submitted=context.submitted,
            vertices=_read_only(rows),
            paths=tuple(self._paths),
            children=_read_only(np.array(self._children, dtype=np.int64)),
            edges=_read_only(np.array(self._edges, dtype=np.int64).reshape(-1, 4)),
            shifts=_read_only(np.array(shifts, dtype=np.int64)),
            bundles=tuple(self._bundles),
            labels=tuple(self._labels),
            prefer=_read_only(np.array(self._prefer, dtype=np.float64)),
            root_effort=_read_only(np.array(self._efforts, dtype=np.float64)),
            endless=self._normalizer.endless,
            void=root is None,
            notes=tuple(dict.fromkeys(self._notes)),
            options=tuple(self._options),
            domains=tuple(self._domains),
        )

    def _emit(self, part: VertexDraft, *, satisfiable: bool) -> int:
        """Append the part's vertex after those of its children; return its index."""
        if satisfiable and part.failed:
            satisfiable = False
            for trouble in troubles_of(part):
                self._notes.append(f"{trouble.path}: left out, {trouble.message}")
        children = [self._emit(child, satisfiable=satisfiable) for child in part.children]
        vertex = len(self._rows)
        for child in children:
            self._parents[child] = vertex
        self._parents.append(-1)
        self._paths.append(part.path)
        self._prefer.append(part.prefer)
        self._options.extend((vertex, path, option) for path, option in part.options)
        self._edges.extend((children[a], children[b], lo, hi) for a, b, lo, hi in part.edges)
        held = self._atom(part) if part.kind == ATOM else _NO_ATOM
        rule = self._rule(part.numbers) if part.numbers is not None else _NO_RULE
        shifts = (0, 0)
        if part.kind in (ATOM, EVERY):
            shifts = self._slices[part.shifts], len(self._normalizer.shifts[part.shifts])
        work = held[_WORK] if part.kind == ATOM else 0
        self._efforts.append(sqrt(work) if part.kind == ATOM else self._effort(part, children))
        times = (part.kind, -1, part.start, part.end, part.shortest)
        family = (len(self._children), len(children), part.last_shift, int(satisfiable))
        self._children.extend(self._in_order(part, children))
        self._rows.append((*times, *held, *shifts, *family, *rule))
        return vertex

    def _in_order(self, part: VertexDraft, children: list[int]) -> list[int]:
        """Return children as written; options by preference, those of equal worth as written.

        Agents that do not weigh try options in this order.
        """
        if part.kind != ANY:
            return children
        return sorted(children, key=lambda child: -self._prefer[child])

    def _atom(self, part: VertexDraft) -> tuple[int, ...]:
        """Return columns BUNDLE to LABEL; an option without numbers is out of every plan."""
        numbers = part.numbers or Numbers(Resources(), None, 1, 1, 1, 1, 0, 0)
        bundle = self._bundles.setdefault(numbers.bundle, len(self._bundles))
        label = -1
        if numbers.label is not None:
            label = self._labels.setdefault(numbers.label, len(self._labels))
        g, h, multiple, lease, work = numbers[2:7]
        return bundle, g, h, multiple, min(lease, FAR), min(work, FAR), label

    def _rule(self, numbers: Numbers) -> tuple[int, int, int, int, int]:
        """Return columns SPREAD to VALUES."""
        domain, within = (
            -1 if name is None else self._domains.setdefault(name, len(self._domains))
            for name in (numbers.domain, numbers.within)
        )
        return numbers.spread, domain, int(numbers.handover), within, numbers.values

    def _effort(self, part: VertexDraft, children: list[int]) -> float:
        efforts = [self._efforts[child] for child in children]
        if part.kind in (ANY, EVERY):
            left = [
                (c.prefer, e) for e, c in zip(efforts, part.children, strict=True) if not c.failed
            ]
            return max(left, key=lambda option: option[0], default=(1.0, 0.0))[1]
        if part.form == "order":
            return sum(efforts)
        levels = [0] * len(efforts)
        for before, after, _, _ in part.by_before:
            levels[after] = max(levels[after], levels[before] + 1)
        squares = [0.0] * (max(levels) + 1)
        for level, effort in zip(levels, efforts, strict=True):
            squares[level] += effort * effort
        return sum(map(sqrt, squares))


def _read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    array.setflags(write=False)
    return array


# So requests in a Plan do not change with the cluster's calendars, and neither the oracle nor the
# validator needs them.


def with_dates(
    expression: Expression, context: CompileContext
) -> tuple[Expression, tuple[Finding, ...]]:
    """Return the request with dates instead of calendars, and problems of calendar names.

    Leaves out dates before the submission.
    """
    writer = _Writer(context)
    return writer.written(expression, ""), tuple(writer.unknown)


class _Writer:
    def __init__(self, context: CompileContext) -> None:
        self.unknown: list[Finding] = []
        self._calendars: Mapping[str, tuple[date, ...]] = dict(context.calendars)
        self._first = date.min
        origin = context.grid.origin
        if origin is not None:
            submitted = origin + timedelta(milliseconds=max(0, context.submitted_ms))
            self._first = submitted.date() - _BEFORE

    def written(self, here: Expression, path: str) -> Expression:
        match here:
            case AnyOf(options=options):
                return replace(here, options=self._each(options, path))
            case AllOf() | Order() | Graph() | Together():
                return replace(here, children=self._each(here.children, path))
            case Window(of=of):
                return replace(here, of=self.written(of, _child(path, 0)))
            case Every(of=of):
                return self._dated(replace(here, of=self.written(of, _child(path, 0))), path)
            case _:
                return here

    def _each(self, children: tuple[Expression, ...], path: str) -> tuple[Expression, ...]:
        return tuple(self.written(one, _child(path, i)) for i, one in enumerate(children))

    def _dated(self, every: Every, path: str) -> Every:
        if every.holidays is None:
            return every
        dates = self._calendars.get(every.holidays)
        if dates is None:
            message = f"the cluster has no calendar {quote(every.holidays)}"
            fix = "name it under [calendars] of the cluster file"
            if self._calendars:
                fix = did_you_mean(every.holidays, self._calendars)
            self.unknown.append(Finding(every, path, MALFORMED, message, fix))
            return every
        kept = {day for day in dates if day >= self._first}
        return replace(every, holidays=None, without=tuple(sorted(kept.union(every.without))))


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)


# So requests in a Plan do not change with the cluster's zone, and neither the oracle nor the
# validator needs that zone.


def with_zone(expression: Expression, zone: str) -> Expression:
    """Return the request with a zone for times of day, days and dates without one around them.

    A recurrence by days gets the zone itself, so that its times of day are in the same zone.
    """
    return _completed(expression, zone, zoned=False)


def _needs_zone(expression: Expression) -> bool:
    """Return whether a request has times of day, days or dates without a zone around them."""
    pending = [(expression, False)]
    while pending:
        here, zoned = pending.pop()
        if (not zoned and _is_by_clock(here)) or _has_days(here):
            return True
        pending.extend((child, _inside(here, zoned=zoned)) for child in children_of(here))
    return False


def _completed(here: Expression, zone: str, *, zoned: bool) -> Expression:
    takes = not zoned and _is_by_clock(here)
    if isinstance(here, Every) and here.zone is None:
        takes = _is_counted_in_days(here)
    if takes:
        assert isinstance(here, Window | Every)
        here = replace(here, zone=zone)
    inside = _inside(here, zoned=zoned)
    match here:
        case Window(of=of) | Every(of=of):
            return replace(here, of=_completed(of, zone, zoned=inside))
        case AnyOf(options=options):
            done = tuple(_completed(one, zone, zoned=inside) for one in options)
            return replace(here, options=done)
        case AllOf() | Order() | Graph() | Together():
            done = tuple(_completed(one, zone, zoned=inside) for one in here.children)
            return replace(here, children=done)
        case _:
            return here


def _inside(here: Expression, *, zoned: bool) -> bool:
    """Return whether the children of an expression have a zone around them."""
    return here.zone is not None if isinstance(here, Every) else zoned


def _is_by_clock(here: Expression) -> bool:
    """Return whether an expression is a window by times of day without a zone of its own."""
    if not isinstance(here, Window) or here.zone is not None:
        return False
    return isinstance(here.start, TimeOfDay) or isinstance(here.end, TimeOfDay)


def _has_days(here: Expression) -> bool:
    """Return whether an expression is a recurrence by the calendar without a zone."""
    if not isinstance(here, Every) or here.zone is not None:
        return False
    named = here.is_by_days or bool(here.without) or here.holidays is not None
    return named or isinstance(here.anchor, TimeOfDay)


def _is_counted_in_days(every: Every) -> bool:
    """Return whether the days of a recurrence without a zone are those of a calendar."""
    if _has_days(every):
        return True
    whole = every.period_ms >= DAY_MS and every.period_ms % DAY_MS == 0
    return whole and any(_is_by_clock(one) for one in _own_parts(every))


def _own_parts(every: Every) -> Iterator[Expression]:
    """Yield the parts inside a recurrence, except those inside nested recurrences."""
    pending = [every.of]
    while pending:
        here = pending.pop()
        yield here
        if not isinstance(here, Every):
            pending.extend(children_of(here))
