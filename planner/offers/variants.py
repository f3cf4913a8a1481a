"""Variants of a request: later, earlier, smaller, or with fewer options."""

from __future__ import annotations

from dataclasses import replace

from rdl.compile.calendar.civil_time import ORIGIN, window_ms
from rdl.compile.context import CompileContext
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Instant,
    Offset,
    Order,
    TimeOfDay,
    Together,
    Void,
    Window,
    atoms_of,
)
from rdl.meaning.shift import with_instants
from rdl.resources import Resources


def _shift_instant(instant: Instant, ms: int, context: CompileContext) -> Instant:
    """Return `ms` from the origin: a date if there is a calendar and the request has no offset.

    It means the same time whenever it is submitted, so no offer counts from its submission.
    """
    if context.grid.origin is None or isinstance(instant, Offset):
        return Offset(ms)
    return Absolute(context.grid.instant_at(ms))


def dated(expression: Expression, context: CompileContext) -> Expression:
    """Return the request with times that count from the submission replaced by instants.

    So an offer means the same whenever it is submitted. Bounds of windows are rounded to the grid,
    inside the requested ones, as the compiler rounds them: in the same step they come out the same.
    A start at the submission stays, since it is no bound.
    """
    grid = context.grid

    def start_of(instant: Instant) -> Instant:
        if not isinstance(instant, AfterSubmission) or instant.ms <= 0:
            return instant
        ms = grid.ms(grid.ceil(context.submitted_ms + instant.ms))
        return _shift_instant(instant, ms, context)

    def end_of(instant: Instant) -> Instant:
        if not isinstance(instant, AfterSubmission):
            return instant
        ms = grid.ms(grid.floor(context.submitted_ms + instant.ms))
        return _shift_instant(instant, ms, context)

    return with_instants(expression, start_of, end_of)


def deadline_ms(expression: Expression, context: CompileContext) -> int | None:
    """Return the end of the outermost window in ms from the origin, or None without one."""
    return _bounds(expression, context)[1]


def start_ms(expression: Expression, context: CompileContext) -> int | None:
    """Return the start of the outermost window in ms from the origin, or None without one."""
    return _bounds(expression, context)[0]


def _bounds(expression: Expression, context: CompileContext) -> tuple[int | None, int | None]:
    if not isinstance(expression, Window):
        return None, None
    return window_ms(expression, ORIGIN, context.grid, context.submitted_ms)


def with_deadline(expression: Expression, ms: int, context: CompileContext) -> Expression:
    """Return the request with another end of its outermost window."""
    assert isinstance(expression, Window)
    return replace(expression, end=_shift_instant(expression.end, ms, context))


def with_start(expression: Expression, ms: int, context: CompileContext) -> Expression:
    """Return the request with another start of its outermost window, and the same end."""
    assert isinstance(expression, Window)
    assert expression.start is not None
    start = _shift_instant(expression.start, ms, context)
    if not isinstance(expression.end, TimeOfDay):
        return replace(expression, start=start)
    # A time of day means its next occurrence after the start, which the new start may change.
    last = deadline_ms(expression, context)
    assert last is not None
    return replace(expression, start=start, end=_shift_instant(expression.end, last, context))


def resize(expression: Expression, part: int, parts: int) -> Expression | None:
    """Return the request with `part` of `parts` of each atom, or None if an atom vanishes.

    A malleable atom does less work at the same heights; a gang runs equally long with fewer
    bundles, in whole multiples.
    """
    match expression:
        case Atom():
            return _resized_atom(expression, part, parts)
        case Void():
            return expression
        case Window() | Every():
            of = resize(expression.of, part, parts)
            return None if of is None else replace(expression, of=of)
        case AnyOf():
            options = _resized_all(expression.options, part, parts)
            return None if options is None else replace(expression, options=options)
        case AllOf() | Order() | Graph() | Together():
            children = _resized_all(expression.children, part, parts)
            return None if children is None else replace(expression, children=children)


def _resized_all(
    expressions: tuple[Expression, ...], part: int, parts: int
) -> tuple[Expression, ...] | None:
    sized = tuple(resize(expression, part, parts) for expression in expressions)
    return None if None in sized else tuple(one for one in sized if one is not None)


def _resized_atom(atom: Atom, part: int, parts: int) -> Atom | None:
    if atom.minimum == atom.maximum:
        height = atom.maximum * part // parts // atom.multiple * atom.multiple
        if height == 0:
            return None
        work = atom.work_ms * height // atom.maximum
        return replace(atom, minimum=height, maximum=height, work_ms=work)
    work = atom.work_ms * part // parts
    if atom.work_ms % atom.lease_ms == 0:
        # Keep whole leases: only then does the grid round lease and work consistently.
        work = work // atom.lease_ms * atom.lease_ms
    return None if work == 0 else replace(atom, work_ms=work)


def part_left(smaller: Expression, asked: Expression, nominal: Resources) -> float:
    """Return the share of the work of `asked` in `smaller`, which `resize` returned for it.

    Work is weighted by its dominant share of `nominal`, each atom counted once. Gangs lose whole
    bundles and leases stay whole, so the share is mostly less than the part that was tried.
    """
    kept = whole = 0.0
    for less, atom in zip(atoms_of(smaller), atoms_of(asked), strict=True):
        if all(name in nominal for name, _ in atom.bundle.items()):
            share = atom.bundle.dominant_share(nominal)
            kept += less.work_ms * share
            whole += atom.work_ms * share
    return kept / whole if whole else 0.0


def single_options(expression: Expression) -> list[tuple[int, float, Expression]]:
    """Return (index, worth relative to the best, request) for each option of the outermost `any`.

    Windows and recurrences around it stay; a nested `any` is left to the agent.
    """
    match expression:
        case AnyOf(options=options, prefer=prefer):
            worths = prefer or (1.0,) * len(options)
            best = max(worths)
            return [
                (index, worth / best, option)
                for index, (option, worth) in enumerate(zip(options, worths, strict=True))
            ]
        case Window() | Every():
            return [
                (index, worth, replace(expression, of=option))
                for index, worth, option in single_options(expression.of)
            ]
        case _:
            return []


def option_name(expression: Expression, index: int) -> str | None:
    """Return the name of an option of the outermost `any`, or None."""
    match expression:
        case AnyOf(options=options):
            return options[index].name
        case Window() | Every():
            return option_name(expression.of, index)
        case _:
            return None
