"""Compile an atom in a window in one step, if it has no problems or notes.

The way through checker, normaliser, propagation and emission is made for trees. A single atom that
fits its window, the machines and the horizon comes out as one row, and is by far the commonest
request. If anything is invalid or cut off, the compiler handles the request instead and reports it.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rdl.compile.checker import MAX_HEIGHT, MAX_MS
from rdl.compile.civil_time import ORIGIN, instant_ms
from rdl.compile.context import CompileContext
from rdl.compile.machine_fit import MachineFit
from rdl.compile.parts import FAR
from rdl.compile.rounding import numbers_of, rounding_note
from rdl.expressions import Absolute, Atom, Expression, Moment, Window
from rdl.text.formatter import most_characters
from rdl.time_grid import TimeGridError
from rdl.work_graph import ATOM, WorkGraph

_Scalar = TypeVar("_Scalar", bound=np.generic)

#: Operators inside each other.
_DEPTH: Final = 2

#: The path of the atom.
_PATH: Final = "0"


def plain_graph(expression: Expression, context: CompileContext) -> WorkGraph | None:
    """Return the compiled form of an atom in a window; None if it must compile it."""
    if type(expression) is not Window or type(expression.of) is not Atom or context.exact_work:
        return None
    atom = expression.of
    start, end = expression.start, expression.end
    if not isinstance(start, Moment) or not isinstance(end, Moment) or expression.zone is not None:
        return None
    if not _is_well_formed(start, end, atom) or not _is_within(expression, atom, context):
        return None
    if MachineFit.of(context.machines).why_not(atom) is not None:
        return None
    numbers, shortest = numbers_of(atom, context.grid)
    window = _steps(start, end, context)
    if window is None or not 0 < window[1] - window[0] >= shortest:
        return None
    lease, work = min(numbers.lease, FAR), min(numbers.work, FAR)
    shape = (shortest, 0, numbers.g, numbers.h, numbers.multiple, lease, work, -1)
    row = (ATOM, -1, *window, *shape, 0, 1, 0, 0, 0, 1, 0, -1, int(numbers.handover), -1, 1)
    note = rounding_note(atom, numbers, context.grid.step_ms)
    if note is not None and atom.name is not None:
        note = f"{atom.name}: {note}"
    return WorkGraph(
        expression=expression,
        grid=context.grid,
        submitted=context.submitted,
        vertices=_frozen(np.array((row,), dtype=np.int64)),
        paths=(_PATH,),
        children=_NO_CHILDREN,
        edges=_NO_EDGES,
        shifts=_ONE_SHIFT,
        bundles=(atom.bundle,),
        labels=(),
        prefer=_ONE_WORTH,
        root_effort=_frozen(np.array((sqrt(work),), dtype=np.float64)),
        notes=() if note is None else (note,),
    )


def _is_well_formed(start: Moment, end: Moment, atom: Atom) -> bool:
    """Return whether the checker surely finds nothing malformed."""
    plain = atom.multiple == 1 and not atom.spread and atom.domain is None and atom.on is None
    if not plain or atom.within is not None:
        return False
    if not 1 <= atom.minimum <= atom.maximum <= MAX_HEIGHT or not len(atom.bundle):
        return False
    if not (1 <= atom.lease_ms <= MAX_MS and 1 <= atom.work_ms <= MAX_MS):
        return False
    for instant in (start, end):
        if not isinstance(instant, Absolute) and abs(instant.ms) > MAX_MS:
            return False
    if type(start) is not type(end):
        return True  # of times of two kinds it is not known their order yet
    if isinstance(start, Absolute) and isinstance(end, Absolute):
        return start.at < end.at
    assert not isinstance(start, Absolute)
    assert not isinstance(end, Absolute)
    return start.ms < end.ms


def _is_within(window: Window, atom: Atom, context: CompileContext) -> bool:
    limits = context.limits
    written = most_characters(window) + most_characters(atom)
    return limits.max_depth >= _DEPTH and written <= limits.max_source


def _steps(start: Moment, end: Moment, context: CompileContext) -> tuple[int, int] | None:
    """Return the window in steps; None if it reaches past the horizon."""
    grid, submitted_ms = context.grid, context.submitted_ms
    try:
        first = grid.ceil(instant_ms(start, ORIGIN, grid, submitted_ms))
        last = grid.floor(instant_ms(end, ORIGIN, grid, submitted_ms))
    except TimeGridError:
        return None
    return None if last > grid.horizon else (max(context.first, first), last)


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    array.setflags(write=False)
    return array


_NO_CHILDREN: Final = _frozen(np.empty(0, dtype=np.int64))
_NO_EDGES: Final = _frozen(np.empty((0, 4), dtype=np.int64))
_ONE_SHIFT: Final = _frozen(np.zeros(1, dtype=np.int64))
_ONE_WORTH: Final = _frozen(np.ones(1, dtype=np.float64))
