"""Expressions and allocations in seconds, and which rule of the oracle they break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

from rdl.expressions import (
    Atom,
    Expression,
    Offset,
    Window,
)
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

CORE = Resources.of({"cpu": 1000})
SECOND = 1000
Rows: TypeAlias = list[tuple[int, int, int]]
GRID = TimeGrid(step_ms=SECOND, horizon=1000)


def atom(minimum: int, maximum: int, lease: int, work: int, multiple: int = 1) -> Atom:
    return Atom(CORE, minimum, maximum, lease * SECOND, work * SECOND, multiple)


def window(of: Expression, start: int, end: int) -> Window:
    return Window(Offset(start * SECOND), Offset(end * SECOND), of)


def rows_of(heights: Sequence[int]) -> Rows:
    """Return the rows of x(0), x(1), ...; equal neighbours are merged."""
    rows: Rows = []
    for at, height in enumerate(heights):
        if height and rows and rows[-1][1:] == (at, height):
            rows[-1] = (rows[-1][0], at + 1, height)
        elif height:
            rows.append((at, at + 1, height))
    return rows


def rule(
    expression: Expression,
    allocation: Mapping[str, Rows],
    choices: Mapping[str, int] | None = None,
    *,
    grid: TimeGrid = GRID,
    submitted: int = 0,
) -> str | None:
    """Return the rule broken, or None."""
    found = check(expression, grid, submitted * SECOND, allocation, choices or {})
    return None if found is None else found.rule


ONE = atom(1, 1, 1, 1)


def at(*steps: int) -> dict[str, Rows]:
    """Return one bundle for one step each, for atoms 0, 1, ..."""
    return {str(i): [(step, step + 1, 1)] for i, step in enumerate(steps)}


def occurrences(*steps: int, path: str = "0") -> dict[str, Rows]:
    """Return one bundle for one step in each occurrence of an `every`."""
    return {f"{path}@{k}": [(step, step + 1, 1)] for k, step in enumerate(steps)}


@cache
def is_sum_of_leases(heights: tuple[int, ...], lease: int) -> bool:
    """Say whether x is a sum of whole intervals of `lease` steps or more, swaps included."""
    first = next((at for at, height in enumerate(heights) if height), None)
    if first is None:
        return True
    for end in range(first + lease, len(heights) + 1):
        if min(heights[first:end]) == 0:
            return False
        lower = heights[:first] + tuple(x - 1 for x in heights[first:end]) + heights[end:]
        if is_sum_of_leases(lower, lease):
            return True
    return False
