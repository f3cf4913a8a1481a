"""Find parts that are too long for their window, as deep in the request as possible."""

from __future__ import annotations

from dataclasses import dataclass

from rdl.compile.context import CompileContext
from rdl.compile.parts import Finding, VertexDraft, blame, settle
from rdl.errors import BEYOND_HORIZON, UNSATISFIABLE
from rdl.expressions import Expression
from rdl.local_time import span_words
from rdl.time_grid import TimeGrid, duration_text
from rdl.work_graph import ALL, ANY


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
