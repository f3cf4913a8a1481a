"""Expression to WorkGraph: check, normalise, tighten, and lay out as arrays.

All problems that do not depend on a plan are reported here together, each with its position.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import sqrt
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rdl.codecs.json_codec import pointer_of
from rdl.compile.calendar.holidays import with_dates
from rdl.compile.calendar.zones import needs_zone, with_zone
from rdl.compile.checker import check
from rdl.compile.context import CompileContext
from rdl.compile.normalizer import Normalizer, TooLargeError
from rdl.compile.parts import FAR, Finding, Numbers, VertexDraft, troubles_of
from rdl.compile.plain_graph import plain_graph
from rdl.compile.propagation import tighten
from rdl.compile.source import read_source
from rdl.errors import MALFORMED, Problem, RdlError
from rdl.expressions import Expression
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
    completed = of_cluster is not None and needs_zone(expression)
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
