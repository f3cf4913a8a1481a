"""The occurrences of an `every`: their periods, and their shifts from the first.

With one offset for all (Rayon leaves periodic expressions to later work; docs/rdl.md defines them)
one part represents all occurrences: its window is the intersection of their windows, each moved
back to the first. A recurrence inside a recurrence multiplies the occurrences.
"""

from __future__ import annotations

from dataclasses import dataclass

from rdl.compile.civil_time import ORIGIN, Frame, Period, instant_ms, periods, window_ms
from rdl.compile.context import CompileContext
from rdl.errors import BEYOND_HORIZON, UNSATISFIABLE
from rdl.expressions import Every, Offset, TimeOfDay, Window
from rdl.read_error import ReadError
from rdl.time_grid import TimeGrid, duration_text


class RecurrenceError(ReadError):
    """A recurrence that does not fit in this plan.

    Attributes
    ----------
    code
        As in `rdl.errors.Problem`.
    """

    def __init__(self, code: str, message: str, fix: str | None = None) -> None:
        self.code = code
        super().__init__(message, fix)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The occurrences that one part represents.

    Attributes
    ----------
    frames
        Reference of relative times, for each occurrence.
    shifts
        Steps from the first occurrence to each, ascending from 0.
    regular
        Whether relative times have the same shifts as the occurrences in all of them.
    """

    frames: tuple[Frame, ...] = (ORIGIN,)
    shifts: tuple[int, ...] = (0,)
    regular: bool = True

    def first(self) -> Occurrences:
        """Return only the first occurrence."""
        return Occurrences(self.frames[:1], self.shifts[:1])

    def last(self) -> Occurrences:
        """Return only the last occurrence."""
        return Occurrences(self.frames[-1:], self.shifts[-1:])


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of an `every`.

    Attributes
    ----------
    layout
        The occurrences of the recurrences around it.
    limit
        Step at which windows and periods around the first of them end, ignoring the horizon; None
        without an end.
    window
        The nearest window with a start around it, inside the nearest recurrence, or None.
    """

    layout: Occurrences
    limit: int | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Occurrences with one offset, and the [start, end) that their periods allow the first.

    The end ignores the horizon.
    """

    layout: Occurrences
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The occurrences of an `every`, by offset.

    Attributes
    ----------
    copies
        One for all occurrences with the same offset, else one for each.
    own_shifts
        Steps from its first occurrence to each, without enclosing recurrences.
    endless
        Period in steps if it never ends, else 0.
    """

    copies: tuple[Copy, ...]
    own_shifts: tuple[int, ...]
    endless: int

    @property
    def occurrences(self) -> int:
        """Number of occurrences, multiplied by those of enclosing recurrences."""
        return sum(len(copy.layout.frames) for copy in self.copies)


def lay_out(every: Every, surroundings: Surroundings, context: CompileContext) -> Recurrence:
    """Return the occurrences of `every`.

    Raises
    ------
    RecurrenceError
        If it does not fit in any plan on this grid.
    TimeGridError
        If the grid cannot represent its times.

    Notes
    -----
    Stops soon after `limits.max_occurrences`; the caller counts.
    """
    grid, submitted = context.grid, context.submitted_ms
    around, limit = surroundings.layout, surroundings.limit
    endless = every.is_endless
    if endless:
        _admit_endless(every.period_ms, context)
    most = context.limits.max_occurrences // len(around.frames) + 1
    rows: list[list[Period]] = []
    for frame, shift in zip(around.frames, around.shifts, strict=True):
        start = anchor_ms(every, surroundings.window, frame, grid, submitted)
        over = None if limit is None else limit + shift
        rows.append(_periods_of(every, _Row(frame, start, over, most), context))
    own = _own_shifts(rows, grid)
    window = surroundings.window
    said = every.anchor or (None if window is None else window.start)
    moves = said is None or isinstance(said, Offset) or len(around.frames) == 1
    regular = around.regular and every.zone is None and moves
    count = len(own)
    groups = [range(count)] if every.same_offset else [range(k, k + 1) for k in range(count)]
    copies = tuple(_copy(rows, group, own, around, regular, grid) for group in groups)
    return Recurrence(copies, own, max(1, every.period_ms // grid.step_ms) if endless else 0)


def anchor_ms(
    every: Every, window: Window | None, frame: Frame, grid: TimeGrid, submitted_ms: int
) -> int:
    """Return the instant from which periods are counted, in ms from the origin.

    Parameters
    ----------
    window
        The nearest window with a start around it, inside the nearest recurrence, or None.

    Raises
    ------
    TimeGridError
        If the grid cannot represent it.
    """
    if every.anchor is not None and not isinstance(every.anchor, TimeOfDay):
        return instant_ms(every.anchor, frame, grid, submitted_ms)
    if window is not None and window.start is not None:
        start = window_ms(window, frame, grid, submitted_ms)[0]
        assert start is not None
        return start
    return frame.start_ms if frame.in_period else submitted_ms


def passed_over(every: Every, period: Period, grid: TimeGrid, submitted_ms: int) -> bool:
    """Return whether a period does not count, since its window ends before the submission.

    Only for windows by days or times of day. A period that starts at the submission or later always
    counts: if its window is over even then, that is an error.
    """
    window = every.of
    if not isinstance(window, Window) or period.start_ms >= max(submitted_ms, 0):
        return False
    if not every.is_by_days and not isinstance(window.end, TimeOfDay):
        return False
    return window_ms(window, period.frame, grid, submitted_ms)[1] <= max(submitted_ms, 0)


def _admit_endless(period_ms: int, context: CompileContext) -> None:
    longest = context.max_period_ms
    if longest % period_ms == 0:
        return
    if period_ms % longest == 0 and period_ms <= context.grid.horizon_ms:
        return
    text = duration_text(longest)
    message = f"an endless period of {duration_text(period_ms)} neither divides {text} nor is"
    message += " a multiple of it within the horizon"
    raise RecurrenceError(UNSATISFIABLE, message, "give times= or until=, or another period")


@dataclass(frozen=True, slots=True)
class _Row:
    """One occurrence of the context of an `every`, with bounds of the periods in it.

    Attributes
    ----------
    over
        Step at which that occurrence ends, ignoring the horizon; None = never.
    most
        Most periods to return.
    """

    frame: Frame
    anchor_ms: int
    over: int | None
    most: int


def _periods_of(every: Every, row: _Row, context: CompileContext) -> list[Period]:
    grid = context.grid
    until: int | None = None
    if every.until is not None:
        until = instant_ms(every.until, row.frame, grid, context.submitted_ms)
    elif every.is_endless:
        until = grid.horizon_ms
    kept: list[Period] = []
    passed = 0
    for period in periods(every, row.anchor_ms, grid):
        if not kept and passed_over(every, period, grid, context.submitted_ms):
            passed += 1
            if passed > context.limits.max_occurrences:
                raise _over_before(context)
            continue
        if len(kept) == every.times or (until is not None and period.end_ms > until):
            break
        is_past = period.start_ms >= grid.horizon_ms
        # Civil days of 23 hours end early: for those, `_own_shifts` reports the problem better.
        is_told = is_past or row.frame.zone is None
        if is_told and row.over is not None and grid.ceil(period.start_ms) >= row.over:
            message = f"occurrence {len(kept)} starts where the window or period around it is over"
            fix = f"write times={len(kept)}" if kept else "give an earlier anchor="
            raise RecurrenceError(UNSATISFIABLE, message, fix)
        if is_past:
            message = f"occurrence {len(kept)} lies past the plan's horizon"
            fix = f"write times={len(kept)}, or the rest later" if kept else "reserve it later"
            raise RecurrenceError(BEYOND_HORIZON, message, fix)
        if period.end_ms <= max(context.submitted_ms, 0):
            raise _over_before(context)
        kept.append(period)
        if len(kept) > row.most:
            break
    if every.has_only_dates and len(kept) < (every.times or 1):
        message = f"{len(kept)} of its dates are left, and it is to run {every.times or 1} times"
        raise RecurrenceError(UNSATISFIABLE, message, "write later dates, or fewer times")
    if not kept:
        limit = "until" if every.until is not None else "the plan's horizon"
        code = UNSATISFIABLE if every.until is not None else BEYOND_HORIZON
        raise RecurrenceError(code, f"no whole period lies before {limit}")
    return kept


def _over_before(context: CompileContext) -> RecurrenceError:
    message = f"its first period is over before {context.begin_words}"
    return RecurrenceError(UNSATISFIABLE, message, "give a later anchor=")


def _own_shifts(rows: list[list[Period]], grid: TimeGrid) -> tuple[int, ...]:
    shifts: tuple[int, ...] | None = None
    for row in rows:
        first = grid.ceil(row[0].start_ms)
        found = tuple(grid.ceil(period.start_ms) - first for period in row)
        if shifts is not None and found != shifts:
            message = "its periods do not lie the same way in each period around it, so one offset"
            message += " cannot hold for all"
            raise RecurrenceError(UNSATISFIABLE, message, "write same_offset=false around it")
        shifts = found
    assert shifts is not None
    return shifts


def _copy(
    rows: list[list[Period]],
    group: range,
    own: tuple[int, ...],
    around: Occurrences,
    regular: bool,
    grid: TimeGrid,
) -> Copy:
    """Collect the occurrences `group` of every enclosing period; the inner index varies fastest."""
    frames: list[Frame] = []
    shifts: list[int] = []
    ends: list[int] = []
    start, base = 0, own[group[0]]
    for row, outer in zip(rows, around.shifts, strict=True):
        for k in group:
            shift = outer + own[k] - base
            frames.append(row[k].frame)
            shifts.append(shift)
            start = max(start, grid.ceil(row[k].start_ms) - shift)
            ends.append(grid.floor(row[k].end_ms) - shift)
    return Copy(Occurrences(tuple(frames), tuple(shifts), regular), start, min(ends))
