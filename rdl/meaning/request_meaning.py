"""The meaning of a request for people: how often, first time, length, work and amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rdl.compile.shapes import heights_of
from rdl.compound import parts_of
from rdl.expressions import (
    Absolute,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    MonthDay,
    Order,
    TimeOfDay,
    Together,
    Window,
    children_of,
)
from rdl.local_time import UTC_ZONE, clock_words, local_instant, zone_named
from rdl.operators import day_words, month_day_text
from rdl.resources import CPU, MEMORY, format_amount
from rdl.time_grid import TimeGrid, duration_text
from rdl.work_graph import (
    END,
    EVERY,
    KIND,
    PARENT,
    SATISFIABLE,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    WorkGraph,
    occurrence_path,
)

_HOUR_MS: Final = 3_600_000
_MIB_IN_GIB: Final = 1024


#: Most runs to show, from the first on.
MOST_SHOWN: Final = 10

#: Matches the number of an occurrence in a path.
_OCCURRENCE: Final = re.compile(r"@\d*")

#: Amounts by resource; for work, amounts times ms.
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class RunWindow:
    """The window of one run, [start, end) in ms from the origin."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a compiled request.

    Attributes
    ----------
    zone
        The first time zone it names, or None.
    often
        In words: ``once``, ``every day, Monday to Friday, 10 runs``.
    runs
        Number of planned runs; for an endless recurrence, those before the horizon.
    first, last
        The windows of the first and the last run.
    next
        The windows of at most nine runs after the first, without the last.
    shortest_ms
        The shortest time from the first to the last step of a run.
    room_ms
        The available time: the length of the shortest window of a run.
    work
        Smallest and largest work of a run by resource, in amounts times ms; options may differ.
    at_once
        Smallest and largest concurrent amounts by resource. The smallest is the need of its largest
        part, the largest is the sum of all parts that may run concurrently, at full width.
    """

    zone: str | None
    often: str
    runs: int
    first: RunWindow
    last: RunWindow
    next: tuple[RunWindow, ...]
    shortest_ms: int
    room_ms: int
    work: Mapping[str, tuple[int, int]]
    at_once: Mapping[str, tuple[int, int]]


def meaning_of(graph: WorkGraph) -> Meaning | None:
    """Return the meaning of a request; None for a best-effort session, which has no promise."""
    if graph.void:
        return None
    every = _outermost(graph.expression)
    runs = list(run_windows(graph).values())
    grid = graph.grid
    windows = [RunWindow(grid.ms(start), grid.ms(end)) for start, end in runs]
    least, most = demand_of(graph, len(runs))
    return Meaning(
        zone_named(graph.expression),
        _often(every, len(runs)),
        len(runs),
        windows[0],
        windows[-1],
        tuple(windows[1:MOST_SHOWN][: len(windows) - 2]),
        _shortest(graph, len(runs)) * grid.step_ms,
        min(one.end_ms - one.start_ms for one in windows),
        _ranges(least.work, most.work),
        _ranges(least.at_once, most.at_once),
    )


def meaning_lines(meaning: Meaning, grid: TimeGrid) -> list[tuple[str, str]]:
    """Return (label, text) lines for people; times in the request's zone, else in the cluster's."""
    lines = [("runs", meaning.often)]
    first, last = meaning.first, meaning.last
    lines.append(("first", _between(first, meaning.zone, grid)))
    for number, one in enumerate(meaning.next, 2):
        lines.append((f"run {number}", _between(one, meaning.zone, grid)))
    if meaning.runs > 1:
        lines.append(("last", _between(last, meaning.zone, grid)))
    shortest, room = duration_text(meaning.shortest_ms), duration_text(meaning.room_ms)
    each = " a run" if meaning.runs > 1 else ""
    lines.append(("time", f"at least {shortest}{each}, within {room}"))
    lines.append(("work", _joined(meaning.work, _work_text) + each))
    lines.append(("at once", _joined(meaning.at_once, format_amount)))
    return lines


def meaning_json(meaning: Meaning, grid: TimeGrid) -> dict[str, object]:
    """Return the same for programs: seconds, amounts, and RFC 3339 if there is a calendar."""
    return {
        "zone": meaning.zone,
        "often": meaning.often,
        "runs": meaning.runs,
        "first": _window_json(meaning.first, meaning.zone, grid),
        "last": _window_json(meaning.last, meaning.zone, grid),
        "next": [_window_json(one, meaning.zone, grid) for one in meaning.next],
        "least_time": meaning.shortest_ms / 1000,
        "room": meaning.room_ms / 1000,
        "work": {
            name: [_work_text(name, low), _work_text(name, high)]
            for name, (low, high) in meaning.work.items()
        },
        "at_once": {
            name: [format_amount(name, low), format_amount(name, high)]
            for name, (low, high) in meaning.at_once.items()
        },
    }


def _outermost(expression: Expression) -> Every | None:
    """Return the recurrence of the whole request, inside any windows, or None."""
    here = expression
    while isinstance(here, Window):
        here = here.of
    return here if isinstance(here, Every) else None


def _walk(expression: Expression) -> Iterator[Expression]:
    pending = [expression]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(reversed(children_of(here)))


def names_calendar(expression: Expression) -> bool:
    """Return whether a request needs a calendar: for dates, zones or times of day."""
    for one in _walk(expression):
        match one:
            case Every(zone=str()) | Window(zone=str()):
                return True
            case Every(anchor=Absolute()) | Every(until=Absolute()):
                return True
            case Every(anchor=TimeOfDay()) | Every(days=tuple()) | Every(holidays=str()):
                return True
            case Every(without=without, dates=dates, months=months) if without or dates or months:
                return True
            case Window(start=Absolute() | TimeOfDay()) | Window(end=Absolute() | TimeOfDay()):
                return True
    return False


def names_months(expression: Expression) -> bool:
    """Return whether a request has recurrences by months or lists of dates."""
    return any(
        isinstance(one, Every) and (one.months > 0 or bool(one.dates)) for one in _walk(expression)
    )


def run_windows(graph: WorkGraph) -> dict[int, tuple[int, int]]:
    """Return the [start, end) in steps of each run of the outermost recurrence, by its number.

    A request without a recurrence has run 0.
    """
    alone = _outermost(graph.expression) is None
    numbers, starts, ends = [], [], []
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        if not row[SATISFIABLE]:
            continue  # in an unsatisfiable option
        shifts = graph.shifts[row[SHIFT_FIRST] : row[SHIFT_FIRST] + row[SHIFT_COUNT]]
        numbers.append(np.zeros_like(shifts) if alone else _occurrences(graph, vertex, len(shifts)))
        starts.append(row[START] + shifts)
        ends.append(row[END] + shifts)
    if not numbers:
        return {}
    runs, places = np.unique(np.concatenate(numbers), return_inverse=True)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    last = np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(first, places, np.concatenate(starts))
    np.maximum.at(last, places, np.concatenate(ends))
    windows = zip(first.tolist(), last.tolist(), strict=True)
    return dict(zip(runs.tolist(), windows, strict=True))


def window_ends(graph: WorkGraph, run: int) -> dict[str, int]:
    """Return the step at which the window of each atom of a run ends, by the atom's path.

    Parameters
    ----------
    run
        Number of the occurrence of the outermost recurrence; 0 without one.
    """
    alone = _outermost(graph.expression) is None
    ends: dict[str, int] = {}
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        shifts = graph.shifts[row[SHIFT_FIRST] : row[SHIFT_FIRST] + row[SHIFT_COUNT]]
        own = np.zeros_like(shifts) if alone else _occurrences(graph, vertex, len(shifts))
        for place in np.flatnonzero(own == run).tolist() if row[SATISFIABLE] else ():
            ends[occurrence_path(graph, vertex, place)] = int(row[END] + shifts[place])
    return ends


def _occurrences(graph: WorkGraph, vertex: int, count: int) -> NDArray[np.int64]:
    """Return the number of the outermost occurrence for each shift of an atom."""
    first = _occurrence(occurrence_path(graph, vertex, 0))
    if count == 1:
        return np.array([first])
    # The shifts of inner recurrences are counted first: those of one occurrence are neighbours.
    last = _occurrence(occurrence_path(graph, vertex, count - 1))
    return first + np.arange(count) // (count // (last - first + 1))


def _occurrence(path: str) -> int:
    """Return the number of the outermost occurrence on a path."""
    return int(path.partition("@")[2].partition(".")[0].partition("@")[0] or 0)


def _shortest(graph: WorkGraph, runs: int) -> int:
    """Return the shortest length of one run in steps.

    With several runs, the root has one vertex for all (EVERY), one for each, or the parts of each
    if a run is an `all`.
    """
    root = len(graph.vertices) - 1
    if runs == 1 and graph.vertices[root, KIND] != EVERY:
        return int(graph.vertices[root, SHORTEST])
    if _outermost(graph.expression) is None:
        return int(graph.vertices[root, SHORTEST])
    inside = graph.vertices[:, PARENT] == root
    return int(graph.vertices[inside, SHORTEST].max())


def _often(every: Every | None, runs: int) -> str:
    if every is None:
        return "once"
    words = [f"every {_period(every)}", *_day_words(every)]
    if every.without:
        count = len(every.without)
        words.append(f"not on {count} date{'s' * (count != 1)}")
    if every.zone is not None:
        words.append(f"by the calendar of {every.zone}")
    endless = every.is_endless
    planned = f"{runs} run{'s' * (runs != 1)}"
    words.append(f"without end ({planned} before the horizon)" if endless else planned)
    return ", ".join(words)


def _period(every: Every) -> str:
    if every.has_only_dates:
        return "date of a list"
    if every.months:
        names = {1: "month", 12: "year"}
        return names.get(every.months) or f"{every.months} months"
    names = {_HOUR_MS: "hour", 24 * _HOUR_MS: "day", 7 * 24 * _HOUR_MS: "week"}
    return names.get(every.period_ms) or duration_text(every.period_ms)


def _day_words(every: Every) -> Iterator[str]:
    """Yield words for the days on which a recurrence runs, if it names any."""
    if every.months:
        day = every.day or MonthDay(1)
        words = month_day_text(day)
        if day.weekday is None:
            words = f"day {words}" if day.number > 0 else "the last day"
        yield f"on {words}" if day.weekday is None else f"on the {words}"
    if every.days is not None:
        yield f"on {', '.join(day_words(every.days))}"
    if every.dates:
        also = "" if every.has_only_dates else "also "
        yield f"{also}on {len(every.dates)} date{'s' * (len(every.dates) != 1)}"


def _ranges(least: Amounts, most: Amounts) -> dict[str, tuple[int, int]]:
    return {name: (least.get(name, 0), high) for name, high in sorted(most.items())}


def _joined(ranges: Mapping[str, tuple[int, int]], text: object) -> str:
    assert callable(text)
    parts = [
        text(name, low) if low == high else f"{text(name, low)} to {text(name, high)}"
        for name, (low, high) in ranges.items()
    ]
    return ", ".join(parts)


def _work_text(name: str, amount_ms: int) -> str:
    """Return ``12.5 cpu-hours``, ``3 GiB-hours of memory``."""
    hours = amount_ms / _HOUR_MS
    if name == CPU:
        return f"{_number(hours / 1000)} cpu-hours"
    if name == MEMORY:
        return f"{_number(hours / _MIB_IN_GIB)} GiB-hours of memory"
    return f"{_number(hours)} {name}-hours"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _between(window: RunWindow, zone: str | None, grid: TimeGrid) -> str:
    start, end = (_time(ms, zone, grid) for ms in (window.start_ms, window.end_ms))
    place = "" if grid.origin is None else f" ({zone or grid.zone or UTC_ZONE})"
    return f"between {start} and {end}{place}"


def _time(ms: int, zone: str | None, grid: TimeGrid) -> str:
    """Return an instant as local time of the zone, else the time from the origin."""
    if grid.origin is None:
        return duration_text(ms)
    return clock_words(local_instant(ms, grid, zone))


def _window_json(window: RunWindow, zone: str | None, grid: TimeGrid) -> dict[str, object]:
    entry: dict[str, object] = {"start": window.start_ms / 1000, "end": window.end_ms / 1000}
    if grid.origin is not None:
        for name, ms in (("start_at", window.start_ms), ("end_at", window.end_ms)):
            entry[name] = local_instant(ms, grid, zone).isoformat(timespec="seconds")
    return entry


@dataclass(slots=True)
class RunDemand:
    """Work and concurrent amounts of a run, by resource."""

    work: Amounts
    at_once: Amounts


def demand_of(graph: WorkGraph, runs: int) -> tuple[RunDemand, RunDemand]:
    """Return the smallest and the largest demand of one of `runs` runs.

    Unsatisfiable options do not count; parts of a recurrence inside a run count once per
    occurrence.
    """
    found = _demand(graph.expression, "", _counts(graph, runs))
    return found or (RunDemand({}, {}), RunDemand({}, {}))


def _counts(graph: WorkGraph, runs: int) -> dict[str, int]:
    """Return the number of occurrences of each atom in a run, by path without occurrences."""
    counts: dict[str, int] = {}
    kept: set[str] = set()
    for vertex in graph.atoms.tolist():
        for part in parts_of(graph, vertex):
            path = _OCCURRENCE.sub("", part.path)
            counts[path] = counts.get(path, 0) + int(graph.vertices[vertex, SHIFT_COUNT])
            if graph.vertices[vertex, SATISFIABLE]:
                kept.add(path)
    return {path: max(1, counts[path] // runs) for path in kept}


def _demand(
    here: Expression, path: str, counts: Mapping[str, int]
) -> tuple[RunDemand, RunDemand] | None:
    """Return the smallest and the largest demand of an expression; None if it is left out."""
    if isinstance(here, Atom):
        return _demand_of_atom(here, counts[path]) if path in counts else None
    found = [
        _demand(child, f"{path}.{index}" if path else str(index), counts)
        for index, child in enumerate(children_of(here))
    ]
    parts = [part for part in found if part is not None]
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if isinstance(here, AnyOf):
        least = RunDemand(_least([one.work for one in lows]), _least([one.at_once for one in lows]))
        most = RunDemand(_most([one.work for one in highs]), _most([one.at_once for one in highs]))
        return (least, most) if parts else None
    if len(parts) < len(found):
        return None
    together = _most if _one_by_one(here) else _sum
    at_least = _sum if isinstance(here, Together) else _most
    return (
        RunDemand(_sum([one.work for one in lows]), at_least([one.at_once for one in lows])),
        RunDemand(_sum([one.work for one in highs]), together([one.at_once for one in highs])),
    )


def _demand_of_atom(atom: Atom, count: int) -> tuple[RunDemand, RunDemand]:
    """Return the smallest and the largest demand of `count` occurrences, in whole gangs."""
    low, high = heights_of(atom.minimum, atom.maximum, atom.multiple)
    items = atom.bundle.items_
    work = {name: amount * atom.work_ms * count for name, amount in items}
    held = {name: amount * low * atom.multiple for name, amount in items}
    most = {name: amount * high * atom.multiple for name, amount in items}
    return RunDemand(work, held), RunDemand(work, most)


def _one_by_one(here: Expression) -> bool:
    """Return whether no two children can run at the same time."""
    if isinstance(here, Order):
        return True
    if not isinstance(here, Graph):
        return False
    follows = {(edge.before, edge.after) for edge in here.edges}
    count = len(here.children)
    return all((one, one + 1) in follows for one in range(count - 1))


def _least(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: min(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _most(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: max(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _sum(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: sum(amounts.get(name, 0) for amounts in all_amounts) for name in names}
